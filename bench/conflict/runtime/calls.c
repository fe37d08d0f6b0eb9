// The functions that a program compiled for ThreadSanitizer calls at each load, store and atomic
// operation. Each function records the access. The atomic functions then do the operation in
// sequentially consistent order, which is allowed for any requested order.
//
// The compiler may leave out the record of a load that is followed by a store to the same place;
// the store is recorded. Accesses by inline assembly and by code that was not compiled for
// ThreadSanitizer (the precompiled part of the standard library, C libraries) are not recorded.
#include "runtime.h"

#include <string.h>

#define SITE __builtin_return_address(0)

// Called at the start and in each function; both need no action.
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}

#define PLAIN(name, size) \
    void __tsan_##name##read##size(void *p) { conflict_record(LOAD, p, size, SITE); } \
    void __tsan_##name##write##size(void *p) { conflict_record(STORE, p, size, SITE); }
#define PLAIN_SIZES(name) \
    PLAIN(name, 1) PLAIN(name, 2) PLAIN(name, 4) PLAIN(name, 8) PLAIN(name, 16)

PLAIN_SIZES()
PLAIN_SIZES(unaligned_)
PLAIN_SIZES(volatile_)
PLAIN_SIZES(unaligned_volatile_)

// Accesses to C++ pointers to tables of methods have calls of their own.
void __tsan_vptr_update(void **p, void *value)
{
    (void)value;
    conflict_record(STORE, p, sizeof *p, SITE);
}

void __tsan_vptr_read(void **p) { conflict_record(LOAD, p, sizeof *p, SITE); }

void __tsan_read_range(void *p, size_t size) { conflict_record(LOAD, p, size, SITE); }
void __tsan_write_range(void *p, size_t size) { conflict_record(STORE, p, size, SITE); }

// A copy counts once for each line that it touches.
void *__tsan_memcpy(void *to, const void *from, size_t size)
{
    conflict_record(LOAD, from, size, SITE);
    conflict_record(STORE, to, size, SITE);
    return memcpy(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size)
{
    conflict_record(LOAD, from, size, SITE);
    conflict_record(STORE, to, size, SITE);
    return memmove(to, from, size);
}

void *__tsan_memset(void *to, int byte, size_t size)
{
    conflict_record(STORE, to, size, SITE);
    return memset(to, byte, size);
}

void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    conflict_record_fence();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// A failed compare-and-swap takes the line as a successful one does, so both count alike.
#define CALL(bits, type, name) type __tsan_atomic##bits##_##name
#define MODIFY(bits, type, name, builtin) \
    CALL(bits, type, name)(volatile type * p, type value, int order) \
    { \
        (void)order; \
        conflict_record(RMW, p, sizeof *p, SITE); \
        return builtin(p, value, __ATOMIC_SEQ_CST); \
    }
#define ATOMIC(bits, type) \
    CALL(bits, type, load)(const volatile type *p, int order) \
    { \
        (void)order; \
        conflict_record(LOAD, p, sizeof *p, SITE); \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST); \
    } \
    void __tsan_atomic##bits##_store(volatile type *p, type value, int order) \
    { \
        (void)order; \
        conflict_record(STORE, p, sizeof *p, SITE); \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST); \
    } \
    MODIFY(bits, type, exchange, __atomic_exchange_n) \
    MODIFY(bits, type, fetch_add, __atomic_fetch_add) \
    MODIFY(bits, type, fetch_sub, __atomic_fetch_sub) \
    MODIFY(bits, type, fetch_and, __atomic_fetch_and) \
    MODIFY(bits, type, fetch_or, __atomic_fetch_or) \
    MODIFY(bits, type, fetch_xor, __atomic_fetch_xor) \
    MODIFY(bits, type, fetch_nand, __atomic_fetch_nand) \
    CALL(bits, type, compare_exchange_val) \
    (volatile type * p, type expected, type value, int order, int failure_order) \
    { \
        (void)order, (void)failure_order; \
        conflict_record(RMW, p, sizeof *p, SITE); \
        __atomic_compare_exchange_n(p, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected; \
    }

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

// For 16 bytes the older builtins are used, because the newer builtins need a library.
#ifdef __SIZEOF_INT128__
typedef unsigned __int128 uint128_t;

static uint128_t swap_if(volatile uint128_t *p, uint128_t expected, uint128_t value)
{
    return __sync_val_compare_and_swap(p, expected, value);
}

#define MODIFY_128(name, result) \
    CALL(128, uint128_t, name)(volatile uint128_t * p, uint128_t value, int order) \
    { \
        (void)order; \
        conflict_record(RMW, p, sizeof *p, SITE); \
        for (uint128_t old = swap_if(p, 0, 0);;) { \
            uint128_t seen = swap_if(p, old, result); \
            if (seen == old) \
                return old; \
            old = seen; \
        } \
    }

CALL(128, uint128_t, load)(const volatile uint128_t *p, int order)
{
    (void)order;
    conflict_record(LOAD, p, sizeof *p, SITE);
    return swap_if((volatile uint128_t *)p, 0, 0);
}

void __tsan_atomic128_store(volatile uint128_t *p, uint128_t value, int order)
{
    (void)order;
    conflict_record(STORE, p, sizeof *p, SITE);
    for (uint128_t old = swap_if(p, 0, 0), seen; (seen = swap_if(p, old, value)) != old;)
        old = seen;
}

MODIFY_128(exchange, value)
MODIFY_128(fetch_add, old + value)
MODIFY_128(fetch_sub, old - value)
MODIFY_128(fetch_and, old & value)
MODIFY_128(fetch_or, old | value)
MODIFY_128(fetch_xor, old ^ value)
MODIFY_128(fetch_nand, ~(old & value))

CALL(128, uint128_t, compare_exchange_val)
(volatile uint128_t *p, uint128_t expected, uint128_t value, int order, int failure_order)
{
    (void)order, (void)failure_order;
    conflict_record(RMW, p, sizeof *p, SITE);
    return swap_if(p, expected, value);
}
#endif
