/* A program's own counts of its lock operations, which the test compares with the profile. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum kind { MUTEX, SLEPT, READING, WRITING, SPIN, KINDS };
enum field { COUNT, HOLDS, TRY_FAILED, TIMED_OUT, SHARED, OWNER_DIED, ASLEEP, DELAYS, FIELDS };

static unsigned long done[KINDS][FIELDS];

/* The process id for the report; 0: ask the system. */
static pid_t own_pid;

static inline void did(enum kind kind, enum field field, unsigned long n)
{
    __atomic_fetch_add(&done[kind][field], n, __ATOMIC_RELAXED);
}

/* Counts a lock that was taken and will be released. */
static inline void held(enum kind kind, unsigned long n)
{
    did(kind, COUNT, n);
    did(kind, HOLDS, n);
}

static inline void say_expected(void)
{
    static const char *const kinds[] = {
        "mutex", "mutex, after a condition", "rwlock, reading", "rwlock, writing", "spinlock",
    };
    static const char *const fields[] = {
        "count", "holds", "try_failed", "timed_out", "shared", "owner_died", "asleep", "delays",
    };
    pid_t pid = own_pid ? own_pid : getpid();
    for (int kind = 0; kind < KINDS; kind++)
        for (int field = 0; field < FIELDS; field++)
            printf("expect|%d|%s|%s|%lu\n", (int)pid, kinds[kind], fields[field],
                   done[kind][field]);
    fflush(stdout);
}

/* The test fails if the system does not do what the program expects. */
#define MUST(condition)                                                       \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
            exit(99);                                                         \
        }                                                                     \
    } while (0)

#endif
