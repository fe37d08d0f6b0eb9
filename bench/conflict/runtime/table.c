// The table of cache lines: which threads touched or wrote each line, and how often.
#define _GNU_SOURCE // for pthread_getname_np
#include "runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct line {
    _Atomic uintptr_t number; // 0: free
    _Atomic uint64_t touched, written; // a bit for each thread
    _Atomic uint64_t counts[KINDS];
    _Atomic uint64_t others_writes; // writes by threads other than number 0
    _Atomic uintptr_t writer;
};

static struct line table[LINES_MAX];
static _Atomic uint64_t fences;
static _Atomic bool is_full;
static _Atomic bool is_overrun; // a named thread has a number that is too high
static __thread int self = -1; // number of this thread; below 0: the thread is not counted

enum { NAME_BYTES = 16 }; // the system's limit for the name of a thread, with its NUL
static char named[NAME_BYTES];
static _Atomic bool are_named_counted;
static _Atomic uint64_t named_seen; // a bit for each named thread that was counted
enum { NOT_ASKED = -2, NOT_NAMED = -1 };
static __thread int self_by_name = NOT_ASKED;

extern const char __executable_start[]; // where the linker put the program

// The entry of a line, which takes a free entry if it has none yet. NULL: the table is full.
static struct line *place_of(uintptr_t number)
{
    size_t start = ((uint64_t)number * 0x9E3779B97F4A7C15u) >> (64 - TABLE_BITS);
    for (size_t step = 0; step < LINES_MAX; step++) {
        struct line *line = &table[(start + step) & (LINES_MAX - 1)];
        uintptr_t found = atomic_load_explicit(&line->number, memory_order_relaxed);
        if (found == 0 && atomic_compare_exchange_strong(&line->number, &found, number))
            return line;
        if (found == number)
            return line;
    }
    return NULL;
}

// Sets a bit in a word that all threads share. It writes only if the bit is not set yet.
static void set_bit(_Atomic uint64_t *word, uint64_t bit)
{
    if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

// The number in this thread's name. The name is read only while counting is on, because a thread
// may get its name late.
static int number_by_name(void)
{
    if (self_by_name != NOT_ASKED)
        return self_by_name;
    char name[NAME_BYTES];
    size_t length = strlen(named);
    self_by_name = NOT_NAMED;
    if (pthread_getname_np(pthread_self(), name, sizeof name) != 0
        || strncmp(name, named, length) != 0)
        return NOT_NAMED;
    char *end;
    unsigned long number = strtoul(name + length, &end, 10);
    if (end == name + length || *end != '\0')
        return NOT_NAMED;
    if (number >= THREADS_MAX) {
        atomic_store(&is_overrun, true);
        return NOT_NAMED;
    }
    return self_by_name = (int)number;
}

// The number of the thread as which the caller is counted now; below 0: it is not counted.
static int counted_as(void)
{
    if (self >= 0 || !atomic_load_explicit(&are_named_counted, memory_order_acquire))
        return self;
    int number = number_by_name();
    if (number >= 0)
        set_bit(&named_seen, (uint64_t)1 << number);
    return number;
}

static void record_line(enum kind kind, int thread, uintptr_t number, void *site)
{
    struct line *line = place_of(number);
    if (line == NULL) {
        atomic_store(&is_full, true);
        return;
    }
    uint64_t bit = (uint64_t)1 << thread;
    set_bit(&line->touched, bit);
    if (kind != LOAD) {
        set_bit(&line->written, bit);
        if (thread != 0)
            atomic_fetch_add_explicit(&line->others_writes, 1, memory_order_relaxed);
        atomic_store_explicit(&line->writer, (uintptr_t)site, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&line->counts[kind], 1, memory_order_relaxed);
}

void conflict_record(enum kind kind, const volatile void *address, size_t size, void *site)
{
    int thread = counted_as();
    if (thread < 0 || size == 0)
        return;
    uintptr_t first = (uintptr_t)address >> LINE_BITS;
    uintptr_t last = ((uintptr_t)address + size - 1) >> LINE_BITS;
    for (uintptr_t number = first; number <= last; number++)
        record_line(kind, thread, number, site);
}

void conflict_record_fence(void)
{
    if (counted_as() >= 0)
        atomic_fetch_add_explicit(&fences, 1, memory_order_relaxed);
}

bool conflict_enter(uint32_t thread)
{
    if (thread >= THREADS_MAX)
        return false;
    self = (int)thread;
    return true;
}

void conflict_leave(void)
{
    self = -1;
}

bool conflict_enter_named(const char *prefix)
{
    if (strlen(prefix) >= NAME_BYTES || (named[0] != '\0' && strcmp(named, prefix) != 0))
        return false;
    strcpy(named, prefix);
    atomic_store_explicit(&are_named_counted, true, memory_order_release);
    return true;
}

void conflict_leave_named(void)
{
    atomic_store(&are_named_counted, false);
}

uint32_t conflict_named_count(void)
{
    return (uint32_t)__builtin_popcountll(named_seen);
}

void conflict_clear(void)
{
    memset(table, 0, sizeof table);
    fences = 0;
    is_full = false;
    is_overrun = false;
    named_seen = 0;
}

static bool is_in_conflict(const struct line *line)
{
    return line->written != 0 && (line->touched & (line->touched - 1)) != 0;
}

bool conflict_sum(struct conflict_sum *sum)
{
    *sum = (struct conflict_sum){.fences = fences};
    for (const struct line *line = table; line < table + LINES_MAX; line++) {
        if (!is_in_conflict(line)) {
            sum->own_rmws += line->counts[RMW];
            continue;
        }
        sum->lines++;
        sum->loads += line->counts[LOAD];
        sum->stores += line->counts[STORE];
        sum->rmws += line->counts[RMW];
        sum->others_writes += line->others_writes;
    }
    return !is_full && !is_overrun;
}

static int by_writes(const void *left, const void *right)
{
    const struct conflict_line *a = left, *b = right;
    uint64_t writes_a = a->stores + a->rmws, writes_b = b->stores + b->rmws;
    return (writes_a < writes_b) - (writes_a > writes_b);
}

static struct conflict_line copy_of(const struct line *line)
{
    return (struct conflict_line){
        .number = line->number,
        .threads = (uint32_t)__builtin_popcountll(line->touched),
        .loads = line->counts[LOAD],
        .stores = line->counts[STORE],
        .rmws = line->counts[RMW],
        // A return address is behind the call; the byte before it belongs to the call.
        .writer = line->writer - (uintptr_t)__executable_start - 1,
    };
}

size_t conflict_lines(struct conflict_line *lines, size_t count_max)
{
    size_t count = 0;
    for (const struct line *line = table; line < table + LINES_MAX; line++) {
        if (!is_in_conflict(line))
            continue;
        struct conflict_line found = copy_of(line);
        if (count < count_max) {
            lines[count++] = found;
        } else if (count > 0 && by_writes(&found, &lines[count - 1]) < 0) {
            lines[count - 1] = found;
        } else {
            continue;
        }
        qsort(lines, count, sizeof *lines, by_writes);
    }
    return count;
}
