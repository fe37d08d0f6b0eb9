/*
 * Ordered maps in shared memory: byte keys in order, immutable values that every process reads in
 * place.
 *
 * A process opens a region, each of its threads joins it as a participant, and a participant opens
 * maps. Every function that can fail returns a code. A code of 0 or above means success. A code
 * below 0 means failure: nothing has changed, except that a map with a budget may have evicted
 * entries. Unless a function says otherwise, its output arguments (the last ones) must not be null,
 * and they are written only when the code is FOREBAY_CODE_OK.
 *
 * The caller owns a handle that a function returns, and must close it exactly once. Handles may be
 * closed in any order. A forked child has to join the region by itself. With the handles of its
 * parent's participants the child may read entries that the parent still holds, make reads that
 * take no lease, and close its copies of the handles, which does not affect the parent. Calls that
 * need a lease or a lock return FOREBAY_CODE_FORKED.
 *
 * A test generates this file from the source: UPDATE_DOCS=1 cargo test -p forebay-capi
 */

#ifndef FOREBAY_ORDMAP_H
#define FOREBAY_ORDMAP_H

#include <stddef.h>
#include <stdint.h>

/**
 * The major version of the ABI. When it grows, programs have to be compiled again, and may have to
 * be changed.
 */
#define FOREBAY_ABI_MAJOR 2

/**
 * The minor version of the ABI. It grows when a function, a code or a field is added.
 */
#define FOREBAY_ABI_MINOR 0

/**
 * The result of a function. A code of 0 or above means success; a code below 0 means failure. The
 * numbers are stable.
 */
enum forebay_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * The call succeeded, or its answer is yes.
   */
  FOREBAY_CODE_OK = 0,
  /**
   * The key does not exist, or there is no further entry.
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
   * Another participant held a lock until the time limit.
   */
  FOREBAY_CODE_BUSY = -30,
  /**
   * The region has other sizes, and participants use it.
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
   * Another user owns the file or its directory, or has access to it.
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
 * The side that caused a failure.
 */
enum forebay_side
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * No side: the call succeeded.
   */
  FOREBAY_SIDE_NONE = 0,
  /**
   * The calling program. The same call will fail again.
   */
  FOREBAY_SIDE_CALLER = 1,
  /**
   * The region, by its sizes or its contents.
   */
  FOREBAY_SIDE_REGION = 2,
  /**
   * Another process. A retry may succeed when that process has continued or ended.
   */
  FOREBAY_SIDE_OTHERS = 3,
  /**
   * The operating system.
   */
  FOREBAY_SIDE_SYSTEM = 4,
  /**
   * This library. Please report the bug.
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
   * No file existed, and the region was created.
   */
  FOREBAY_OPENED_HOW_CREATED = 0,
  /**
   * The region existed, and was opened.
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
 * A position in a map: at an entry, or at no entry. A cursor holds its entry, which stays readable
 * whatever changes in the map. A move starts from the key of that entry. A move needs two of the
 * participant's leases; a cursor at an entry uses one.
 */
typedef struct forebay_cursor forebay_cursor;

/**
 * A key with its value at the time of the read. Both stay readable until the entry is released,
 * even if the key is replaced, removed or evicted in its map. The entry uses one of the
 * participant's leases.
 */
typedef struct forebay_entry forebay_entry;

/**
 * The handle of a map for one participant.
 */
typedef struct forebay_map forebay_map;

/**
 * A thread's membership in a region. A participant may be passed to another thread together with
 * all handles that come from it (maps, entries, cursors, ranges, scans), but only one thread at a
 * time may use the participant or any of these handles.
 */
typedef struct forebay_participant forebay_participant;

/**
 * A walk over the entries between two keys, up or down. A range holds the current entry, and needs
 * as many leases as a cursor.
 */
typedef struct forebay_range forebay_range;

/**
 * A region of maps that a process has open. Any number of threads may use it at the same time.
 */
typedef struct forebay_region forebay_region;

/**
 * A walk over the entries between two keys, up or down, which shows a copy of each entry. A scan
 * takes no lease. It suits programs that read many entries and hold none.
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
   * The size of the file, which holds all maps and everything that belongs to them. This field
   * has no default.
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
   * held uses one lease. A cursor uses one, and two while it moves.
   */
  uint32_t leases_max;
  /**
   * The largest number of splits of all maps together; 0: no map is split. A map that may have
   * eight shards (`shards_max` in `forebay_options`) needs seven splits.
   */
  uint32_t splits_max;
  /**
   * The part of `bytes` that is reserved for the hint tables of all maps; by default 0.
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
   * The most bytes that the map's entries and nodes may take. When they are used up, entries
   * that were not used recently are evicted. 0: no limit but the region's size, and no eviction.
   */
  uint64_t budget_bytes;
  /**
   * Bytes of the map's hint table, which speeds up lookups of single keys; 16 bytes for each
   * expected entry are a good size. They are taken from the region's `hint_bytes`. 0: no hint
   * table.
   */
  uint64_t hint_bytes;
  /**
   * The largest number of shards of the map, at most 16. A map is split into shards when its
   * writers wait for each other; then several writers can change it at the same time. The
   * region's `splits_max` limits the splits, too. A map with a budget is never split. 0: never
   * split.
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
   * The number of maps that were checked.
   */
  uint64_t maps;
  /**
   * The number of entries in all maps.
   */
  uint64_t entries;
  /**
   * The number of tree nodes in all maps.
   */
  uint64_t nodes;
  /**
   * The number of entries that have left their map but are not freed, because a lease may hold
   * them.
   */
  uint64_t waiting;
  /**
   * The number of chunks of 16 KiB that no map owns.
   */
  uint64_t free_chunks;
  /**
   * The number of problems that were found.
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
 * The key and the value of an entry, in place. The address of the value is a multiple of 8. In an
 * item of a scan, key and value are copies at any address.
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
   * 0: the range has no end on this side. 1: the range includes the key. 2: the range excludes
   * the key.
   */
  int32_t kind;
  /**
   * The key; ignored if the kind is 0.
   */
  forebay_bytes key;
} forebay_bound;

/**
 * Statistics of a map. Other participants may change these numbers at any time.
 */
typedef struct {
  /**
   * `sizeof(forebay_stats)`.
   */
  size_t struct_bytes;
  /**
   * The number of entries.
   */
  uint64_t len;
  /**
   * Bytes of entries and nodes, including waiting entries.
   */
  uint64_t used_bytes;
  /**
   * Bytes of the chunks that the map owns.
   */
  uint64_t owned_bytes;
  /**
   * The limit of `used_bytes`; 0: only the region limits the map.
   */
  uint64_t budget_bytes;
  /**
   * The number of waiting entries: they have left the map but are not freed, because a lease may
   * hold them.
   */
  uint64_t waiting_count;
  /**
   * The number of entries evicted so far.
   */
  uint64_t evicted_count;
  /**
   * The number of changes since the map was created.
   */
  uint64_t change_count;
  /**
   * How often a shard was repaired after a process had died while it held the shard's lock.
   */
  uint64_t repair_count;
  /**
   * Bytes of the hint table; 0: the map has none.
   */
  uint64_t hint_bytes;
  /**
   * The number of shards of the map.
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
 * `FOREBAY_CODE_VERSION`: the program cannot work with the library.
 */
forebay_code forebay_abi_check(uint32_t major, uint32_t minor);

/**
 * The text of a code; the text of a failure begins with the side that caused it. Never null; the
 * string is static. `forebay_last_message` has the details of a failure, such as the path.
 */
const char *forebay_code_text(int32_t code);

/**
 * The side of a code; `FOREBAY_SIDE_CALLER` for a number that is not a code.
 */
forebay_side forebay_code_side(int32_t code);

/**
 * The message of this thread's last call that failed; empty if no call has failed. Never null; the
 * library owns the string, which is valid until another call of this thread fails.
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
 * participants and may be null. Joining the region and changing a map do this only when they need
 * something that a dead participant holds; this function does it now.
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
 * Leaves the region; null is allowed. Maps, entries, cursors, ranges and scans that are still open
 * stay usable, and the participant stays in the region until the last of these handles is closed.
 */
forebay_code forebay_participant_leave(forebay_participant *participant);

/**
 * Limits how many milliseconds a change, or the creation of a map, waits for a lock. After that
 * time it fails with `FOREBAY_CODE_BUSY`. A negative number, the default, is no limit, even if the
 * owner of the lock is stopped. A dead owner is not waited for. Readers never wait.
 */
forebay_code forebay_participant_set_wait_max(const forebay_participant *participant,
                                              int64_t wait_ms_max);

/**
 * Opens the map of this name, or creates it if there is none. A name has 1 to 64 bytes of UTF-8.
 * `options` may be null, and apply only if the map is created. The caller owns `map` until
 * `forebay_map_close`.
 *
 * `FOREBAY_CODE_FULL`: the region has too few bytes left for the hint table.
 *
 * # Safety
 * - `participant` is null or a handle that is not closed. This applies to all functions below.
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
 * Copies the name of a map and a terminating NUL to `name`. `number` is the index of the map among
 * the maps of the region. 65 bytes are enough for any name. `FOREBAY_CODE_ABSENT`: the region has
 * no map with this index.
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
 * exactly one reference leads to every object in use. Unfinished changes of dead writers are
 * repaired first. `report` is written if the check completes, with or without problems.
 *
 * `FOREBAY_CODE_DAMAGED`: there is a problem; `forebay_last_message` describes the first one.
 *
 * # Safety
 * `report` is null or points to as many bytes as its field `struct_bytes` says. The caller sets
 * this field.
 */
forebay_code forebay_participant_check(const forebay_participant *participant,
                                       forebay_check_report *report);

/**
 * Closes a map; null is allowed. Entries, cursors, ranges and scans of the map stay usable.
 */
forebay_code forebay_map_close(forebay_map *map);

/**
 * Finds the entry of a key, to be read in place. The entry uses one of the participant's leases.
 * The caller owns `entry` until `forebay_entry_release`; `item` may be null, and stays valid for
 * the same time, even if the key is replaced, removed or evicted.
 *
 * `FOREBAY_CODE_ABSENT`: there is no such key, and nothing was written.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant. This
 *   applies to all functions below.
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
 * Returns `FOREBAY_CODE_OK` if a key exists, otherwise `FOREBAY_CODE_ABSENT`.
 *
 * # Safety
 * As `forebay_map_get`.
 */
forebay_code forebay_map_contains(const forebay_map *map, forebay_bytes key);

/**
 * Writes the number of entries to `len`. The number was exact at a recent moment; in a map of
 * several shards, the entries of each shard are counted at a different moment.
 */
forebay_code forebay_map_len(const forebay_map *map, uint64_t *len);

/**
 * Writes the key and the value of an entry to `item`. Both are shown in place, and stay valid
 * until the entry is released.
 */
forebay_code forebay_entry_item(const forebay_entry *entry, forebay_item *item);

/**
 * Returns `FOREBAY_CODE_OK` if both handles hold the same stored entry, otherwise
 * `FOREBAY_CODE_DIFFERS`. Equal entries are not the same if they were stored at different times.
 */
forebay_code forebay_entry_is_same(const forebay_entry *entry, const forebay_entry *other);

/**
 * Releases an entry and its lease; null is allowed. The item of the entry must no longer be read.
 */
forebay_code forebay_entry_release(forebay_entry *entry);

/**
 * Stores a value under a key, and replaces the key's current value. `was_there` may be null; it
 * receives 1 if the key existed before, else 0. Key and value are copied into the region.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant. This
 *   applies to all functions below.
 * - `key` and `value` are as `forebay_bytes` says. `was_there` is null or can be written.
 */
forebay_code forebay_map_put(const forebay_map *map,
                             forebay_bytes key,
                             forebay_bytes value,
                             uint8_t *was_there);

/**
 * Stores a value under a key if the key does not exist; otherwise returns `FOREBAY_CODE_DIFFERS`.
 *
 * # Safety
 * As `forebay_map_put`.
 */
forebay_code forebay_map_put_if_absent(const forebay_map *map,
                                       forebay_bytes key,
                                       forebay_bytes value);

/**
 * Stores a value under a key if the key's current value is `expected`. If the value differs or the
 * key does not exist, returns `FOREBAY_CODE_DIFFERS`. Success does not mean that the key has had
 * this value all the time.
 *
 * # Safety
 * As `forebay_map_put`; `expected` is as `forebay_bytes` says, too.
 */
forebay_code forebay_map_put_if_value(const forebay_map *map,
                                      forebay_bytes key,
                                      forebay_bytes expected,
                                      forebay_bytes value);

/**
 * Stores a value under the key of an entry if that same entry is still current and no split has
 * moved it; otherwise returns `FOREBAY_CODE_DIFFERS`. Success means that the key has not changed
 * since the entry was read. The entry must come from the same map. The caller still has to release
 * it.
 *
 * # Safety
 * As `forebay_map_put`; `entry` is null or a handle that is not released.
 */
forebay_code forebay_map_put_if_same(const forebay_map *map,
                                     const forebay_entry *entry,
                                     forebay_bytes value);

/**
 * Removes a key. `FOREBAY_CODE_ABSENT`: the key did not exist.
 *
 * # Safety
 * As `forebay_map_put`.
 */
forebay_code forebay_map_remove(const forebay_map *map, forebay_bytes key);

/**
 * Removes a key if its current value is `expected`. If the value differs or the key does not
 * exist, returns `FOREBAY_CODE_DIFFERS`.
 *
 * # Safety
 * As `forebay_map_put_if_value`.
 */
forebay_code forebay_map_remove_if_value(const forebay_map *map,
                                         forebay_bytes key,
                                         forebay_bytes expected);

/**
 * Removes the key of an entry if that same entry is still current and no split has moved it;
 * otherwise returns `FOREBAY_CODE_DIFFERS`. The entry stays readable, and the caller still has to
 * release it.
 */
forebay_code forebay_map_remove_if_same(const forebay_map *map, const forebay_entry *entry);

/**
 * Frees replaced and removed entries that no lease holds; `freed` receives the number of freed
 * entries and may be null. Changes free such entries from time to time; this function frees them
 * now.
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
 * entry, and the cursor stands at no entry now. If a move fails, the cursor does not move.
 */
forebay_code forebay_cursor_first(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the last entry.
 */
forebay_code forebay_cursor_last(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the next entry, or to the first one if the cursor stands at no entry.
 */
forebay_code forebay_cursor_next(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the previous entry, or to the last one if the cursor stands at no entry.
 */
forebay_code forebay_cursor_previous(forebay_cursor *cursor, forebay_item *item);

/**
 * Moves to the first entry whose key is at or above `key`.
 *
 * # Safety
 * - `cursor` is null or a handle that is not closed, and no other thread uses its participant.
 *   This applies to all functions of cursors.
 * - `key` is as `forebay_bytes` says; it may be the key that the cursor shows. `item` is null or
 *   can be written.
 */
forebay_code forebay_cursor_at_or_above(forebay_cursor *cursor,
                                        forebay_bytes key,
                                        forebay_item *item);

/**
 * Moves to the first entry whose key is above `key`.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_above(forebay_cursor *cursor, forebay_bytes key, forebay_item *item);

/**
 * Moves to the last entry whose key is at or below `key`.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_at_or_below(forebay_cursor *cursor,
                                        forebay_bytes key,
                                        forebay_item *item);

/**
 * Moves to the last entry whose key is below `key`.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_below(forebay_cursor *cursor, forebay_bytes key, forebay_item *item);

/**
 * The entry at which the cursor stands, as it was when the cursor moved there.
 * `FOREBAY_CODE_ABSENT`: the cursor stands at no entry.
 */
forebay_code forebay_cursor_item(const forebay_cursor *cursor, forebay_item *item);

/**
 * Closes the cursor and returns its entry with the lease: the item that the cursor showed stays
 * valid until `forebay_entry_release`. `FOREBAY_CODE_ABSENT`: the cursor stood at no entry; the
 * cursor is closed all the same. If `entry` is null, the cursor is not closed.
 */
forebay_code forebay_cursor_into_entry(forebay_cursor *cursor, forebay_entry **entry);

/**
 * Closes a cursor; null is allowed. The item that the cursor showed must no longer be read.
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
 * Estimates the number of entries between two ends, which are given as to `forebay_map_range`. The
 * result is exact up to at least a hundred entries. Beyond that it is off by less than a quarter;
 * rarely, after random inserts and removals, by up to a half. The call reads at most a few hundred
 * nodes of each shard, whatever the size of the range.
 *
 * # Safety
 * As `forebay_map_range`; `count` is null or can be written.
 */
forebay_code forebay_map_estimate(const forebay_map *map,
                                  const forebay_bound *low,
                                  const forebay_bound *high,
                                  uint64_t *count);

/**
 * Moves up to the next entry, and shows it in `item`, which may be null. A new range moves to its
 * lowest entry. The item is valid until the range moves or is closed. `FOREBAY_CODE_ABSENT`: there
 * is no further entry, and the range has ended in both directions.
 */
forebay_code forebay_range_next(forebay_range *range, forebay_item *item);

/**
 * Moves down to the next entry. A new range moves to its highest entry. The item and the code are
 * as for `forebay_range_next`.
 */
forebay_code forebay_range_previous(forebay_range *range, forebay_item *item);

/**
 * Closes a range; null is allowed. The item that the range showed must no longer be read.
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
 * Moves up to the next entry, and shows a copy in `item`, which may be null. A new scan moves to
 * its lowest entry. The copy is valid until the scan moves or is closed. `FOREBAY_CODE_ABSENT`:
 * there is no further entry, and the scan has ended in both directions.
 */
forebay_code forebay_scan_next(forebay_scan *scan, forebay_item *item);

/**
 * Moves down to the next entry. A new scan moves to its highest entry. The item and the code are
 * as for `forebay_scan_next`.
 */
forebay_code forebay_scan_previous(forebay_scan *scan, forebay_item *item);

/**
 * Closes a scan; null is allowed. The item that the scan showed must no longer be read.
 */
forebay_code forebay_scan_close(forebay_scan *scan);

/**
 * Writes the statistics of a map to `stats`.
 *
 * # Safety
 * - `map` is null or a handle that is not closed, and no other thread uses its participant.
 * - `stats` is null or points to as many bytes as its field `struct_bytes` says. The caller sets
 *   this field.
 */
forebay_code forebay_map_stats(const forebay_map *map, forebay_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOREBAY_ORDMAP_H */
