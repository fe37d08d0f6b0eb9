/* Processes that fork and execute programs, and threads that begin and end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "expect.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void take(long n)
{
    for (long i = 0; i < n; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    held(MUTEX, n);
}

static void must_end_well(pid_t pid)
{
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *in_thread(void *arg)
{
    take((long)arg);
    return NULL;
}

/* A forked child and a child of this child, each with threads of its own. */
static void forks(long depth, int by_system_call)
{
    take(10 * depth);
    if (depth == 0)
        return;
    MUST(pthread_mutex_lock(&mutex) == 0);
    pid_t child = by_system_call ? (pid_t)syscall(SYS_fork) : fork();
    MUST(child >= 0);
    /* The child has the lock too; its profile begins without it. */
    MUST(pthread_mutex_unlock(&mutex) == 0);
    if (child == 0) {
        pthread_t thread;
        memset(done, 0, sizeof done);
        if (!by_system_call) {
            MUST(pthread_create(&thread, NULL, in_thread, (void *)depth) == 0);
            MUST(pthread_join(thread, NULL) == 0);
        }
        forks(depth - 1, by_system_call);
        say_expected();
        _exit(0);
    }
    held(MUTEX, 1);
    take(3);
    must_end_well(child);
}

static pthread_barrier_t barrier;

static void *begin(void *arg)
{
    pthread_barrier_wait(&barrier);
    take((long)arg);
    return NULL;
}

static void *fork_at_once(void *arg)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            alarm(60);
            memset(done, 0, sizeof done);
            take((long)arg);
            say_expected();
            _exit(0);
        }
        must_end_well(child);
    }
    return NULL;
}

/* Children that are forked while threads of their parent take its first locks. */
static void forks_at_once(long n)
{
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            pthread_t threads[4];
            alarm(60);
            MUST(pthread_barrier_init(&barrier, NULL, 4) == 0);
            for (int j = 0; j < 4; j++) {
                void *(*run)(void *) = j < 2 ? begin : fork_at_once;
                MUST(pthread_create(&threads[j], NULL, run, (void *)5L) == 0);
            }
            for (int j = 0; j < 4; j++)
                MUST(pthread_join(threads[j], NULL) == 0);
            say_expected();
            _exit(0);
        }
        must_end_well(child);
    }
    take(1);
}

static sigjmp_buf before;

static void on_alarm(int number)
{
    (void)number;
    siglongjmp(before, 1);
}

/* A signal handler jumps out of the first attempt at a lock. Then other threads take locks. */
static void jumps(long n)
{
    struct sigaction action = { .sa_handler = on_alarm };
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
            struct itimerval soon = { .it_value.tv_usec = 1 + 40 * i };
            struct itimerval never = { .it_value.tv_usec = 0 };
            pthread_t thread;
            if (sigsetjmp(before, 1) == 0) {
                MUST(setitimer(ITIMER_REAL, &soon, NULL) == 0);
                pthread_mutex_lock(&first);
            }
            MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
            signal(SIGALRM, SIG_DFL);
            alarm(60);
            MUST(pthread_create(&thread, NULL, in_thread, (void *)7L) == 0);
            MUST(pthread_join(thread, NULL) == 0);
            _exit(0);
        }
        must_end_well(child);
    }
    take(3);
}

/* Starts a program in two ways. The child takes no lock before it executes the program. */
static void starts(char *self)
{
    extern char **environ;
    char *arguments[] = { self, "plain", "7", NULL };
    pid_t child;
    take(5);
    MUST(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    must_end_well(child);
    child = vfork();
    if (child == 0) {
        execv(self, arguments);
        _exit(97);
    }
    must_end_well(child);
    take(5);
}

/* The same process executes another program. */
static void becomes(char *self)
{
    char *arguments[] = { self, "plain", "9", NULL };
    take(4);
    fflush(stdout);
    execv(self, arguments);
    MUST(0);
}

static pthread_key_t late_key;

static void late(void *arg)
{
    take((long)arg);
}

/* Threads that end at once, and take a lock in a late destructor. */
static void *short_life(void *arg)
{
    take(1);
    MUST(pthread_setspecific(late_key, (void *)1L) == 0);
    if ((long)arg % 2)
        pthread_exit(NULL);
    return NULL;
}

static void short_lives(long n)
{
    MUST(pthread_key_create(&late_key, late) == 0);
    for (long i = 0; i < n; i += 4) {
        pthread_t threads[4];
        for (long j = 0; j < 4; j++)
            MUST(pthread_create(&threads[j], NULL, short_life, (void *)j) == 0);
        for (long j = 0; j < 4; j++)
            MUST(pthread_join(threads[j], NULL) == 0);
    }
}

static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int is_waiting;

static void unlock(void *arg)
{
    MUST(pthread_mutex_unlock(arg) == 0);
}

static void *wait_forever(void *arg)
{
    (void)arg;
    MUST(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(unlock, &mutex);
    is_waiting = 1;
    for (;;)
        pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(1);
    return NULL;
}

/* Threads that are cancelled while they wait for a condition. */
static void cancelled(long n)
{
    for (long i = 0; i < n; i++) {
        pthread_t thread;
        void *result;
        is_waiting = 0;
        MUST(pthread_create(&thread, NULL, wait_forever, NULL) == 0);
        for (int seen = 0; !seen;) {
            take(1);
            MUST(pthread_mutex_lock(&mutex) == 0);
            seen = is_waiting;
            MUST(pthread_mutex_unlock(&mutex) == 0);
            held(MUTEX, 1);
        }
        MUST(pthread_cancel(thread) == 0);
        MUST(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
        held(MUTEX, 1);
    }
}

/* A process that gives up its rights, if it has any, before it takes a lock. */
static void gives_up(void)
{
    if (geteuid() == 0) {
        MUST(chroot("/proc") == 0);
        MUST(setuid(65534) == 0);
    }
    take(6);
}

/* A thread whose stack is as small as the system allows. */
static void small_stack(long n)
{
    pthread_attr_t attributes;
    pthread_t thread;
    MUST(pthread_attr_init(&attributes) == 0);
    MUST(pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN)) == 0);
    MUST(pthread_create(&thread, &attributes, in_thread, (void *)n) == 0);
    MUST(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    MUST(argc >= 2);
    long n = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(argv[1], "plain"))
        take(n);
    else if (!strcmp(argv[1], "forks"))
        forks(n, 0);
    else if (!strcmp(argv[1], "system forks"))
        forks(n, 1);
    else if (!strcmp(argv[1], "forks at once"))
        forks_at_once(n);
    else if (!strcmp(argv[1], "jumps"))
        jumps(n);
    else if (!strcmp(argv[1], "starts"))
        starts(argv[0]);
    else if (!strcmp(argv[1], "becomes"))
        becomes(argv[0]);
    else if (!strcmp(argv[1], "short lives"))
        short_lives(n);
    else if (!strcmp(argv[1], "cancelled"))
        cancelled(n);
    else if (!strcmp(argv[1], "gives up"))
        gives_up();
    else if (!strcmp(argv[1], "small stack"))
        small_stack(n);
    else
        return 98;
    say_expected();
    return 0;
}
