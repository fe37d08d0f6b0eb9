/* Programs that forbid themselves system calls, and take locks after that. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* The calls that are needed to start and to end threads come last. */
static const int forbidden[] = {
#ifdef SYS_open
    SYS_open, SYS_unlink, SYS_readlink,
#endif
    SYS_openat, SYS_read, SYS_pread64, SYS_fallocate, SYS_ftruncate, SYS_linkat, SYS_unlinkat,
    SYS_readlinkat, SYS_getrandom, SYS_prctl, SYS_gettid, SYS_getpid, SYS_prlimit64,
    SYS_process_vm_readv, SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield, SYS_clock_gettime,
    SYS_mmap, SYS_munmap, SYS_madvise, SYS_mprotect,
};

enum { ALL = sizeof forbidden / sizeof *forbidden, ALL_BUT_THREADS = ALL - 4 };

/* From now on a process that makes one of the first `count` calls is killed. */
static void forbid(int count, int by_system_call)
{
    struct sock_filter code[2 * ALL + 2];
    struct sock_fprog program = { .filter = code };
    unsigned short length = 0;
    code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                  offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = length;
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    errno = 77;
    if (by_system_call)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)
             == 0);
    else
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    MUST(errno == 77);
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

static void in_threads(int count, long n)
{
    pthread_t threads[64];
    for (int i = 0; i < count; i++)
        MUST(pthread_create(&threads[i], NULL, in_thread, (void *)n) == 0);
    for (int i = 0; i < count; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

/* Takes locks in new threads and in a child, as far as the filter still allows. */
static void go_on(void)
{
    take(1000);
    in_threads(20, 100);
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_mutex_trylock(&mutex) == EBUSY);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    held(MUTEX, 1);
    did(MUTEX, TRY_FAILED, 1);
    /* The child is filtered too, so it can't have a profile; its locks are not recorded. */
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        take(10);
        in_threads(2, 10);
        _exit(0);
    }
    must_end_well(child);
}

static void first(void)
{
    forbid(ALL_BUT_THREADS, 0);
    go_on();
}

static void late(void)
{
    take(5);
    in_threads(3, 5);
    forbid(ALL_BUT_THREADS, 1);
    go_on();
}

/* A child that takes no lock before it forbids itself the calls that a profile needs. */
static void in_a_child(void)
{
    take(5);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        memset(done, 0, sizeof done);
        own_pid = getpid();
        first();
        say_expected();
        _exit(0);
    }
    must_end_well(child);
    take(5);
}

static pthread_barrier_t barrier;

static void *after_the_filter(void *arg)
{
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    take((long)arg);
    pthread_barrier_wait(&barrier);
    pause();
    return NULL;
}

/* Threads that exist already, and take their first locks when almost no call is allowed. */
static void all_at_once(void)
{
    pthread_t thread;
    MUST(pthread_barrier_init(&barrier, NULL, 9) == 0);
    for (int i = 0; i < 8; i++)
        MUST(pthread_create(&thread, NULL, after_the_filter, (void *)100L) == 0);
    pthread_barrier_wait(&barrier);
    forbid(ALL, 1);
    pthread_barrier_wait(&barrier);
    take(100);
    pthread_barrier_wait(&barrier);
}

static void *at_once(void *arg)
{
    pthread_barrier_wait(&barrier);
    take((long)arg);
    pthread_barrier_wait(&barrier);
    pause();
    return NULL;
}

/* Threads take their first locks, so find their call sites, while a filter is set up for all. */
static void amid(void)
{
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            pthread_t thread;
            own_pid = getpid();
            MUST(pthread_barrier_init(&barrier, NULL, 9) == 0);
            for (int j = 0; j < 8; j++)
                MUST(pthread_create(&thread, NULL, at_once, (void *)10L) == 0);
            if (i % 2)
                take(1);
            pthread_barrier_wait(&barrier);
            forbid(ALL, 1);
            pthread_barrier_wait(&barrier);
            say_expected();
            _exit(0);
        }
        must_end_well(child);
    }
}

/* Only reading, writing and ending are allowed. Reading the clock is not. */
static void strict(int by_system_call)
{
    take(20);
    say_expected();
    if (by_system_call)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
    else
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == 0);
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    syscall(SYS_exit, 0);
}

/* From now on a thread that reads the clock gets a signal. */
static void no_clock(long n)
{
#ifdef __x86_64__
    MUST(prctl(PR_SET_TSC, 99, 0, 0, 0) == -1 && errno == EINVAL);
    take(n);
    MUST(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    in_threads(5, 10);
    take(10);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        take(10);
        _exit(0);
    }
    must_end_well(child);
    memset(done, 0, sizeof done);
#endif
    held(MUTEX, n);
}

/* Only asks what the system supports, so no filter is set up. */
static void refused(void)
{
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1 && errno == EFAULT);
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
    MUST(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1);
    take(7);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        memset(done, 0, sizeof done);
        own_pid = getpid();
        take(8);
        say_expected();
        _exit(0);
    }
    must_end_well(child);
}

/* A child that runs in the memory of a parent which has taken no lock yet. */
static void in_a_vfork(char *self)
{
    char *arguments[] = { self, "plain", "9", NULL };
    pid_t child = vfork();
    if (child == 0) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        forbid(0, 0);
        execv(self, arguments);
        _exit(97);
    }
    must_end_well(child);
    refused();
}

/* A library that was loaded after the first lock takes its own first lock when no scan for modules
 * is possible. */
static void plugin(void)
{
    take(1);
    void *library = dlopen("./plugin.so", RTLD_NOW);
    MUST(library != NULL);
    void (*plugged_in)(void) = (void (*)(void))dlsym(library, "plugged_in");
    MUST(plugged_in != NULL);
    forbid(ALL, 0);
    plugged_in();
    held(MUTEX, 1);
}

int main(int argc, char **argv)
{
    MUST(argc >= 2);
    own_pid = getpid();
    printf("begin\n");
    fflush(stdout);
    if (!strcmp(argv[1], "first"))
        first();
    else if (!strcmp(argv[1], "late"))
        late();
    else if (!strcmp(argv[1], "in a child"))
        in_a_child();
    else if (!strcmp(argv[1], "all at once"))
        all_at_once();
    else if (!strcmp(argv[1], "amid")) {
        amid();
        _exit(0);
    } else if (!strcmp(argv[1], "strict"))
        strict(0);
    else if (!strcmp(argv[1], "strict by system call"))
        strict(1);
    else if (!strcmp(argv[1], "no clock"))
        no_clock(20);
    else if (!strcmp(argv[1], "no clock from the beginning"))
        no_clock(0);
    else if (!strcmp(argv[1], "refused"))
        refused();
    else if (!strcmp(argv[1], "in a vfork"))
        in_a_vfork(argv[0]);
    else if (!strcmp(argv[1], "plugin"))
        plugin();
    else if (!strcmp(argv[1], "plain"))
        take(atol(argv[2]));
    else
        return 98;
    say_expected();
    _exit(0);
}
