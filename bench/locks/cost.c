/* The cost of an uncontended lock and unlock: cost [ROUNDS] */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define COST(what, take, leave)                                    \
    do {                                                           \
        double best = 1e18;                                        \
        for (int turn = 0; turn < 5; turn++) {                     \
            double start = now_ns();                               \
            for (long i = 0; i < rounds; i++) {                    \
                take;                                              \
                leave;                                             \
            }                                                      \
            double cost = (now_ns() - start) / rounds;             \
            best = cost < best ? cost : best;                      \
        }                                                          \
        printf("%-22s %6.1f ns\n", what, best);                    \
    } while (0)

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 2000000;
    pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
    COST("mutex", pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex));
    COST("mutex, tried", pthread_mutex_trylock(&mutex), pthread_mutex_unlock(&mutex));
    COST("recursive mutex", pthread_mutex_lock(&again), pthread_mutex_unlock(&again));
    COST("rwlock for reading", pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock));
    COST("rwlock for writing", pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock));
    COST("spinlock", pthread_spin_lock(&spinlock), pthread_spin_unlock(&spinlock));
    return 0;
}
