/* A program that loads itself again as a library, and has that take a lock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#include "expect.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noinline)) void innermost(void)
{
    MUST(pthread_mutex_lock(&mutex) == 0);
    MUST(pthread_mutex_unlock(&mutex) == 0);
    __asm__ volatile("");
}

static __attribute__((noinline)) void middle(void)
{
    innermost();
    __asm__ volatile("");
}

#ifdef PLUGIN
void plugged_in(void)
{
    middle();
    __asm__ volatile("");
}
#else
int main(void)
{
    middle();
    held(MUTEX, 1);
    void *plugin = dlopen("./plugin.so", RTLD_NOW);
    MUST(plugin != NULL);
    void (*plugged_in)(void) = (void (*)(void))dlsym(plugin, "plugged_in");
    MUST(plugged_in != NULL);
    plugged_in();
    held(MUTEX, 1);
    say_expected();
    return 0;
}
#endif
