// Concurrency Kit's reader-writer lock, which is inline code, as functions that Rust can call.
#include <ck_rwlock.h>
#include <stdbool.h>
#include <stdint.h>

// src/locks/c/ck.rs relies on this layout.
_Static_assert(sizeof(ck_rwlock_t) == 2 * sizeof(uint32_t), "two words");
_Static_assert(_Alignof(ck_rwlock_t) == _Alignof(uint32_t), "two words");

void readers_ck_read_lock(ck_rwlock_t *lock) { ck_rwlock_read_lock(lock); }
bool readers_ck_read_trylock(ck_rwlock_t *lock) { return ck_rwlock_read_trylock(lock); }
void readers_ck_read_unlock(ck_rwlock_t *lock) { ck_rwlock_read_unlock(lock); }
void readers_ck_write_lock(ck_rwlock_t *lock) { ck_rwlock_write_lock(lock); }
bool readers_ck_write_trylock(ck_rwlock_t *lock) { return ck_rwlock_write_trylock(lock); }
void readers_ck_write_unlock(ck_rwlock_t *lock) { ck_rwlock_write_unlock(lock); }
