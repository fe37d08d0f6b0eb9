// The counter's interface to the counted program; src/runtime.rs declares the same in Rust.
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
    uint64_t lines;               // lines that more than one thread touched and at least one wrote
    uint64_t loads, stores, rmws; // accesses to such lines
    uint64_t own_rmws;            // read-modify-writes on all other lines
    uint64_t fences;
    uint64_t others_writes;       // writes on lines in conflict by threads other than number 0
};

// Counts this thread's accesses as those of `thread`, until it leaves. False: `thread` is too high.
bool conflict_enter(uint32_t thread);
void conflict_leave(void);

// Counts the accesses of all threads whose names are `prefix` and a number, each as the thread with
// that number, until conflict_leave_named. It is for threads of a library, which cannot call
// conflict_enter. False: the prefix is too long, or an earlier call had another prefix.
bool conflict_enter_named(const char *prefix);
void conflict_leave_named(void);

// The number of such threads that did something that was counted since the last clear.
uint32_t conflict_named_count(void);

// Deletes all counts. No thread may be between enter and leave.
void conflict_clear(void);

// Adds up the counts of all lines. False: there were more lines or threads than the table holds,
// and the sums are worthless.
bool conflict_sum(struct conflict_sum *sum);

// Copies the lines in conflict, those with the most writes first. Returns the number of copied
// lines.
size_t conflict_lines(struct conflict_line *lines, size_t count_max);

// The kinds of accesses that the functions of calls.c record.
enum kind { LOAD, STORE, RMW, KINDS };

// Records an access of `size` bytes on every line that it touches. `site` is the address of its
// code.
void conflict_record(enum kind kind, const volatile void *address, size_t size, void *site);

// Records a fence between threads.
void conflict_record_fence(void);

#endif
