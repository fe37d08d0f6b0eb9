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
 * Another one: programs have to be compiled anew, and perhaps changed.
 */
#define FOREBAY_ABI_MAJOR 2

/**
 * A higher one: something was added.
 */
#define FOREBAY_ABI_MINOR 0

/**
 * What a function answers: 0 and above, it was done; below 0, it was not, and nothing has changed.
 * The numbers stay.
 */
enum forebay_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Done; yes.
   */
  FOREBAY_CODE_OK = 0,
  /**
   * There is nothing: no such key, or no further entry.
   */
  FOREBAY_CODE_ABSENT = 1,
  /**
   * What is there is not what was expected; nothing was changed.
   */
  FOREBAY_CODE_DIFFERS = 2,
  /**
   * A pointer is null that must not be.
   */
  FOREBAY_CODE_NULL = -1,
  /**
   * An argument breaks a rule.
   */
  FOREBAY_CODE_ARGUMENT = -2,
  /**
   * Program and library do not fit together.
   */
  FOREBAY_CODE_VERSION = -3,
  /**
   * The key is longer than any can be.
   */
  FOREBAY_CODE_KEY_TOO_LONG = -4,
  /**
   * The value is longer than any can be.
   */
  FOREBAY_CODE_VALUE_TOO_LONG = -5,
  /**
   * No map can have this name.
   */
  FOREBAY_CODE_NAME = -6,
  /**
   * There is no map of this name.
   */
  FOREBAY_CODE_NO_MAP = -7,
  /**
   * The memory for the answer is too small.
   */
  FOREBAY_CODE_BUFFER = -8,
  /**
   * The participant has all its leases in use.
   */
  FOREBAY_CODE_LEASES = -9,
  /**
   * The participant is the parent's of this process, which was forked off.
   */
  FOREBAY_CODE_FORKED = -10,
  /**
   * There is no memory left for the map.
   */
  FOREBAY_CODE_FULL = -20,
  /**
   * There are as many maps as there can be.
   */
  FOREBAY_CODE_MAPS_FULL = -21,
  /**
   * There are as many participants as there can be.
   */
  FOREBAY_CODE_PARTICIPANTS_FULL = -22,
  /**
   * The region holds what can not be.
   */
  FOREBAY_CODE_DAMAGED = -23,
  /**
   * What is under the path is no region that this library can use.
   */
  FOREBAY_CODE_UNUSABLE = -24,
  /**
   * Another process kept a lock for the whole time.
   */
  FOREBAY_CODE_BUSY = -30,
  /**
   * The region has other sizes, and others take part in it.
   */
  FOREBAY_CODE_IN_USE = -31,
  /**
   * The operating system refused.
   */
  FOREBAY_CODE_SYSTEM = -40,
  /**
   * The file system has no room.
   */
  FOREBAY_CODE_NO_SPACE = -41,
  /**
   * File or directory belong to, or can be written by, somebody else.
   */
  FOREBAY_CODE_PERMISSION = -42,
  /**
   * The library has a bug.
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
 * Whose matter it is that something was not done.
 */
enum forebay_side
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Nobody's: it was done.
   */
  FOREBAY_SIDE_NONE = 0,
  /**
   * The calling program's: called like this, it will fail again.
   */
  FOREBAY_SIDE_CALLER = 1,
  /**
   * The region's: its sizes, or what lies in it.
   */
  FOREBAY_SIDE_REGION = 2,
  /**
   * Another process's: trying again helps when it goes on.
   */
  FOREBAY_SIDE_OTHERS = 3,
  /**
   * The operating system's.
   */
  FOREBAY_SIDE_SYSTEM = 4,
  /**
   * This library's: please report it.
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
 * How a region came to be there.
 */
enum forebay_opened_how
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Nothing was there.
   */
  FOREBAY_OPENED_HOW_CREATED = 0,
  /**
   * It was there.
   */
  FOREBAY_OPENED_HOW_ATTACHED = 1,
  /**
   * Something else was there, as a region of other sizes or from before the machine was started
   * anew; what was in it is lost.
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
 * Stands at an entry of a map, or nowhere. It holds that entry, so it stays readable whatever
 * becomes of the map, and the cursor goes on from its key; two of the participant's leases are
 * needed while it moves, one while it stands.
 */
typedef struct forebay_cursor forebay_cursor;

/**
 * A key with its value as they were when they were found. They stay, whatever becomes of the key
 * in its map, until this is released; it takes one of the participant's leases.
 */
typedef struct forebay_entry forebay_entry;

/**
 * A map, as one participant uses it.
 */
typedef struct forebay_map forebay_map;

/**
 * A thread that takes part in a region. It may be handed to another thread together with all that
 * comes from it (maps, entries, cursors, ranges), but one thread at a time uses any of them.
 */
typedef struct forebay_participant forebay_participant;

/**
 * Goes over the entries between two keys, up or down, and holds the one that it shows. It needs
 * leases as a cursor does.
 */
typedef struct forebay_range forebay_range;

/**
 * A region of maps as a process has it open. Any number of threads may use it at one time.
 */
typedef struct forebay_region forebay_region;

/**
 * Goes over the entries between two keys, up or down, and shows a copy of each. It takes no lease:
 * for who reads much and keeps nothing.
 */
typedef struct forebay_scan forebay_scan;

/**
 * Sizes of a region, fixed when it is made. Set `struct_bytes` to `sizeof`, and the rest to 0
 * where the usual is right.
 */
typedef struct {
  /**
   * `sizeof(forebay_config)`.
   */
  size_t struct_bytes;
  /**
   * Size of the file: all maps with everything that belongs to them. There is no usual one.
   */
  uint64_t bytes;
  /**
   * How many maps there can be; usually 128.
   */
  uint32_t maps_max;
  /**
   * How many participants there can be, of all processes, at one time; usually 64.
   */
  uint32_t participants_max;
  /**
   * How many entries a participant can hold at one time; usually 16. A cursor needs two while it
   * moves, and one else.
   */
  uint32_t leases_max;
  /**
   * How often maps can be split, all together; 0: never. A map that may have eight parts needs
   * seven of them (`forebay_options`).
   */
  uint32_t splits_max;
  /**
   * How many of the bytes are for hashes in front of maps; usually none.
   */
  uint64_t hint_bytes;
} forebay_config;

/**
 * How a map is to be made. Set `struct_bytes` to `sizeof`, and the rest to 0 where the usual is
 * right.
 */
typedef struct {
  /**
   * `sizeof(forebay_options)`.
   */
  size_t struct_bytes;
  /**
   * Bytes that the map may take; then entries that were not used are evicted. 0: as many as the
   * region has, and nothing is evicted.
   */
  uint64_t budget_bytes;
  /**
   * Bytes of a hash in front of the tree, by which single keys are looked up: 16 for each entry
   * that is expected, of those that the region has for it. 0: none.
   */
  uint64_t hint_bytes;
  /**
   * Into how many parts the map may be split, up to 16, when its writers wait for each other:
   * then several change it at a time. Not with a budget, and not into more than the region has
   * left of its `splits_max`. 0: it is not split.
   */
  uint64_t shards_max;
} forebay_options;

/**
 * What a check found.
 */
typedef struct {
  /**
   * `sizeof(forebay_check_report)`.
   */
  size_t struct_bytes;
  /**
   * Maps that were looked through.
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
   * Entries that are in no map any more, and wait for leases.
   */
  uint64_t waiting;
  /**
   * Chunks of 16 KiB that no map has.
   */
  uint64_t free_chunks;
  /**
   * How much is wrong.
   */
  uint64_t findings;
} forebay_check_report;

/**
 * Bytes somewhere in memory. Where the caller passes them, they are the caller's and are only read
 * during the call; `data` may be null if `len` is 0. Where the library gives them, they are there
 * to be read until what shows them is released, moved or closed.
 */
typedef struct {
  /**
   * The first of them.
   */
  const uint8_t *data;
  /**
   * How many.
   */
  size_t len;
} forebay_bytes;

/**
 * Key and value of an entry, where they lie; those of a scan are copies. Of the others, the
 * value's first byte has an address that is a multiple of 8.
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
   * The key; nothing reads it if there is no end.
   */
  forebay_bytes key;
} forebay_bound;

/**
 * What a map holds and takes. A glance: others change it meanwhile.
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
   * Bytes of entries and nodes, with what waits for leases.
   */
  uint64_t used_bytes;
  /**
   * Bytes of the region that belong to the map.
   */
  uint64_t owned_bytes;
  /**
   * What `used_bytes` may be at most; 0: no limit but the region.
   */
  uint64_t budget_bytes;
  /**
   * Entries that wait until no lease can hold them.
   */
  uint64_t waiting_count;
  /**
   * Entries that were evicted.
   */
  uint64_t evicted_count;
  /**
   * Changes since the map was made.
   */
  uint64_t change_count;
  /**
   * How often a change of a dead process was finished or undone.
   */
  uint64_t repair_count;
  /**
   * Bytes of the hash in front of the tree; 0: it has none.
   */
  uint64_t hint_bytes;
  /**
   * Parts that the map is split into.
   */
  uint64_t shard_count;
} forebay_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that is loaded: major × 65536 + minor.
 */
uint32_t forebay_abi_version(void);

/**
 * Can a program work with the library that is loaded? It passes `FOREBAY_ABI_MAJOR` and
 * `FOREBAY_ABI_MINOR` of the header with which it was compiled.
 *
 * `FOREBAY_CODE_VERSION`, if not.
 */
forebay_code forebay_abi_check(uint32_t major, uint32_t minor);

/**
 * What a code means, and on which side the cause is. Never null; the text is the library's and
 * stays. Details of one failure, as its path, are in `forebay_last_message`.
 */
const char *forebay_code_text(int32_t code);

/**
 * On which side the cause is; `FOREBAY_SIDE_CALLER` for what is no code.
 */
forebay_side forebay_code_side(int32_t code);

/**
 * What was wrong in the last call of this thread that failed; empty, if none did. Never null; the
 * text is the library's, and stays until another call of this thread fails.
 */
const char *forebay_last_message(void);

/**
 * Opens the region under this path, and makes it if there is none with these sizes. Processes that
 * do so at the same time get the same region.
 *
 * A region of *other* sizes is replaced if nobody takes part in it; else the code is
 * `FOREBAY_CODE_IN_USE`. Who does not know the sizes attaches.
 *
 * The directory has to be the caller's alone (mode 0700); it is made if there is none. A file
 * system in memory is the right one. `region` is the caller's, until `forebay_region_close`.
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
 * Opens the region under this path, which has to be there, with whatever sizes it was made.
 * `region` is the caller's, until `forebay_region_close`.
 *
 * # Safety
 * As `forebay_region_open`.
 */
forebay_code forebay_region_attach(const char *path, forebay_region **region);

/**
 * How the region came to be there: one of `forebay_opened_how` goes to `how`.
 */
forebay_code forebay_region_opened(const forebay_region *region, forebay_opened_how *how);

/**
 * Takes back what dead participants held; their number goes to `swept`, unless it is null. Who
 * joins or changes a map does so by itself where the dead take room: this is for who wants it at
 * once.
 */
forebay_code forebay_region_sweep(const forebay_region *region, uint32_t *swept);

/**
 * Closes the region for who opened it; participants that have joined go on. Null is right, too.
 */
forebay_code forebay_region_close(forebay_region *region);

/**
 * Takes part in a region. Each thread joins for itself. `participant` is the caller's, until
 * `forebay_participant_leave`.
 *
 * `FOREBAY_CODE_PARTICIPANTS_FULL`: the living have all places.
 */
forebay_code forebay_participant_join(const forebay_region *region,
                                      forebay_participant **participant);

/**
 * Leaves; null is right, too. Maps, entries, cursors and ranges that are still open stay usable,
 * and keep the participant's place until the last of them is closed.
 */
forebay_code forebay_participant_leave(forebay_participant *participant);

/**
 * How long a change of the participant waits for the lock of its map, in milliseconds; then it
 * fails with `FOREBAY_CODE_BUSY`. Below 0, as at first: as long as the owner needs, who may be
 * stopped. Who is dead is not waited for, and readers wait for nobody.
 */
forebay_code forebay_participant_set_wait_max(const forebay_participant *participant,
                                              int64_t wait_ms_max);

/**
 * The map of this name, of 1 to 64 bytes of UTF-8; made if there is none. `options` may be null;
 * those of the one who made it stand. `map` is the caller's, until `forebay_map_close`.
 *
 * `FOREBAY_CODE_FULL`: the region has not so much left for a hash in front.
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
 * The map of this name, which has to be there: else `FOREBAY_CODE_NO_MAP`. `map` is the caller's,
 * until `forebay_map_close`.
 *
 * # Safety
 * As `forebay_participant_map`.
 */
forebay_code forebay_participant_existing_map(const forebay_participant *participant,
                                              const char *name,
                                              forebay_map **map);

/**
 * Copies the name of the map with this number, from 0 on, with a NUL behind it. 65 bytes are
 * enough for any. `FOREBAY_CODE_ABSENT`: there are not so many maps.
 *
 * # Safety
 * `name` is null or has room for `name_bytes`.
 */
forebay_code forebay_participant_map_name(const forebay_participant *participant,
                                          size_t number,
                                          char *name,
                                          size_t name_bytes);

/**
 * Looks through all maps of the region, each under its lock: is every node right, is every piece
 * of memory that is taken named once? What dead writers have left is repaired first. `report` is
 * written in any case in which the check came to its end.
 *
 * `FOREBAY_CODE_DAMAGED`: something is wrong; `forebay_last_message` says what was found first.
 *
 * # Safety
 * `report` is null or has as many bytes as its `struct_bytes`, which the caller sets, says.
 */
forebay_code forebay_participant_check(const forebay_participant *participant,
                                       forebay_check_report *report);

/**
 * Closes a map; null is right, too. Entries, cursors and ranges that come from it stay usable.
 */
forebay_code forebay_map_close(forebay_map *map);

/**
 * The entry of a key, to be read where it lies. It takes one of the participant's leases. `entry`
 * is the caller's, until `forebay_entry_release`; what `item` shows (it may be null) is valid as
 * long, even if the key is replaced, removed or evicted meanwhile.
 *
 * `FOREBAY_CODE_ABSENT`: there is no such key; nothing was written then.
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
 * Copies the value of a key into the caller's memory. It takes no lease, and less time than
 * `forebay_map_get` where values are short. The length of the value goes to `value_len`, also if
 * the memory is too small: then nothing is copied, and the code is `FOREBAY_CODE_BUFFER`.
 *
 * `FOREBAY_CODE_ABSENT`: there is no such key; nothing was written then.
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
 * Is there such a key? `FOREBAY_CODE_OK` or `FOREBAY_CODE_ABSENT`.
 *
 * # Safety
 * As `forebay_map_get`.
 */
forebay_code forebay_map_contains(const forebay_map *map, forebay_bytes key);

/**
 * How many entries there are. It was right at some moment.
 */
forebay_code forebay_map_len(const forebay_map *map, uint64_t *len);

/**
 * Key and value, where they lie: valid until the entry is released.
 */
forebay_code forebay_entry_item(const forebay_entry *entry, forebay_item *item);

/**
 * Are both the same entry, and not only equal? No entry is the same as one that was stored later.
 * `FOREBAY_CODE_OK` or `FOREBAY_CODE_DIFFERS`.
 */
forebay_code forebay_entry_is_same(const forebay_entry *entry, const forebay_entry *other);

/**
 * Releases an entry, and the lease with it; null is right, too. What it showed must not be read
 * any more.
 */
forebay_code forebay_entry_release(forebay_entry *entry);

/**
 * Stores a value under a key, whatever is there. 1 goes to `was_there`, if the key was there
 * before, else 0; it may be null. Both are copied into the region.
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
 * Stores a value under a key that is not there; else `FOREBAY_CODE_DIFFERS`.
 *
 * # Safety
 * As `forebay_map_put`.
 */
forebay_code forebay_map_put_if_absent(const forebay_map *map,
                                       forebay_bytes key,
                                       forebay_bytes value);

/**
 * Stores a value under a key that has this value now; else `FOREBAY_CODE_DIFFERS`, also if the key
 * is not there. The key may have had others meanwhile.
 *
 * # Safety
 * As `forebay_map_put`; `expected` too is as `forebay_bytes` says.
 */
forebay_code forebay_map_put_if_value(const forebay_map *map,
                                      forebay_bytes key,
                                      forebay_bytes expected,
                                      forebay_bytes value);

/**
 * Stores a value under the key of an entry, if that very entry is still there, and has not moved
 * as the map was split; else `FOREBAY_CODE_DIFFERS`. Nobody has changed the key since the entry
 * was got, then. The entry stays the caller's. It has to come from the same map.
 *
 * # Safety
 * As `forebay_map_put`; `entry` is null or a handle that is not released.
 */
forebay_code forebay_map_put_if_same(const forebay_map *map,
                                     const forebay_entry *entry,
                                     forebay_bytes value);

/**
 * Takes a key out. `FOREBAY_CODE_ABSENT`, if it was not there.
 *
 * # Safety
 * As `forebay_map_put`.
 */
forebay_code forebay_map_remove(const forebay_map *map, forebay_bytes key);

/**
 * Takes a key out that has this value now; else `FOREBAY_CODE_DIFFERS`, also if it is not there.
 *
 * # Safety
 * As `forebay_map_put_if_value`.
 */
forebay_code forebay_map_remove_if_value(const forebay_map *map,
                                         forebay_bytes key,
                                         forebay_bytes expected);

/**
 * Takes the key of an entry out, if that very entry is still there, and has not moved as the
 * map was split; else `FOREBAY_CODE_DIFFERS`.
 * The entry stays the caller's and readable.
 */
forebay_code forebay_map_remove_if_same(const forebay_map *map, const forebay_entry *entry);

/**
 * Frees what was replaced or removed and what no lease holds any more; the number goes to `freed`,
 * unless it is null. Changes do so themselves from time to time: this is for who wants to see it.
 */
forebay_code forebay_map_reclaim(const forebay_map *map, uint64_t *freed);

/**
 * A cursor that stands nowhere yet. `cursor` is the caller's, until `forebay_cursor_close` or
 * `forebay_cursor_into_entry`.
 */
forebay_code forebay_map_cursor(const forebay_map *map, forebay_cursor **cursor);

/**
 * Goes to the first entry, and shows it in `item`, which may be null: valid until the cursor moves
 * or is closed, as with all moves. `FOREBAY_CODE_ABSENT`: there is none, and the cursor stands
 * nowhere. After a failure it stands where it did.
 */
forebay_code forebay_cursor_first(forebay_cursor *cursor, forebay_item *item);

/**
 * Goes to the last entry.
 */
forebay_code forebay_cursor_last(forebay_cursor *cursor, forebay_item *item);

/**
 * Goes to the next entry; from nowhere to the first.
 */
forebay_code forebay_cursor_next(forebay_cursor *cursor, forebay_item *item);

/**
 * Goes to the entry before; from nowhere to the last.
 */
forebay_code forebay_cursor_previous(forebay_cursor *cursor, forebay_item *item);

/**
 * Goes to the first entry whose key is not below this one.
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
 * Goes to the first entry whose key is above this one.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_above(forebay_cursor *cursor, forebay_bytes key, forebay_item *item);

/**
 * Goes to the last entry whose key is not above this one.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_at_or_below(forebay_cursor *cursor,
                                        forebay_bytes key,
                                        forebay_item *item);

/**
 * Goes to the last entry whose key is below this one.
 *
 * # Safety
 * As `forebay_cursor_at_or_above`.
 */
forebay_code forebay_cursor_below(forebay_cursor *cursor, forebay_bytes key, forebay_item *item);

/**
 * The entry at which the cursor stands, as it was found; `FOREBAY_CODE_ABSENT`: it stands nowhere.
 */
forebay_code forebay_cursor_item(const forebay_cursor *cursor, forebay_item *item);

/**
 * Closes the cursor and gives away the entry at which it stands, with its lease: what the cursor
 * showed stays valid until `forebay_entry_release`. `FOREBAY_CODE_ABSENT`: it stood nowhere. The
 * cursor is closed in any case, unless it or `entry` is null.
 */
forebay_code forebay_cursor_into_entry(forebay_cursor *cursor, forebay_entry **entry);

/**
 * Closes a cursor; null is right, too. What it showed must not be read any more.
 */
forebay_code forebay_cursor_close(forebay_cursor *cursor);

/**
 * The entries whose keys are between two ends; null is no end. `range` is the caller's, until
 * `forebay_range_close`; the keys of the ends are copied.
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
 * The entries whose keys begin with these bytes. `range` is the caller's, until
 * `forebay_range_close`.
 *
 * # Safety
 * As `forebay_map_range`; `prefix` is as `forebay_bytes` says.
 */
forebay_code forebay_map_prefix(const forebay_map *map,
                                forebay_bytes prefix,
                                forebay_range **range);

/**
 * About how many entries lie between two ends, which are as in `forebay_map_range`: exact up to a
 * hundred or more, else off by less than a quarter, and seldom by more, up to a half, where keys
 * come and go at random. It takes the time of some look-ups, whatever lies between.
 *
 * # Safety
 * As `forebay_map_range`; `count` is null or can be written.
 */
forebay_code forebay_map_estimate(const forebay_map *map,
                                  const forebay_bound *low,
                                  const forebay_bound *high,
                                  uint64_t *count);

/**
 * The next entry up, at first the lowest, shown in `item`, which may be null: valid until the
 * range moves or is closed. `FOREBAY_CODE_ABSENT`: there is no further one, and none will come any
 * more in either direction.
 */
forebay_code forebay_range_next(forebay_range *range, forebay_item *item);

/**
 * The next entry down, at first the highest, as `forebay_range_next`.
 */
forebay_code forebay_range_previous(forebay_range *range, forebay_item *item);

/**
 * Closes a range; null is right, too. What it showed must not be read any more.
 */
forebay_code forebay_range_close(forebay_range *range);

/**
 * Copies of the entries whose keys are between two ends; null is no end. `scan` is the caller's,
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
 * Copies of the entries whose keys begin with these bytes. `scan` is the caller's, until
 * `forebay_scan_close`.
 *
 * # Safety
 * As `forebay_map_scan`; `prefix` is as `forebay_bytes` says.
 */
forebay_code forebay_map_scan_prefix(const forebay_map *map,
                                     forebay_bytes prefix,
                                     forebay_scan **scan);

/**
 * A copy of the next entry up, at first of the lowest, shown in `item`, which may be null: valid
 * until the scan moves or is closed. `FOREBAY_CODE_ABSENT`: there is no further one, and none will
 * come any more in either direction.
 */
forebay_code forebay_scan_next(forebay_scan *scan, forebay_item *item);

/**
 * A copy of the next entry down, at first of the highest, as `forebay_scan_next`.
 */
forebay_code forebay_scan_previous(forebay_scan *scan, forebay_item *item);

/**
 * Closes a scan; null is right, too. What it showed must not be read any more.
 */
forebay_code forebay_scan_close(forebay_scan *scan);

/**
 * What the map holds and takes.
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
