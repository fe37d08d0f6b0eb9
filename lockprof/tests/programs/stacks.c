/* Locks that are taken on stacks of all kinds, and with arbitrary frame pointers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "expect.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Takes the mutex while the register that points to the caller's frame has this value. */
int lock_with_frame(pthread_mutex_t *mutex, unsigned long frame);
__asm__(".text\n"
        ".globl lock_with_frame\n"
        ".type lock_with_frame, %function\n"
        "lock_with_frame:\n"
#if defined __x86_64__
        "push %rbp\n"
        "mov %rsi, %rbp\n"
        "call pthread_mutex_lock@plt\n"
        "pop %rbp\n"
        "ret\n"
#elif defined __aarch64__
        "stp x29, x30, [sp, -16]!\n"
        "mov x29, x1\n"
        "bl pthread_mutex_lock\n"
        "ldp x29, x30, [sp], 16\n"
        "ret\n"
#endif
        ".size lock_with_frame, . - lock_with_frame\n");

static void take_with_frame(unsigned long frame)
{
    MUST(lock_with_frame(&mutex, frame) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    held(MUTEX, 1);
}

enum { PAGE = 4096, STACK = 64 * PAGE };

/* Takes the mutex with frame pointers near an address, where there may be no frame. */
static void take_near(char *address)
{
    static const long offsets[] = { -PAGE, -24, -16, -8, -1, 0, 8, 16, PAGE };
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++)
        take_with_frame((unsigned long)address + offsets[i]);
}

static void take_with_garbage(void)
{
    static const unsigned long frames[] = { 0, 1, 8, 4096, -1UL, -8UL, -16UL, 1UL << 47, 1UL << 63 };
    unsigned long here[64];
    for (unsigned i = 0; i < sizeof frames / sizeof *frames; i++)
        take_with_frame(frames[i]);
    /* A frame on the stack whose next frame is each of these in turn. */
    for (unsigned i = 0; i < sizeof frames / sizeof *frames; i++) {
        for (int j = 0; j < 64; j++)
            here[j] = frames[i];
        take_near((char *)&here[32]);
        for (int j = 0; j < 64; j++)
            here[j] = (unsigned long)&here[63] + frames[i];
        take_near((char *)&here[32]);
    }
    take_near((char *)&mutex);
}

static char *map(char *at, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0);
    char *found = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    MUST(found != MAP_FAILED);
    return found;
}

static ucontext_t outside, inside;
static char *stack;

/* The memory above the stack of this thread's first lock is not mapped any more. */
static void on_coroutine(void)
{
    for (;;) {
        take_near(stack + STACK / 2);
        MUST(munmap(stack + STACK, STACK) == 0);
        take_near(stack + STACK + STACK / 2);
        take_near(stack + STACK);
        take_with_garbage();
        MUST(swapcontext(&inside, &outside) == 0);
    }
}

static void coroutines(void)
{
    stack = map(NULL, 2 * STACK);
    for (int i = 0; i < 20; i++) {
        MUST(getcontext(&inside) == 0);
        inside.uc_stack.ss_sp = stack;
        inside.uc_stack.ss_size = STACK;
        makecontext(&inside, on_coroutine, 0);
        MUST(swapcontext(&outside, &inside) == 0);
        /* The frame pointer leads to the stack while that is not mapped. */
        MUST(munmap(stack, STACK) == 0);
        take_near(stack + STACK / 2);
        map(stack, STACK / 2);
        take_near(stack + STACK / 2);
        map(stack, 2 * STACK);
    }
}

static void on_signal(int number)
{
    (void)number;
    take_near(stack + STACK + STACK / 2);
    take_with_garbage();
}

/* Signal handlers on a stack of their own. */
static void alternate(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        stack = map(NULL, 2 * STACK);
        stack_t alternate = { .ss_sp = stack, .ss_size = STACK };
        MUST(sigaltstack(&alternate, NULL) == 0);
        MUST(raise(SIGUSR1) == 0);
        MUST(munmap(stack + STACK, STACK) == 0);
        MUST(raise(SIGUSR1) == 0);
        stack_t none = { .ss_flags = SS_DISABLE };
        MUST(sigaltstack(&none, NULL) == 0);
        MUST(munmap(stack, STACK) == 0);
    }
}

static void *all(void *arg)
{
    take_with_garbage();
    coroutines();
    alternate();
    take_with_garbage();
    return arg;
}

static __attribute__((noinline)) void inner(void)
{
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    held(MUTEX, 1);
    __asm__ volatile("");
}

static __attribute__((noinline)) void outer(void)
{
    inner();
    __asm__ volatile("");
}

static void *plain(void *arg)
{
    outer();
    return arg;
}

/* A stack that grows far between one lock and the next. */
static __attribute__((noinline)) void deep(int depth)
{
    volatile char room[64 * PAGE];
    room[0] = 1;
    if (depth > 0)
        deep(depth - 1);
    else
        outer();
    MUST(room[0] == 1);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    MUST(argc == 2);
    if (!strcmp(argv[1], "hostile")) {
        all(NULL);
        for (int i = 0; i < 4; i++) {
            MUST(pthread_create(&thread, NULL, all, NULL) == 0);
            MUST(pthread_join(thread, NULL) == 0);
        }
    } else if (!strcmp(argv[1], "thread")) {
        MUST(pthread_create(&thread, NULL, plain, NULL) == 0);
        MUST(pthread_join(thread, NULL) == 0);
    } else if (!strcmp(argv[1], "deep")) {
        for (int depth = 0; depth < 28; depth++)
            deep(depth);
    } else if (!strcmp(argv[1], "coroutine")) {
        stack = map(NULL, STACK);
        MUST(getcontext(&inside) == 0);
        inside.uc_stack.ss_sp = stack;
        inside.uc_stack.ss_size = STACK;
        inside.uc_link = &outside;
        makecontext(&inside, outer, 0);
        MUST(swapcontext(&outside, &inside) == 0);
    } else {
        return 98;
    }
    say_expected();
    return 0;
}
