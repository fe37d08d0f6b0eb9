/*
 * Ordered maps in shared memory: byte keys in order, immutable values that every process reads in
 * place.
 *
 * A process opens a region, each of its threads joins it as a participant, and a participant opens
 * maps. Every function returns a code. 0 and above: success. Below 0: failure, and nothing changed,
 * except that a map with a budget may have evicted entries. Unless a function says otherwise, its
 * output arguments (the last ones) must not be null, and they are written only when the code is
 * FOREBAY_CODE_OK.
 *
 * The caller owns a handle from the function that returns it until it closes the handle, once.
 * Handles may be closed in any order. A forked child has to join by itself. With its parent's
 * handles it may read what the parent still holds, make calls that take no lease, and close its
 * copies, which does not affect the parent; every other call returns FOREBAY_CODE_FORKED.
 *
 * A test generates this file from the source: UPDATE_DOCS=1 cargo test -p forebay-capi
 */

#ifndef FOREBAY_ORDMAP_H
#define FOREBAY_ORDMAP_H

#include <stddef.h>
#include <stdint.h>

/**
 * The major version. When it grows, programs have to be compiled again, and may have to be
 * changed.
 */
#define FOREBAY_ABI_MAJOR 2

/**
 * The minor version. It grows when something is added.
 */
#define FOREBAY_ABI_MINOR 0

/**
 * The result of a function. 0 and above: success. Below 0: failure, and nothing changed. The
 * numbers are stable.
 */
enum forebay_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Success; yes.
   */
  FOREBAY_CODE_OK = 0,
  /**
   * Not found: no such key, or no further entry.
   */
  FOREBAY_CODE_ABSENT = 1,
  /**
   * The value or entry differs from the expected one; nothing changed.
   */
  FOREBAY_CODE_DIFFERS = 2,
  /**
   * A required pointer is null.
   */
  FOREBAY_CODE_NULL = -1,
  /**
   * An argument is invalid.
   */
  FOREBAY_CODE_ARGUMENT = -2,
  /**
   * The program needs another version of the library.
   */
  FOREBAY_CODE_VERSION = -3,
  /**
   * The key is too long.
   */
  FOREBAY_CODE_KEY_TOO_LONG = -4,
  /**
   * The value is too long.
   */
  FOREBAY_CODE_VALUE_TOO_LONG = -5,
  /**
   * The name of the map is invalid.
   */
  FOREBAY_CODE_NAME = -6,
  /**
   * No map has this name.
   */
  FOREBAY_CODE_NO_MAP = -7,
  /**
   * The output buffer is too small.
   */
  FOREBAY_CODE_BUFFER = -8,
  /**
   * All leases of the participant are in use.
   */
  FOREBAY_CODE_LEASES = -9,
  /**
   * The participant belongs to the parent of this forked process.
   */
  FOREBAY_CODE_FORKED = -10,
  /**
   * The region has no memory left for the map.
   */
  FOREBAY_CODE_FULL = -20,
  /**
   * The region has its maximum number of maps.
   */
  FOREBAY_CODE_MAPS_FULL = -21,
  /**
   * The region has its maximum number of participants.
   */
  FOREBAY_CODE_PARTICIPANTS_FULL = -22,
  /**
   * The region is corrupt.
   */
  FOREBAY_CODE_DAMAGED = -23,
  /**
   * The file at the path is not a region that this library can use.
   */
  FOREBAY_CODE_UNUSABLE = -24,
  /**
   * Another process held a lock until the time limit.
   */
  FOREBAY_CODE_BUSY = -30,
  /**
   * The region has other sizes, and other participants use it.
   */
  FOREBAY_CODE_IN_USE = -31,
  /**
   * The operating system returned an error.
   */
  FOREBAY_CODE_SYSTEM = -40,
  /**
   * The file system has no space left.
   */
  FOREBAY_CODE_NO_SPACE = -41,
  /**
   * Another user owns, or can write to, the file or its directory.
   */
  FOREBAY_CODE_PERMISSION = -42,
  /**
   * A bug in the library.
   */
  FOREBAY_CODE_LIBRARY = -50,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_code forebay_code;
#else
typedef int32_t forebay_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The side on which the cause of a failure is.
 */
enum forebay_side
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * None: the call succeeded.
   */
  FOREBAY_SIDE_NONE = 0,
  /**
   * The calling program: the same call will fail again.
   */
  FOREBAY_SIDE_CALLER = 1,
  /**
   * The region: its sizes or its contents.
   */
  FOREBAY_SIDE_REGION = 2,
  /**
   * Another process: a retry may succeed once it goes on.
   */
  FOREBAY_SIDE_OTHERS = 3,
  /**
   * The operating system.
   */
  FOREBAY_SIDE_SYSTEM = 4,
  /**
   * This library: please report the bug.
   */
  FOREBAY_SIDE_LIBRARY = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_side forebay_side;
#else
typedef int32_t forebay_side;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How a region was opened.
 */
enum forebay_opened_how
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * There was no file.
   */
  FOREBAY_OPENED_HOW_CREATED = 0,
  /**
   * The region existed.
   */
  FOREBAY_OPENED_HOW_ATTACHED = 1,
  /**
   * Another file was replaced, such as a region of other sizes or from before the last boot; its
   * contents are lost.
   */
  FOREBAY_OPENED_HOW_REPLACED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_opened_how forebay_opened_how;
#else
typedef int32_t forebay_opened_how;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A position in a map: at an entry, or at none. A cursor holds its entry, which stays readable
 * whatever changes in the map, and moves start from the key of that entry. A move needs two of the
 * participant's leases; a cursor at an entry needs one.
 */
typedef struct forebay_cursor forebay_cursor;

/**
 * A key with its value at the time of the read. Both stay readable until the entry is released,
 * even if the key is replaced, removed or evicted in its map. The entry takes one of the
 * participant's leases.
 */
typedef struct forebay_entry forebay_entry;

/**
 * A map, as one participant uses it.
 */
typedef struct forebay_map forebay_map;

/**
 * A thread's membership in a region. It may be handed to another thread together with all handles
 * that come from it (maps, entries, cursors, ranges), but only one thread at a time may use any of
 * them.
 */
typedef struct forebay_participant forebay_participant;

/**
 * A walk over the entries between two keys, up or down. It holds the current entry, and needs as
 * many leases as a cursor.
 */
typedef struct forebay_range forebay_range;

/**
 * A region of maps that a process has open. Any number of threads may use it at the same time.
 */
typedef struct forebay_region forebay_region;

/**
 * A walk over the entries between two keys, up or down, which shows a copy of each. It takes no
 * lease. It is for programs that read much and keep nothing.
 */
typedef struct forebay_scan forebay_scan;

/**
 * Sizes of a new region. Set `struct_bytes` to `sizeof`, and the other fields to 0 for their
 * defaults.
 */
typedef struct {
  /**
   * `sizeof(forebay_config)`.
   */
  size_t struct_bytes;
  /**
   * The size of the file, which holds all maps with everything that belongs to them. It has no
   * default.
   */
  uint64_t bytes;
  /**
   * The largest number of maps; by default 128.
   */
  uint32_t maps_max;
  /**
   * The largest number of participants of all processes at one time; by default 64.
   */
  uint32_t participants_max;
  /**
   * The largest number of leases of a participant at one time; by default 16. An entry that is
   * held takes one lease. A cursor takes one, and two while it moves.
   */
  uint32_t leases_max;
  /**
   * The largest number of splits of all maps together; 0: none. A map of up to eight shards
   * (`forebay_options`) needs seven.
   */
  uint32_t splits_max;
  /**
   * The part of `bytes` that is for hint tables of maps; by default 0.
   */
  uint64_t hint_bytes;
} forebay_config;

/**
 * Options of a new map. Set `struct_bytes` to `sizeof`, and the other fields to 0 for their
 * defaults.
 */
typedef struct {
  /**
   * `sizeof(forebay_options)`.
   */
  size_t struct_bytes;
  /**
   * The most bytes that the map may take. Beyond this, entries that were not used are evicted.
   * 0: no limit but the region's, and no eviction.
   */
  uint64_t budget_bytes;
  /**
   * Bytes of the map's hint table, which speeds up lookups of single keys: 16 for each expected
   * entry, out of the region's `hint_bytes`. 0: none.
   */
  uint64_t hint_bytes;
  /**
   * The most shards that the map may be split into, up to 16. It is split when its writers wait
   * for each other; then several writers can change it at the same time. The region's
   * `splits_max` limits the splits, too. A map with a budget is never split. 0: never split.
   */
  uint64_t shards_max;
} forebay_options;

/**
 * The result of a check.
 */
typedef struct {
  /**
   * `sizeof(forebay_check_report)`.
   */
  size_t struct_bytes;
  /**
   * Maps checked.
   */
  uint64_t maps;
  /**
   * Entries in them.
   */
  uint64_t entries;
  /**
   * Nodes of their trees.
   */
  uint64_t nodes;
  /**
   * Entries that left their map and wait for leases.
   */
  uint64_t waiting;
  /**
   * Chunks of 16 KiB that belong to no map.
   */
  uint64_t free_chunks;
  /**
   * The number of problems.
   */
  uint64_t findings;
} forebay_check_report;

/**
 * A slice of bytes. Arguments belong to the caller and are only read during the call; `data` may
 * be null if `len` is 0. Bytes that the library returns stay readable until the handle that shows
 * them is released, moved or closed.
 */
typedef struct {
  /**
   * The first byte.
   */
  const uint8_t *data;
  /**
   * The number of bytes.
   */
  size_t len;
} forebay_bytes;

/**
 * Key and value of an entry, in place and with a value whose address is a multiple of 8. An item
 * of a scan is a copy, at any address.
 */
typedef struct {
  /**
   * The key.
   */
  forebay_bytes key;
  /**
   * The value.
   */
  forebay_bytes value;
} forebay_item;

/**
 * An end of a range.
 */
typedef struct {
  /**
   * One of `forebay_bound_kind`.
   */
  int32_t kind;
  /**
   * The key; not read if there is no end.
   */
  forebay_bytes key;
} forebay_bound;

/**
 * Statistics of a map. They are a snapshot, which may be out of date at once.
 */
typedef struct {
  /**
   * `sizeof(forebay_stats)`.
   */
  size_t struct_bytes;
  /**
   * Entries.
   */
  uint64_t len;
  /**
   * Bytes of entries and nodes, including entries that wait for leases.
   */
  uint64_t used_bytes;
  /**
   * Bytes of the region that belong to the map.
   */
  uint64_t owned_bytes;
  /**
   * The limit of `used_bytes`; 0: limited only by the region.
   */
  uint64_t budget_bytes;
  /**
   * Entries that left the map and wait until no lease holds them.
   */
  uint64_t waiting_count;
  /**
   * Entries evicted so far.
   */
  uint64_t evicted_count;
  /**
   * Changes since the map was created.
   */
  uint64_t change_count;
  /**
   * Changes of dead processes that were finished or undone.
   */
  uint64_t repair_count;
  /**
   * Bytes of the hint table; 0: none.
   */
  uint64_t hint_bytes;
  /**
   * Shards of the map.
   */
  uint64_t shard_count;
} forebay_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the loaded library: major × 65536 + minor.
 */
uint32_t forebay_abi_version(void);

/**
 * Checks whether a program can work with the loaded library. The program passes
 * `FOREBAY_ABI_MAJOR` and `FOREBAY_ABI_MINOR` of the header with which it was compiled.
 *
 * `FOREBAY_CODE_VERSION`: the program cannot work with it.
 */
forebay_code forebay_abi_check(uint32_t major, uint32_t minor);

/**
 * The text of a code, which begins with the side of the cause. Never null; the string is static.
 * `forebay_last_message` has the details of a failure, such as the path.
 */
const char *forebay_code_text(int32_t code);

/**
 * The side of a code; `FOREBAY_SIDE_CALLER` for a number that is not a code.
 */
forebay_side forebay_code_side(int32_t code);

/**
 * The message of this thread's last call that failed; empty if none did. Never null; the library
 * owns the string, which is valid until another call of this thread fails.
 */
const char *forebay_last_message(void);

/**
 * Opens the region at this path, or creates it if there is none with these sizes. Processes that
 * call this at the same time get the same region.
 *
 * A region of *other* sizes is replaced if it has no participants; otherwise the code is
 * `FOREBAY_CODE_IN_USE`. To open a region of unknown sizes, call `forebay_region_attach`.
 *
 * The directory must belong to the caller alone (mode 0700); it is created if missing. It should
 * be on a file system in memory. The caller owns `region` until `forebay_region_close`.
 *
 * # Safety
 * - `path` is null or a string with a NUL at its end; `config` is null or has as many bytes as
 *   `struct_bytes` says. Both are only read during the call.
 * - `region` is null or can be written.
 */
forebay_code forebay_region_open(const char *path,
                                 const forebay_config *config,
                                 forebay_region **region);

/**
 * Opens an existing region at this path, whatever its sizes. The caller owns `region` until
 * `forebay_region_close`.
 *
 * # Safety
 * As `forebay_region_open`.
 */
forebay_code forebay_region_attach(const char *path, forebay_region **region);

/**
 * How the region was opened: `how` receives one of `forebay_opened_how`.
 */
forebay_code forebay_region_opened(const forebay_region *region, forebay_opened_how *how);

/**
 * Takes back the leases and locks of dead participants. `swept` receives the number of these
 * participants and may be null. Joins and changes do this by themselves when dead participants
 * take up room; call it to do so now.
 */
forebay_code forebay_region_sweep(const forebay_region *region, uint32_t *swept);

/**
 * Closes the caller's handle of the region; null is allowed. Participants that have joined stay
 * usable.
 */
forebay_code forebay_region_close(forebay_region *region);

/**
 * Joins a region. Each thread joins for itself. The caller owns `participant` until
 * `forebay_participant_leave`.
 *
 * `FOREBAY_CODE_PARTICIPANTS_FULL`: the region has its maximum number of living participants.
 */
forebay_code forebay_participant_join(const forebay_region *region,
                                      forebay_participant **participant);

/**
 * Leaves the region; null is allowed. Maps, entries, cursors and ranges that are still open stay
 * usable, and keep the participant's place until the last of them is closed.
 */
forebay_code forebay_participant_leave(forebay_participant *participant);

/**
 * Limits how long a change waits for the lock of its map, in milliseconds; then it fails with
 * `FOREBAY_CODE_BUSY`. With a negative number, the default, it waits as long as the owner holds
 * the lock, even if the owner is stopped. It never waits for a dead owner. Readers never wait.
 */
forebay_code forebay_participant_set_wait_max(const forebay_participant *participant,
                                              int64_t wait_ms_max);

/**
 * Opens the map of this name, of 1 to 64 bytes of UTF-8; creates it if there is none. `options`
 * may be null, and apply only if the map is created. The caller owns `map` until
 * `forebay_map_close`.
 *
 * `FOREBAY_CODE_FULL`: the region has no room left for the hint table.
 *
 * # Safety
 * - `participant` is null or a handle that is not closed, as everywhere below.
 * - `name` is null or a string with a NUL at its end; `options` is null or has as many bytes as
 *   `struct_bytes` says. Both are only read during the call.
 * - `map` is null or can be written.
 */
forebay_code forebay_participant_map(const forebay_participant *participant,
                                     const char *name,
                                     const forebay_options *options,
                                     forebay_map **map);

/**
 * Opens the map of this name; `FOREBAY_CODE_NO_MAP` if there is none. The caller owns `map` until
 * `forebay_map_close`.
 *
 * # Safety
 * As `forebay_participant_map`.
 */
forebay_code forebay_participant_existing_map(const forebay_participant *participant,
                                              const char *name,
                                              forebay_map **map);

/**
 * Copies the name of the map with this number, counted from 0, and a terminating NUL. 65 bytes are
 * enough for any name. `FOREBAY_CODE_ABSENT`: there are fewer maps.
 *
 * # Safety
 * `name` is null or has room for `name_bytes`.
 */
forebay_code forebay_participant_map_name(const forebay_participant *participant,
                                          size_t number,
                                          char *name,
                                          size_t name_bytes);

/**
 * Checks all maps of the region, each under its lock: whether every node is valid, and whether
 * every object in use is named exactly once. Unfinished changes of dead writers are repaired
 * first. `report` is written if the check completes, with or without problems.
 *
 * `FOREBAY_CODE_DAMAGED`: there is a problem; `forebay_last_message` describes the first one.
 *
 * # Safety
 * `report` is null or has as many bytes as its `struct_bytes`, which the caller sets, says.
 */
forebay_code forebay_participant_check(const forebay_participant *participant,
                                       forebay_check_report *report);

/**
 * Closes a map; null is allowed. Entries, cursors and ranges of the map stay usable.
 */
forebay_code forebay_map_close(forebay_map *map);

/**
 * Finds the entry of a key, to be read in place. It takes one of the participant's leases. The
 * caller owns `entry` until `forebay_entry_release`; `item` may be null, and stays valid for the
 * same time, even if the key is replaced, removed or evicted.
 *
 * `FOREBAY_CODE_ABSENT`: there is no such key, and nothing was written.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant: as
 *   everywhere below.
 * - `key` is as `forebay_bytes` says. `entry` and `item` are null or can be written.
 */
forebay_code forebay_map_get(const forebay_map *map,
                             forebay_bytes key,
                             forebay_entry **entry,
                             forebay_item *item);

/**
 * Copies the value of a key into a buffer of the caller. This takes no lease and, for short
 * values, less time than `forebay_map_get`. `value_len` receives the length of the value. If the
 * buffer is too small, nothing is copied, and the code is `FOREBAY_CODE_BUFFER`.
 *
 * `FOREBAY_CODE_ABSENT`: there is no such key, and nothing was written.
 *
 * # Safety
 * - `key` is as `forebay_bytes` says.
 * - `value` has room for `value_bytes`; it may be null if that is 0. `value_len` is null or can be
 *   written.
 */
forebay_code forebay_map_read(const forebay_map *map,
                              forebay_bytes key,
                              uint8_t *value,
                              size_t value_bytes,
                              size_t *value_len);

/**
 * Whether a key exists: `FOREBAY_CODE_OK` or `FOREBAY_CODE_ABSENT`.
 *
 * # Safety
 * As `forebay_map_get`.
 */
forebay_code forebay_map_contains(const forebay_map *map, forebay_bytes key);

/**
 * The number of entries at some recent moment.
 */
forebay_code forebay_map_len(const forebay_map *map, uint64_t *len);

/**
 * Key and value in place: valid until the entry is released.
 */
forebay_code forebay_entry_item(const forebay_entry *entry, forebay_item *item);

/**
 * Whether both handles hold the same entry, not only equal ones: an entry that was stored later is
 * never the same. `FOREBAY_CODE_OK` or `FOREBAY_CODE_DIFFERS`.
 */
forebay_code forebay_entry_is_same(const forebay_entry *entry, const forebay_entry *other);

/**
 * Releases an entry and its lease; null is allowed. The item that it showed must no longer be
 * read.
 */
forebay_code forebay_entry_release(forebay_entry *entry);

/**
 * Stores a value under a key and replaces the current one. `was_there` may be null; it receives 1
 * if the key existed before, else 0. Key and value are copied into the region.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant: as
 *   everywhere below.
 * - `key` and `value` are as `forebay_bytes` says. `was_there` is null or can be written.
 */
forebay_code forebay_map_put(const forebay_map *map,
                             forebay_bytes key,
                             forebay_bytes value,
                             uint8_t *was_there);

/**
 * Stores a value under a key that does not exist; otherwise `FOREBAY_CODE_DIFFERS`.
 *
 * # Safety
 * As `forebay_map_put`.
 */
forebay_code forebay_map_put_if_absent(const forebay_map *map,
                                       forebay_bytes key,
                                       forebay_bytes value);

/**
 * Stores a value under a key whose current value is `expected`; otherwise, or if the key does not
 * exist, `FOREBAY_CODE_DIFFERS`. The key may have had other values in between.
 *
 * # Safety
 * As `forebay_map_put`; `expected` too is as `forebay_bytes` says.
 */
forebay_code forebay_map_put_if_value(const forebay_map *map,
                                      forebay_bytes key,
                                      forebay_bytes expected,
                                      forebay_bytes value);

/**
 * Stores a value under the key of an entry, if that same entry is still current and no split has
 * moved it; otherwise `FOREBAY_CODE_DIFFERS`. Success means that the key has not changed since the
 * entry was read. The caller keeps the entry, which has to come from the same map.
 *
 * # Safety
 * As `forebay_map_put`; `entry` is null or a handle that is not released.
 */
forebay_code forebay_map_put_if_same(const forebay_map *map,
                                     const forebay_entry *entry,
                                     forebay_bytes value);

/**
 * Removes a key. `FOREBAY_CODE_ABSENT`: it did not exist.
 *
 * # Safety
 * As `forebay_map_put`.
 */
forebay_code forebay_map_remove(const forebay_map *map, forebay_bytes key);

/**
 * Removes a key whose current value is `expected`; otherwise, or if the key does not exist,
 * `FOREBAY_CODE_DIFFERS`.
 *
 * # Safety
 * As `forebay_map_put_if_value`.
 */
forebay_code forebay_map_remove_if_value(const forebay_map *map,
                                         forebay_bytes key,
                                         forebay_bytes expected);

/**
 * Removes the key of an entry, if that same entry is still current and no split has moved it;
 * otherwise `FOREBAY_CODE_DIFFERS`. The entry stays readable and the caller's.
 */
forebay_code forebay_map_remove_if_same(const forebay_map *map, const forebay_entry *entry);

/**
 * Frees replaced and removed entries that no lease holds; `freed` receives their number and may be
 * null. Changes do this by themselves from time to time; call it to free them now.
 */
forebay_code forebay_map_reclaim(const forebay_map *map, uint64_t *freed);

/**
 * Creates a cursor that stands at no entry. The caller owns `cursor` until `forebay_cursor_close`
 * or `forebay_cursor_into_entry`.
 */
forebay_code forebay_map_cursor(const forebay_map *map, forebay_cursor **cursor);

/**
 * Moves to the first entry and shows it in `item`, which may be null. As with all moves, the item
 * is valid until the cursor moves again or is closed. `FOREBAY_CODE_ABSENT`: there is no such
 * entry, and the cursor stands at none. After a failure it stands where it was.
 */
forebay_code forebay_cursor_first(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the last entry.
 */
forebay_code forebay_cursor_last(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the next entry; to the first if the cursor stands at none.
 */
forebay_code forebay_cursor_next(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the previous entry; to the last if the cursor stands at none.
 */
forebay_code forebay_cursor_previous(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the first entry whose key is at or above this one.
 *
 * # Safety
 * - `cursor` is null or a handle that is not closed, and no other thread uses its participant: as
 *   everywhere here.
 * - `key` is as `forebay_bytes` says; it may be the one that the cursor shows. `item` is null or
 *   can be written.
 */
forebay_code forebay_cursor_at_or_above(forebay_cursor *cursor,
                                        forebay_bytes key,
                                        forebay_item *item);

/**
 * Moves to the first entry whose key is above this one.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_above(forebay_cursor *cursor, forebay_bytes key, forebay_item *item);

/**
 * Moves to the last entry whose key is at or below this one.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_at_or_below(forebay_cursor *cursor,
                                        forebay_bytes key,
                                        forebay_item *item);

/**
 * Moves to the last entry whose key is below this one.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_below(forebay_cursor *cursor, forebay_bytes key, forebay_item *item);

/**
 * The entry at which the cursor stands, as it was when the cursor moved there;
 * `FOREBAY_CODE_ABSENT`: it stands at none.
 */
forebay_code forebay_cursor_item(const forebay_cursor *cursor, forebay_item *item);

/**
 * Closes the cursor and returns its entry with the lease: the item that the cursor showed stays
 * valid until `forebay_entry_release`. `FOREBAY_CODE_ABSENT`: it stood at none. The cursor is
 * closed in any case, unless it or `entry` is null.
 */
forebay_code forebay_cursor_into_entry(forebay_cursor *cursor, forebay_entry **entry);

/**
 * Closes a cursor; null is allowed. The item that it showed must no longer be read.
 */
forebay_code forebay_cursor_close(forebay_cursor *cursor);

/**
 * Creates a range over the entries between two ends; null means no end. The caller owns `range`
 * until `forebay_range_close`; the keys of the ends are copied.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant.
 * - `low` and `high` are null, or bounds whose keys are as `forebay_bytes` says.
 * - `range` is null or can be written.
 */
forebay_code forebay_map_range(const forebay_map *map,
                               const forebay_bound *low,
                               const forebay_bound *high,
                               forebay_range **range);

/**
 * Creates a range over the entries whose keys begin with `prefix`. The caller owns `range` until
 * `forebay_range_close`.
 *
 * # Safety
 * As `forebay_map_range`; `prefix` is as `forebay_bytes` says.
 */
forebay_code forebay_map_prefix(const forebay_map *map,
                                forebay_bytes prefix,
                                forebay_range **range);

/**
 * Estimates the number of entries between two ends, which are given as to `forebay_map_range`. Up
 * to a hundred entries or more the result is exact. Beyond that it is off by less than a quarter;
 * where keys come and go at random, rarely by up to a half. The estimate takes the time of a few
 * lookups, whatever the size of the range.
 *
 * # Safety
 * As `forebay_map_range`; `count` is null or can be written.
 */
forebay_code forebay_map_estimate(const forebay_map *map,
                                  const forebay_bound *low,
                                  const forebay_bound *high,
                                  uint64_t *count);

/**
 * Moves up to the next entry, at first to the lowest, and shows it in `item`, which may be null.
 * The item is valid until the range moves or is closed. `FOREBAY_CODE_ABSENT`: there is no further
 * entry, and the range has ended in both directions.
 */
forebay_code forebay_range_next(forebay_range *range, forebay_item *item);

/**
 * Moves down to the next entry, at first to the highest; otherwise as `forebay_range_next`.
 */
forebay_code forebay_range_previous(forebay_range *range, forebay_item *item);

/**
 * Closes a range; null is allowed. The item that it showed must no longer be read.
 */
forebay_code forebay_range_close(forebay_range *range);

/**
 * Creates a scan over the entries between two ends; null means no end. The caller owns `scan`
 * until `forebay_scan_close`; the keys of the ends are copied.
 *
 * # Safety
 * As `forebay_map_range`; `scan` is null or can be written.
 */
forebay_code forebay_map_scan(const forebay_map *map,
                              const forebay_bound *low,
                              const forebay_bound *high,
                              forebay_scan **scan);

/**
 * Creates a scan over the entries whose keys begin with `prefix`. The caller owns `scan` until
 * `forebay_scan_close`.
 *
 * # Safety
 * As `forebay_map_scan`; `prefix` is as `forebay_bytes` says.
 */
forebay_code forebay_map_scan_prefix(const forebay_map *map,
                                     forebay_bytes prefix,
                                     forebay_scan **scan);

/**
 * Moves up to the next entry, at first to the lowest, and shows a copy in `item`, which may be
 * null. The copy is valid until the scan moves or is closed. `FOREBAY_CODE_ABSENT`: there is no
 * further entry, and the scan has ended in both directions.
 */
forebay_code forebay_scan_next(forebay_scan *scan, forebay_item *item);

/**
 * Moves down to the next entry, at first to the highest; otherwise as `forebay_scan_next`.
 */
forebay_code forebay_scan_previous(forebay_scan *scan, forebay_item *item);

/**
 * Closes a scan; null is allowed. The item that it showed must no longer be read.
 */
forebay_code forebay_scan_close(forebay_scan *scan);

/**
 * The statistics of a map.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant.
 * - `stats` is null or has as many bytes as its `struct_bytes`, which the caller sets, says.
 */
forebay_code forebay_map_stats(const forebay_map *map, forebay_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOREBAY_ORDMAP_H */
