/* Threads take their first locks at the same time while signals arrive. errno stays the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "expect.h"

enum { THREADS = 16 };

static pthread_mutex_t mutexes[THREADS];
static pthread_barrier_t barrier;
static int ended;

static void on_signal(int number)
{
    (void)number;
}

/* Makes a call, and checks that the call leaves errno alone. */
#define KEEPS(call)        \
    do {                   \
        errno = 77;        \
        MUST(call);        \
        MUST(errno == 77); \
    } while (0)

static void *in_thread(void *arg)
{
    pthread_mutex_t *mutex = arg;
    pthread_barrier_wait(&barrier);
    KEEPS(pthread_mutex_lock(mutex) == 0);
    KEEPS(pthread_mutex_trylock(mutex) == EBUSY);
    KEEPS(pthread_mutex_unlock(mutex) == 0);
    held(MUTEX, 1);
    did(MUTEX, TRY_FAILED, 1);
    /* Signals are sent to threads that exist. */
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *disturb(void *arg)
{
    pthread_t *threads = arg;
    pthread_barrier_wait(&barrier);
    while (__atomic_load_n(&ended, __ATOMIC_RELAXED) < THREADS)
        for (int i = 0; i < THREADS; i++)
            MUST(pthread_kill(threads[i], SIGUSR1) == 0);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void all_at_once(void)
{
    static pthread_t threads[THREADS];
    pthread_t disturber;
    MUST(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, in_thread, &mutexes[i]) == 0);
    MUST(pthread_create(&disturber, NULL, disturb, threads) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(pthread_join(disturber, NULL) == 0);
}

int main(void)
{
    /* Interrupted calls are not restarted. */
    struct sigaction action = { .sa_handler = on_signal };
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    /* Each child makes a profile, with many threads that wait for it. */
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            all_at_once();
            say_expected();
            _exit(0);
        }
        int status;
        MUST(waitpid(child, &status, 0) == child);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
