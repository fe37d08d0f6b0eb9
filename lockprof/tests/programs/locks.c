/* A program that takes the locks of C in every possible way. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "expect.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void nap(long ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&time, NULL);
}

/* A thread that has a lock while another wants it. */
struct holder {
    int (*take)(void);
    int (*leave)(void);
    sem_t has_it, may_go;
};

static void *hold(void *arg)
{
    struct holder *holder = arg;
    MUST(holder->take() == 0);
    sem_post(&holder->has_it);
    while (sem_wait(&holder->may_go)) { }
    MUST(holder->leave() == 0);
    sem_post(&holder->has_it);
    return NULL;
}

static pthread_t start(struct holder *holder, int (*take)(void), int (*leave)(void))
{
    pthread_t thread;
    holder->take = take;
    holder->leave = leave;
    sem_init(&holder->has_it, 0, 0);
    sem_init(&holder->may_go, 0, 0);
    MUST(pthread_create(&thread, NULL, hold, holder) == 0);
    while (sem_wait(&holder->has_it)) { }
    return thread;
}

static void stop(struct holder *holder, pthread_t thread)
{
    sem_post(&holder->may_go);
    while (sem_wait(&holder->has_it)) { }
    MUST(pthread_join(thread, NULL) == 0);
}

static int take_mutex(void) { return pthread_mutex_lock(&mutex); }
static int leave_mutex(void) { return pthread_mutex_unlock(&mutex); }
static int read_rwlock(void) { return pthread_rwlock_rdlock(&rwlock); }
static int write_rwlock(void) { return pthread_rwlock_wrlock(&rwlock); }
static int leave_rwlock(void) { return pthread_rwlock_unlock(&rwlock); }

static void plain(long n)
{
    for (long i = 0; i < n; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    held(MUTEX, n);
}

static long each_thread_locks;

/* No thread ends before all have begun, so the number of threads at one time is known. */
static pthread_barrier_t all_done;

static void *lock_often(void *arg)
{
    unsigned long *sum = arg;
    for (long i = 0; i < each_thread_locks; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        ++*sum;
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    held(MUTEX, each_thread_locks);
    pthread_barrier_wait(&all_done);
    return NULL;
}

static void threads(long n)
{
    pthread_t ids[64];
    unsigned long sum = 0;
    each_thread_locks = 64000 / n;
    MUST(pthread_barrier_init(&all_done, NULL, (unsigned)n) == 0);
    for (long i = 0; i < n; i++)
        MUST(pthread_create(&ids[i], NULL, lock_often, &sum) == 0);
    for (long i = 0; i < n; i++)
        MUST(pthread_join(ids[i], NULL) == 0);
    MUST(sum == (unsigned long)(each_thread_locks * n));
}

/* Five failed try-locks with a sleep after each, then a try-lock that succeeds. */
static void tries(long n)
{
    struct holder holder;
    pthread_t thread = start(&holder, take_mutex, leave_mutex);
    for (int i = 0; i < 5; i++) {
        MUST(pthread_mutex_trylock(&mutex) == EBUSY);
        nap(n);
    }
    stop(&holder, thread);
    MUST(pthread_mutex_trylock(&mutex) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    did(MUTEX, TRY_FAILED, 5);
    did(MUTEX, DELAYS, 1);
    held(MUTEX, 2);
}

static void timed(long ms)
{
    struct holder holder;
    pthread_t thread = start(&holder, take_mutex, leave_mutex);
    for (int i = 0; i < 3; i++) {
        struct timespec until = in_ms(CLOCK_REALTIME, ms);
        MUST(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
        until = in_ms(CLOCK_MONOTONIC, ms);
        MUST(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    }
    stop(&holder, thread);
    struct timespec until = in_ms(CLOCK_REALTIME, 10000);
    MUST(pthread_mutex_timedlock(&mutex, &until) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    until = in_ms(CLOCK_MONOTONIC, 10000);
    MUST(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    did(MUTEX, TIMED_OUT, 6);
    /* The delay lasts from the first timeout until the thread has the lock. */
    did(MUTEX, DELAYS, 1);
    held(MUTEX, 3);
}

static int is_coming;

static void *wait_for_mutex(void *arg)
{
    (void)arg;
    __atomic_store_n(&is_coming, 1, __ATOMIC_RELEASE);
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

static void waits(long ms)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        is_coming = 0;
        MUST(pthread_create(&thread, NULL, wait_for_mutex, NULL) == 0);
        while (!__atomic_load_n(&is_coming, __ATOMIC_ACQUIRE))
            nap(1);
        nap(ms);
        MUST(pthread_mutex_unlock(&mutex) == 0);
        MUST(pthread_join(thread, NULL) == 0);
    }
    held(MUTEX, 6);
}

/* Two readers at one call site: one releases the lock while the other still blocks a writer. */
static void readers(long n)
{
    struct holder first, second;
    for (long i = 0; i < n; i++) {
        pthread_t threads[] = {
            start(&first, read_rwlock, leave_rwlock),
            start(&second, read_rwlock, leave_rwlock),
        };
        stop(&first, threads[0]);
        MUST(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
        stop(&second, threads[1]);
    }
    held(READING, 2 * n);
    did(READING, SHARED, 2 * n);
    did(WRITING, TRY_FAILED, n);
}

static void *try_mutex_once(void *arg)
{
    MUST(pthread_mutex_trylock(&mutex) == EBUSY);
    return arg;
}

/* Every second attempt of each thread is skipped. */
static void sampled(long ms)
{
    struct holder holder;
    pthread_t thread = start(&holder, take_mutex, leave_mutex);
    MUST(pthread_mutex_trylock(&mutex) == EBUSY);
    stop(&holder, thread);
    MUST(pthread_mutex_trylock(&mutex) == 0);
    MUST(pthread_create(&thread, NULL, try_mutex_once, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    nap(ms);
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    held(MUTEX, 2);
    did(MUTEX, TRY_FAILED, 2);
    did(MUTEX, DELAYS, 1);
}

static pthread_mutex_t made(int kind, int robust)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t made;
    MUST(pthread_mutexattr_init(&attributes) == 0);
    MUST(pthread_mutexattr_settype(&attributes, kind) == 0);
    MUST(pthread_mutexattr_setrobust(&attributes, robust) == 0);
    MUST(pthread_mutex_init(&made, &attributes) == 0);
    return made;
}

static void recursive(long n)
{
    pthread_mutex_t m = made(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    pthread_mutex_t constant = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    struct timespec until = in_ms(CLOCK_REALTIME, 1000);
    for (long i = 0; i < n; i++) {
        MUST(pthread_mutex_lock(&m) == 0);
        MUST(pthread_mutex_lock(&m) == 0);
        MUST(pthread_mutex_trylock(&m) == 0);
        MUST(pthread_mutex_timedlock(&m, &until) == 0);
        for (int depth = 0; depth < 3; depth++)
            MUST(pthread_mutex_unlock(&m) == 0);
        if (i == 0)
            nap(20);
        MUST(pthread_mutex_unlock(&m) == 0);
        MUST(pthread_mutex_unlock(&m) == EPERM);
        MUST(pthread_mutex_trylock(&constant) == 0);
        MUST(pthread_mutex_lock(&constant) == 0);
        MUST(pthread_mutex_unlock(&constant) == 0);
        MUST(pthread_mutex_unlock(&constant) == 0);
    }
    MUST(pthread_mutex_destroy(&m) == 0);
    held(MUTEX, 2 * n);
}

static void checking(long n)
{
    pthread_mutex_t m = made(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    pthread_mutex_t constant = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    for (long i = 0; i < n; i++) {
        MUST(pthread_mutex_unlock(&m) == EPERM);
        MUST(pthread_mutex_lock(&m) == 0);
        MUST(pthread_mutex_lock(&m) == EDEADLK);
        MUST(pthread_mutex_trylock(&m) == EBUSY);
        MUST(pthread_mutex_unlock(&m) == 0);
        MUST(pthread_mutex_unlock(&m) == EPERM);
        /* This attempt succeeds after the failed try-lock. */
        MUST(pthread_mutex_trylock(&m) == 0);
        MUST(pthread_mutex_unlock(&m) == 0);
        MUST(pthread_mutex_lock(&constant) == 0);
        MUST(pthread_mutex_unlock(&constant) == 0);
    }
    MUST(pthread_mutex_lock(&m) == 0);
    MUST(pthread_mutex_destroy(&m) == EBUSY);
    MUST(pthread_mutex_unlock(&m) == 0);
    MUST(pthread_mutex_destroy(&m) == 0);
    did(MUTEX, TRY_FAILED, n);
    did(MUTEX, DELAYS, n);
    held(MUTEX, 3 * n + 1);
}

static pthread_mutex_t robust_mutex;

static void *die_with_it(void *arg)
{
    (void)arg;
    MUST(pthread_mutex_lock(&robust_mutex) == 0);
    did(MUTEX, COUNT, 1);
    return NULL;
}

static void let_die(void)
{
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, die_with_it, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
}

static void robust(long n)
{
    for (long i = 0; i < n; i++) {
        robust_mutex = made(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
        let_die();
        MUST(pthread_mutex_lock(&robust_mutex) == EOWNERDEAD);
        MUST(pthread_mutex_consistent(&robust_mutex) == 0);
        MUST(pthread_mutex_unlock(&robust_mutex) == 0);
        let_die();
        MUST(pthread_mutex_trylock(&robust_mutex) == EOWNERDEAD);
        MUST(pthread_mutex_unlock(&robust_mutex) == 0);
        MUST(pthread_mutex_lock(&robust_mutex) == ENOTRECOVERABLE);
        MUST(pthread_mutex_lock(&robust_mutex) == ENOTRECOVERABLE);
        MUST(pthread_mutex_trylock(&robust_mutex) == ENOTRECOVERABLE);
        MUST(pthread_mutex_destroy(&robust_mutex) == 0);
    }
    did(MUTEX, OWNER_DIED, 2 * n);
    held(MUTEX, 2 * n);
}

static int turn, turns;

static void *other_side(void *arg)
{
    (void)arg;
    MUST(pthread_mutex_lock(&mutex) == 0);
    held(MUTEX, 1);
    while (turn < turns) {
        if (turn % 2 == 0) {
            MUST(pthread_cond_wait(&cond, &mutex) == 0);
            held(SLEPT, 1);
            did(SLEPT, ASLEEP, 1);
            continue;
        }
        turn++;
        MUST(pthread_cond_signal(&cond) == 0);
    }
    MUST(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

static void conditions(long n)
{
    pthread_t thread;
    turns = 2 * n;
    MUST(pthread_create(&thread, NULL, other_side, NULL) == 0);
    MUST(pthread_mutex_lock(&mutex) == 0);
    held(MUTEX, 1);
    while (turn < turns) {
        if (turn % 2 == 1) {
            struct timespec until = in_ms(CLOCK_REALTIME, 60000);
            MUST(pthread_cond_timedwait(&cond, &mutex, &until) == 0);
            held(SLEPT, 1);
            did(SLEPT, ASLEEP, 1);
            continue;
        }
        turn++;
        MUST(pthread_cond_signal(&cond) == 0);
    }
    struct timespec until = in_ms(CLOCK_MONOTONIC, 2), none = { 0, -1 };
    MUST(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    held(SLEPT, 1);
    did(SLEPT, ASLEEP, 1);
    MUST(pthread_cond_timedwait(&cond, &mutex, &none) == EINVAL);
    MUST(pthread_cond_clockwait(&cond, &mutex, 77, &until) == EINVAL);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    MUST(pthread_join(thread, NULL) == 0);

    pthread_mutex_t m = made(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    MUST(pthread_mutex_lock(&m) == 0);
    held(MUTEX, 1);
    until = in_ms(CLOCK_REALTIME, 1);
    MUST(pthread_cond_timedwait(&cond, &m, &until) == ETIMEDOUT);
    held(SLEPT, 1);
    did(SLEPT, ASLEEP, 1);
    MUST(pthread_mutex_unlock(&m) == 0);
    MUST(pthread_mutex_destroy(&m) == 0);
}

static void rwlocks(long n)
{
    pthread_rwlock_t made;
    MUST(pthread_rwlock_init(&made, NULL) == 0);
    struct timespec until = in_ms(CLOCK_REALTIME, 10000);
    struct timespec on_clock = in_ms(CLOCK_MONOTONIC, 10000);
    for (long i = 0; i < n; i++) {
        MUST(pthread_rwlock_rdlock(&made) == 0);
        MUST(pthread_rwlock_tryrdlock(&made) == 0);
        MUST(pthread_rwlock_timedrdlock(&made, &until) == 0);
        MUST(pthread_rwlock_clockrdlock(&made, CLOCK_MONOTONIC, &on_clock) == 0);
        for (int reader = 0; reader < 4; reader++)
            MUST(pthread_rwlock_unlock(&made) == 0);
        MUST(pthread_rwlock_wrlock(&made) == 0);
        MUST(pthread_rwlock_rdlock(&made) == EDEADLK);
        MUST(pthread_rwlock_unlock(&made) == 0);
        MUST(pthread_rwlock_trywrlock(&made) == 0);
        MUST(pthread_rwlock_unlock(&made) == 0);
        MUST(pthread_rwlock_timedwrlock(&made, &until) == 0);
        MUST(pthread_rwlock_unlock(&made) == 0);
        MUST(pthread_rwlock_clockwrlock(&made, CLOCK_MONOTONIC, &on_clock) == 0);
        MUST(pthread_rwlock_unlock(&made) == 0);
    }
    MUST(pthread_rwlock_destroy(&made) == 0);
    held(READING, 4 * n);
    did(READING, SHARED, 4 * n);
    held(WRITING, 4 * n);

    struct holder holder;
    pthread_t thread = start(&holder, read_rwlock, leave_rwlock);
    MUST(pthread_rwlock_tryrdlock(&rwlock) == 0);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    MUST(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    until = in_ms(CLOCK_REALTIME, 5);
    MUST(pthread_rwlock_timedwrlock(&rwlock, &until) == ETIMEDOUT);
    stop(&holder, thread);
    held(READING, 2);
    did(READING, SHARED, 2);
    did(WRITING, TRY_FAILED, 1);
    did(WRITING, TIMED_OUT, 1);

    thread = start(&holder, write_rwlock, leave_rwlock);
    MUST(pthread_rwlock_tryrdlock(&rwlock) == EBUSY);
    on_clock = in_ms(CLOCK_MONOTONIC, 5);
    MUST(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &on_clock) == ETIMEDOUT);
    stop(&holder, thread);
    MUST(pthread_rwlock_rdlock(&rwlock) == 0);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    held(WRITING, 1);
    did(READING, TRY_FAILED, 1);
    did(READING, TIMED_OUT, 1);
    held(READING, 1);
    did(READING, SHARED, 1);
    /* The delay ends when the reader gets the lock, and counts at the site of the first try. */
    did(WRITING, DELAYS, 1);
}

static void spinlocks(long n)
{
    pthread_spinlock_t spinlock;
    MUST(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0);
    for (long i = 0; i < n; i++) {
        MUST(pthread_spin_lock(&spinlock) == 0);
        MUST(pthread_spin_trylock(&spinlock) == EBUSY);
        MUST(pthread_spin_unlock(&spinlock) == 0);
        MUST(pthread_spin_trylock(&spinlock) == 0);
        MUST(pthread_spin_unlock(&spinlock) == 0);
    }
    MUST(pthread_spin_destroy(&spinlock) == 0);
    held(SPIN, 2 * n);
    did(SPIN, TRY_FAILED, n);
    did(SPIN, DELAYS, n);
}

static void c11(long n)
{
    mtx_t m, timed, nested;
    cnd_t c;
    MUST(mtx_init(&m, mtx_plain) == thrd_success);
    MUST(mtx_init(&timed, mtx_timed) == thrd_success);
    MUST(mtx_init(&nested, mtx_plain | mtx_recursive) == thrd_success);
    MUST(cnd_init(&c) == thrd_success);
    for (long i = 0; i < n; i++) {
        struct timespec until = in_ms(CLOCK_REALTIME, 10000);
        MUST(mtx_lock(&m) == thrd_success);
        MUST(mtx_trylock(&m) == thrd_busy);
        MUST(mtx_unlock(&m) == thrd_success);
        MUST(mtx_trylock(&m) == thrd_success);
        MUST(mtx_unlock(&m) == thrd_success);
        MUST(mtx_timedlock(&timed, &until) == thrd_success);
        until = in_ms(CLOCK_REALTIME, 1);
        MUST(mtx_timedlock(&timed, &until) == thrd_timedout);
        MUST(cnd_timedwait(&c, &timed, &until) == thrd_timedout);
        MUST(mtx_unlock(&timed) == thrd_success);
        MUST(mtx_lock(&nested) == thrd_success);
        MUST(mtx_lock(&nested) == thrd_success);
        MUST(mtx_unlock(&nested) == thrd_success);
        MUST(mtx_unlock(&nested) == thrd_success);
    }
    mtx_destroy(&m);
    mtx_destroy(&timed);
    mtx_destroy(&nested);
    cnd_destroy(&c);
    held(MUTEX, 4 * n);
    held(SLEPT, n);
    did(SLEPT, ASLEEP, n);
    did(MUTEX, TRY_FAILED, n);
    did(MUTEX, TIMED_OUT, n);
    did(MUTEX, DELAYS, 2 * n);
}

/* Locks that are made and destroyed in the same memory, more than there are rows. */
static void reuse(long n)
{
    static union { pthread_mutex_t mutex; pthread_rwlock_t rwlock; } room[3];
    for (long i = 0; i < n; i++) {
        int place = i % 3;
        if (i % 2) {
            MUST(pthread_rwlock_init(&room[place].rwlock, NULL) == 0);
            MUST(pthread_rwlock_wrlock(&room[place].rwlock) == 0);
            MUST(pthread_rwlock_trywrlock(&room[place].rwlock) == EBUSY);
            MUST(pthread_rwlock_unlock(&room[place].rwlock) == 0);
            /* The next lock at this address is another one, so this delay never ends. */
            MUST(pthread_rwlock_destroy(&room[place].rwlock) == 0);
        } else {
            MUST(pthread_mutex_init(&room[place].mutex, NULL) == 0);
            MUST(pthread_mutex_lock(&room[place].mutex) == 0);
            MUST(pthread_mutex_unlock(&room[place].mutex) == 0);
            MUST(pthread_mutex_destroy(&room[place].mutex) == 0);
        }
    }
    held(MUTEX, n - n / 2);
    held(WRITING, n / 2);
    did(WRITING, TRY_FAILED, n / 2);
}

/* A thread holds more locks at one time than are recorded. */
static void many(long n)
{
    pthread_mutex_t *all = calloc(n, sizeof *all);
    for (long i = 0; i < n; i++)
        MUST(pthread_mutex_init(&all[i], NULL) == 0);
    for (long i = 0; i < n; i++)
        MUST(pthread_mutex_lock(&all[i]) == 0);
    for (long i = 0; i < n; i++)
        MUST(pthread_mutex_unlock(&all[i]) == 0);
    free(all);
    did(MUTEX, COUNT, n);
    did(MUTEX, HOLDS, n < 31 ? n : 31);
}

static const struct { const char *name; void (*run)(long); } cases[] = {
    { "plain", plain }, { "threads", threads }, { "tries", tries }, { "timed", timed },
    { "waits", waits }, { "recursive", recursive }, { "checking", checking },
    { "robust", robust }, { "conditions", conditions }, { "rwlocks", rwlocks },
    { "spinlocks", spinlocks }, { "c11", c11 }, { "reuse", reuse }, { "many", many },
    { "readers", readers }, { "sampled", sampled },
};

int main(int argc, char **argv)
{
    MUST(argc == 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run(atol(argv[2]));
            say_expected();
            return 0;
        }
    return 98;
}
