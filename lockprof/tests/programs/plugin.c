/* A program, and (with -DPLUGIN) a library that the program loads. Both take a lock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#include "expect.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noinline)) void innermost(void)
{
#ifdef PADDING
    /* Moves the code that follows. */
    __asm__ volatile(".skip 64, 0x90");
#endif
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
/* Loads and unloads libraries one after another. Each may get the addresses of the one before. */
int main(int argc, char **argv)
{
    middle();
    held(MUTEX, 1);
    for (int i = 1; i < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW);
        MUST(plugin != NULL);
        void (*plugged_in)(void) = (void (*)(void))dlsym(plugin, "plugged_in");
        MUST(plugged_in != NULL);
        plugged_in();
        held(MUTEX, 1);
        MUST(dlclose(plugin) == 0);
    }
    say_expected();
    return 0;
}
#endif
