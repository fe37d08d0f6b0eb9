/* A program whose allocator, and whose signal handler, take locks. It counts allocations. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "expect.h"

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t in_handler;
static unsigned long allocations;
static char heap[1 << 24];
static size_t used;

void *malloc(size_t bytes)
{
    pthread_mutex_lock(&heap_lock);
    allocations++;
    size_t at = used;
    used += (bytes + 31) / 16 * 16;
    if (used > sizeof heap)
        abort();
    memcpy(heap + at, &bytes, sizeof bytes);
    pthread_mutex_unlock(&heap_lock);
    return heap + at + 16;
}

void free(void *memory)
{
    (void)memory;
    pthread_mutex_lock(&heap_lock);
    pthread_mutex_unlock(&heap_lock);
}

void *calloc(size_t count, size_t bytes)
{
    return malloc(count * bytes);
}

void *realloc(void *old, size_t bytes)
{
    void *made = malloc(bytes);
    if (old) {
        size_t before;
        memcpy(&before, (char *)old - 16, sizeof before);
        memcpy(made, old, before < bytes ? before : bytes);
    }
    return made;
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    int before = errno;
    pthread_spin_lock(&in_handler);
    signals++;
    pthread_spin_unlock(&in_handler);
    errno = before;
}

static void *work(void *arg)
{
    unsigned long *seen = arg;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    unsigned long before = allocations;
    for (int i = 0; i < 100000; i++) {
        errno = 4711;
        pthread_mutex_lock(&mutex);
        MUST(pthread_mutex_trylock(&mutex) == EBUSY);
        pthread_mutex_unlock(&mutex);
        MUST(errno == 4711);
    }
    *seen = allocations - before;
    return NULL;
}

int main(void)
{
    unsigned long seen = 1;
    pthread_t thread;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    MUST(library != NULL);
    MUST(pthread_create(&thread, NULL, work, &seen) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    MUST(seen == 0);

    MUST(pthread_spin_init(&in_handler, 0) == 0);
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = { { 0, 200 }, { 0, 200 } };
    MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (signals < 200) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    printf("allocations %lu\n", seen);
    return 0;
}
