// The counter's interface to the program that is counted; src/runtime.rs has the same in Rust.
#ifndef CONFLICT_RUNTIME_H
#define CONFLICT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LINE_BITS = 6,       // a cache line has 64 bytes
    TABLE_BITS = 20,     // lines in the table: 64 MiB of memory that is touched
    LINES_MAX = 1 << TABLE_BITS,
    THREADS_MAX = 64,    // a line has one bit for each thread
};

// The accesses to one line.
struct conflict_line {
    uintptr_t number; // its address divided by its size
    uint32_t threads; // how many threads touched it
    uint64_t loads, stores, rmws;
    uintptr_t writer; // the instruction that wrote it last, as an offset in the program
};

// The accesses to all lines.
struct conflict_sum {
    uint64_t lines;               // that more than one thread touched, and at least one wrote
    uint64_t loads, stores, rmws; // on such lines
    uint64_t own_rmws;            // on all other lines
    uint64_t fences;
    uint64_t others_writes;       // on lines in conflict, by other threads than number 0
};

// Counts this thread's accesses, as `thread`, until it leaves. False: there is no such thread.
bool conflict_enter(uint32_t thread);
void conflict_leave(void);

// Counts the accesses of all threads whose names are `prefix` and a number, each as that number,
// until they are told to leave. For threads of a library, which can't be told to enter. One prefix
// for the whole life of the program; false: there is another one, or it is too long.
bool conflict_enter_named(const char *prefix);
void conflict_leave_named(void);

// How many such threads did something that counted, since all was forgotten.
uint32_t conflict_named_count(void);

// Forgets everything. No thread may be inside.
void conflict_clear(void);

// Sums up. False: there were more lines or threads than the table holds, and the sums are
// worthless.
bool conflict_sum(struct conflict_sum *sum);

// The lines in conflict, those with most writes first; returns how many were filled in.
size_t conflict_lines(struct conflict_line *lines, size_t count_max);

// The calls of the instrumented program record their accesses with these.
enum kind { LOAD, STORE, RMW, KINDS };

// Notes an access of `size` bytes on every line that it touches; `site` is where it was made.
void conflict_record(enum kind kind, const volatile void *address, size_t size, void *site);

// Notes a fence between threads.
void conflict_record_fence(void);

#endif
