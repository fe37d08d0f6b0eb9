/* Threads look up rows of a table, while the main thread rebuilds the table now and then.
 *
 *     cc -O1 -g -pthread -o hot_lock hot_lock.c
 *
 * docs/lock-profiling.md finds the contended lock, and builds the program again with -DFIXED. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROWS = 1000, READERS = 3, ROUNDS = 40 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long table[ROWS], hits, logged;
static int has_ended;

static void nap_us(long us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&time, NULL);
}

static long look_up(int row)
{
    pthread_mutex_lock(&lock);
    long found = table[row];
    hits++;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Fetching the new rows takes time. */
static void fetch(long rows[ROWS])
{
    nap_us(4000);
    for (int row = 0; row < ROWS; row++)
        rows[row]++;
}

static void rebuild(void)
{
#ifdef FIXED
    static long next[ROWS];
    fetch(next);
    pthread_mutex_lock(&lock);
    memcpy(table, next, sizeof table);
    pthread_mutex_unlock(&lock);
#else
    pthread_mutex_lock(&lock);
    fetch(table);
    pthread_mutex_unlock(&lock);
#endif
}

/* This thread must not wait for the lock. If a try fails, it tries again after two milliseconds. */
static void log_hits(void)
{
    while (pthread_mutex_trylock(&lock))
        nap_us(2000);
    logged = hits;
    pthread_mutex_unlock(&lock);
}

static void *read_table(void *arg)
{
    (void)arg;
    for (int row = 0; !__atomic_load_n(&has_ended, __ATOMIC_RELAXED); row = (row + 7) % ROWS) {
        look_up(row);
        nap_us(50);
    }
    return NULL;
}

static void *watch_table(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&has_ended, __ATOMIC_RELAXED)) {
        log_hits();
        nap_us(500);
    }
    return NULL;
}

int main(void)
{
    pthread_t readers[READERS], watcher;
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_table, NULL);
    pthread_create(&watcher, NULL, watch_table, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        rebuild();
        nap_us(4000);
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(watcher, NULL);
    printf("%ld look-ups\n", hits);
    return 0;
}
