/* Two threads that take two locks in opposite orders, and wait for each other for ever. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *left_first(void *none)
{
    pthread_setname_np(pthread_self(), "left");
    pthread_mutex_lock(&left);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&right);
    return none;
}

static void *right_first(void *none)
{
    pthread_setname_np(pthread_self(), "right");
    pthread_mutex_lock(&right);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&left);
    return none;
}

int main(void)
{
    pthread_t one, other;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&one, NULL, left_first, NULL);
    pthread_create(&other, NULL, right_first, NULL);
    pthread_join(one, NULL);
    return 0;
}
