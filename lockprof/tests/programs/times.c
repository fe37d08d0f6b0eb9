/* The results of locks for invalid times and clocks, and for some valid ones. They are the same
 * with and without recording. Each line of output is a case and its result. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "expect.h"

static const struct timespec times[] = {
    { .tv_sec = 1, .tv_nsec = 0 },
    { .tv_sec = 1, .tv_nsec = 999999999 },
    { .tv_sec = 1, .tv_nsec = 1000000000 },
    { .tv_sec = 1, .tv_nsec = -1 },
    { .tv_sec = -1, .tv_nsec = 0 },
    { .tv_sec = -1, .tv_nsec = -1 },
    { .tv_sec = 0x7fffffffffffffff, .tv_nsec = 0x7fffffffffffffff },
};
static const clockid_t clocks[] = {
    CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_THREAD_CPUTIME_ID, 99, -1, -6,
};
enum { TIMES = sizeof times / sizeof *times, CLOCKS = sizeof clocks / sizeof *clocks };

static const char *what;

static void say(int clock, int time, int code)
{
    printf("%s clock %d time %d: %d errno %d\n", what, clock, time, code, errno);
}

#define WITH_TIMES(call, undo)                                       \
    for (int t = 0; t < TIMES; t++) {                                \
        errno = 7;                                                   \
        int code = call;                                             \
        say(-1, t, code);                                            \
        if (code == 0 || code == EOWNERDEAD)                         \
            undo;                                                    \
    }

#define WITH_CLOCKS(call, undo)                                      \
    for (int c = 0; c < CLOCKS; c++)                                 \
        for (int t = 0; t < TIMES; t++) {                            \
            errno = 7;                                               \
            int code = call;                                         \
            say(c, t, code);                                         \
            if (code == 0 || code == EOWNERDEAD)                     \
                undo;                                                \
        }

static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static mtx_t mtx;
static cnd_t cnd;
static pthread_barrier_t barrier;

static void mutex_cases(void)
{
    WITH_TIMES(pthread_mutex_timedlock(&mutex, &times[t]), pthread_mutex_unlock(&mutex));
    WITH_CLOCKS(pthread_mutex_clocklock(&mutex, clocks[c], &times[t]),
                pthread_mutex_unlock(&mutex));
}

static void rwlock_cases(void)
{
    WITH_TIMES(pthread_rwlock_timedrdlock(&rwlock, &times[t]), pthread_rwlock_unlock(&rwlock));
    WITH_TIMES(pthread_rwlock_timedwrlock(&rwlock, &times[t]), pthread_rwlock_unlock(&rwlock));
    WITH_CLOCKS(pthread_rwlock_clockrdlock(&rwlock, clocks[c], &times[t]),
                pthread_rwlock_unlock(&rwlock));
    WITH_CLOCKS(pthread_rwlock_clockwrlock(&rwlock, clocks[c], &times[t]),
                pthread_rwlock_unlock(&rwlock));
}

static void mtx_cases(void)
{
    WITH_TIMES(mtx_timedlock(&mtx, &times[t]), mtx_unlock(&mtx));
}

/* Holds all locks, the rwlock first for writing and then for reading. */
static void *holder(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    mtx_lock(&mtx);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    pthread_rwlock_unlock(&rwlock);
    pthread_rwlock_rdlock(&rwlock);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_unlock(&rwlock);
    mtx_unlock(&mtx);
    return NULL;
}

static void cond_cases(void)
{
    WITH_TIMES(pthread_cond_timedwait(&cond, &mutex, &times[t]), MUST(0));
    WITH_CLOCKS(pthread_cond_clockwait(&cond, &mutex, clocks[c], &times[t]), MUST(0));
}

static void all(int type, int protocol, int robust)
{
    char name[64];
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, type) == 0);
    MUST(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    MUST(pthread_mutexattr_setrobust(&attributes, robust) == 0);
    MUST(pthread_mutex_init(&mutex, &attributes) == 0);
    MUST(mtx_init(&mtx, mtx_timed) == thrd_success);
    MUST(cnd_init(&cnd) == thrd_success);

    snprintf(name, sizeof name, "type %d protocol %d robust %d", type, protocol, robust);
    what = name;
    printf("free\n");
    mutex_cases();
    rwlock_cases();
    mtx_cases();

    printf("ours\n");
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    if (type != PTHREAD_MUTEX_NORMAL)
        mutex_cases();
    rwlock_cases();
    cond_cases();
    mtx_lock(&mtx);
    WITH_TIMES(cnd_timedwait(&cnd, &mtx, &times[t]), MUST(0));
    mtx_unlock(&mtx);
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_unlock(&mutex);

    pthread_t thread;
    MUST(pthread_barrier_init(&barrier, NULL, 2) == 0);
    MUST(pthread_create(&thread, NULL, holder, NULL) == 0);
    pthread_barrier_wait(&barrier);
    printf("another's\n");
    mutex_cases();
    rwlock_cases();
    mtx_cases();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    printf("another's, for reading\n");
    rwlock_cases();
    pthread_barrier_wait(&barrier);
    MUST(pthread_join(thread, NULL) == 0);

    /* They can be destroyed only if no thread has them. */
    printf("destroyed %d %d\n", pthread_mutex_destroy(&mutex), pthread_rwlock_trywrlock(&rwlock));
    pthread_rwlock_unlock(&rwlock);
    mtx_destroy(&mtx);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    for (int type = PTHREAD_MUTEX_NORMAL; type <= PTHREAD_MUTEX_ERRORCHECK; type++)
        for (int robust = 0; robust <= 1; robust++) {
            all(type, PTHREAD_PRIO_NONE, robust);
            all(type, PTHREAD_PRIO_INHERIT, robust);
        }
    return 0;
}
