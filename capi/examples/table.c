/*
 * A table that processes share: the same program as `table.py`, in C. Both can use one region at
 * the same time.
 *
 *   cc -Iinclude examples/table.c -o table -L../target/release -lforebay_capi
 *   ./table /dev/shm/tables/region put lyon Rhone
 *
 *   put KEY VALUE      stores a row
 *   get KEY            shows a row
 *   remove KEY         removes a row
 *   list [PREFIX]      shows rows in order
 *   back [PREFIX]      shows rows in reverse order
 *   add KEY COUNT      adds 1 COUNT times, also while other processes do the same
 *   fill [COUNT]       stores row after row, and prints the number of each row that is stored
 *   walk               moves a cursor by the lines of its input (next, previous, item)
 *   stats              shows the statistics of the table
 *   check              sweeps dead participants, and checks the whole region
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forebay_ordmap.h"

/* Ends the program if a call failed. */
static forebay_code must(forebay_code code)
{
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", forebay_code_text(code), forebay_last_message());
        exit(2);
    }
    return code;
}

static forebay_bytes text(const char *text)
{
    return (forebay_bytes){ (const uint8_t *)text, strlen(text) };
}

static void show(forebay_item item)
{
    printf("%.*s = %.*s\n", (int)item.key.len, (const char *)item.key.data, (int)item.value.len,
           (const char *)item.value.data);
    fflush(stdout);
}

/* The exit status: 0 if the key was there. */
static int said(forebay_code code, const char *absent)
{
    must(code);
    if (code != FOREBAY_CODE_OK)
        puts(absent);
    return code == FOREBAY_CODE_OK ? 0 : 1;
}

static int get(forebay_map *map, const char *key)
{
    forebay_entry *entry;
    forebay_item item;
    forebay_code code = must(forebay_map_get(map, text(key), &entry, &item));
    if (code == FOREBAY_CODE_OK) {
        /* Read in place: the item is valid until the entry is released, whatever others change. */
        show(item);
        must(forebay_entry_release(entry));
    }
    return said(code, "absent");
}

static int list(forebay_map *map, const char *prefix, int is_back)
{
    forebay_range *range;
    forebay_item item;
    must(forebay_map_prefix(map, text(prefix), &range));
    while (must(is_back ? forebay_range_previous(range, &item) : forebay_range_next(range, &item))
           == FOREBAY_CODE_OK)
        show(item);
    must(forebay_range_close(range));
    return 0;
}

/* Adds 1, unless another process changes the value first. */
static forebay_code try_add(forebay_map *map, const char *key)
{
    forebay_entry *entry;
    forebay_item item;
    char number[32];
    if (must(forebay_map_get(map, text(key), &entry, &item)) == FOREBAY_CODE_ABSENT)
        return must(forebay_map_put_if_absent(map, text(key), text("1")));
    snprintf(number, sizeof number, "%.*s", (int)item.value.len, (const char *)item.value.data);
    snprintf(number, sizeof number, "%llu", strtoull(number, NULL, 10) + 1);
    forebay_code code = must(forebay_map_put_if_same(map, entry, text(number)));
    must(forebay_entry_release(entry));
    return code;
}

static int add(forebay_map *map, const char *key, unsigned long count)
{
    unsigned long again = 0;
    for (unsigned long done = 0; done < count;) {
        if (try_add(map, key) == FOREBAY_CODE_OK)
            done++;
        else
            again++;
    }
    printf("added %lu, tried again %lu times\n", count, again);
    return 0;
}

/* Once a number is printed, its row is stored, even if this process is killed right after. */
static int fill(forebay_map *map, unsigned long count)
{
    char key[32], value[64];
    for (unsigned long row = 0; count == 0 || row < count; row++) {
        snprintf(key, sizeof key, "row %08lu", row % 5000);
        snprintf(value, sizeof value, "this is row %08lu, %lu", row % 5000, row);
        must(forebay_map_put(map, text(key), text(value), NULL));
        printf("%lu\n", row);
        fflush(stdout);
    }
    return 0;
}

static int walk(forebay_map *map)
{
    forebay_cursor *cursor;
    forebay_item item;
    char line[64];
    must(forebay_map_cursor(map, &cursor));
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        forebay_code code = strcmp(line, "next") == 0 ? forebay_cursor_next(cursor, &item)
            : strcmp(line, "previous") == 0           ? forebay_cursor_previous(cursor, &item)
                                                      : forebay_cursor_item(cursor, &item);
        if (must(code) == FOREBAY_CODE_OK)
            show(item);
        else
            puts("nowhere");
        fflush(stdout);
    }
    must(forebay_cursor_close(cursor));
    return 0;
}

static int stats(forebay_map *map)
{
    forebay_stats stats = { .struct_bytes = sizeof stats };
    must(forebay_map_stats(map, &stats));
    printf("len %" PRIu64 ", %" PRIu64 " bytes used, %" PRIu64 " changes, %" PRIu64 " repairs\n",
           stats.len, stats.used_bytes, stats.change_count, stats.repair_count);
    return 0;
}

static int check(forebay_region *region, forebay_participant *participant)
{
    forebay_check_report report = { .struct_bytes = sizeof report };
    uint32_t swept;
    must(forebay_region_sweep(region, &swept));
    must(forebay_participant_check(participant, &report));
    printf("sound: %" PRIu64 " maps, %" PRIu64 " entries, %" PRIu32 " dead swept\n", report.maps,
           report.entries, swept);
    return 0;
}

static int run(forebay_map *map, int argc, char **argv)
{
    const char *command = argv[2];
    const char *first = argc > 3 ? argv[3] : "", *second = argc > 4 ? argv[4] : "";
    if (strcmp(command, "put") == 0)
        return said(forebay_map_put(map, text(first), text(second), NULL), "");
    if (strcmp(command, "get") == 0)
        return get(map, first);
    if (strcmp(command, "remove") == 0)
        return said(forebay_map_remove(map, text(first)), "absent");
    if (strcmp(command, "list") == 0 || strcmp(command, "back") == 0)
        return list(map, first, command[0] == 'b');
    if (strcmp(command, "add") == 0)
        return add(map, first, strtoul(second, NULL, 10));
    if (strcmp(command, "fill") == 0)
        return fill(map, strtoul(first, NULL, 10));
    if (strcmp(command, "walk") == 0)
        return walk(map);
    if (strcmp(command, "stats") == 0)
        return stats(map);
    fprintf(stderr, "no such command: %s\n", command);
    return 2;
}

int main(int argc, char **argv)
{
    forebay_config config = { .struct_bytes = sizeof config, .bytes = 8 << 20 };
    forebay_region *region;
    forebay_participant *participant;
    forebay_map *map;
    if (argc < 3) {
        fprintf(stderr, "usage: table REGION COMMAND [ARGUMENT…]\n");
        return 2;
    }
    must(forebay_abi_check(FOREBAY_ABI_MAJOR, FOREBAY_ABI_MINOR));
    must(forebay_region_open(argv[1], &config, &region));
    must(forebay_participant_join(region, &participant));
    must(forebay_participant_map(participant, "table", NULL, &map));
    int status = strcmp(argv[2], "check") == 0 ? check(region, participant) : run(map, argc, argv);
    must(forebay_map_close(map));
    must(forebay_participant_leave(participant));
    must(forebay_region_close(region));
    return status;
}
