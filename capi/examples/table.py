"""A table that processes share: the same program as `table.c`, in Python.

Both can use one region at the same time.

    FOREBAY_LIBRARY=target/release/libforebay_capi.so \\
        python3 capi/examples/table.py /dev/shm/tables/region put lyon Rhone

The commands are those of `table.c`. Nothing but the standard library is needed.
"""

import ctypes
import os
import sys
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

OK, ABSENT, DIFFERS = 0, 1, 2


class Bytes(ctypes.Structure):
    """`forebay_bytes`; it keeps the Python bytes alive."""

    _fields_ = [("data", c_void_p), ("len", c_size_t)]

    @classmethod
    def of(cls, given):
        made = cls(ctypes.cast(c_char_p(given), c_void_p), len(given))
        made.given = given
        return made

    def copied(self):
        return ctypes.string_at(self.data, self.len)


class Item(ctypes.Structure):
    _fields_ = [("key", Bytes), ("value", Bytes)]


class Growing(ctypes.Structure):
    """A struct whose first field is its size."""

    def __init__(self, **values):
        super().__init__(struct_bytes=ctypes.sizeof(self), **values)


class Config(Growing):
    _fields_ = [("struct_bytes", c_size_t), ("bytes", c_uint64), ("maps_max", c_uint32),
                ("participants_max", c_uint32), ("leases_max", c_uint32), ("splits_max", c_uint32),
                ("hint_bytes", c_uint64)]


class Stats(Growing):
    _fields_ = [(name, c_uint64) for name in (
        "struct_bytes", "len", "used_bytes", "owned_bytes", "budget_bytes", "waiting_count",
        "evicted_count", "change_count", "repair_count", "hint_bytes", "shard_count")]


class CheckReport(Growing):
    _fields_ = [(name, c_uint64) for name in (
        "struct_bytes", "maps", "entries", "nodes", "waiting", "free_chunks", "findings")]


HANDLE, PLACE = c_void_p, POINTER(c_void_p)
FUNCTIONS = {
    "forebay_abi_check": [c_uint32, c_uint32],
    "forebay_region_open": [c_char_p, POINTER(Config), PLACE],
    "forebay_region_attach": [c_char_p, PLACE],
    "forebay_region_sweep": [HANDLE, POINTER(c_uint32)],
    "forebay_region_close": [HANDLE],
    "forebay_participant_join": [HANDLE, PLACE],
    "forebay_participant_map": [HANDLE, c_char_p, c_void_p, PLACE],
    "forebay_participant_check": [HANDLE, POINTER(CheckReport)],
    "forebay_participant_leave": [HANDLE],
    "forebay_map_put": [HANDLE, Bytes, Bytes, c_void_p],
    "forebay_map_put_if_absent": [HANDLE, Bytes, Bytes],
    "forebay_map_put_if_same": [HANDLE, HANDLE, Bytes],
    "forebay_map_get": [HANDLE, Bytes, PLACE, POINTER(Item)],
    "forebay_map_remove": [HANDLE, Bytes],
    "forebay_map_prefix": [HANDLE, Bytes, PLACE],
    "forebay_map_cursor": [HANDLE, PLACE],
    "forebay_map_stats": [HANDLE, POINTER(Stats)],
    "forebay_map_close": [HANDLE],
    "forebay_entry_release": [HANDLE],
    "forebay_range_next": [HANDLE, POINTER(Item)],
    "forebay_range_previous": [HANDLE, POINTER(Item)],
    "forebay_range_close": [HANDLE],
    "forebay_cursor_next": [HANDLE, POINTER(Item)],
    "forebay_cursor_previous": [HANDLE, POINTER(Item)],
    "forebay_cursor_item": [HANDLE, POINTER(Item)],
    "forebay_cursor_close": [HANDLE],
}


def load():
    library = ctypes.CDLL(os.environ.get("FOREBAY_LIBRARY", "libforebay_capi.so"))
    for name, arguments in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int32
    for name, arguments in (("forebay_code_text", [c_int32]), ("forebay_last_message", [])):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_char_p
    return library


LIBRARY = load()


class MapError(Exception):
    """A call failed; the text begins with the side of the cause."""


def call(name, *arguments):
    """Calls a function of the library; returns its code, or raises if that is a failure."""
    code = getattr(LIBRARY, "forebay_" + name)(*arguments)
    if code < 0:
        text, message = LIBRARY.forebay_code_text(code), LIBRARY.forebay_last_message()
        raise MapError(f"{text.decode()}: {message.decode()}")
    return code


@contextmanager
def opened(close, name, *arguments):
    """A handle, which is closed at the end."""
    handle = c_void_p()
    call(name, *arguments, byref(handle))
    try:
        yield handle
    finally:
        call(close, handle)


def show(item):
    print(f"{item.key.copied().decode()} = {item.value.copied().decode()}", flush=True)


class Table:
    """The map `table` of a region."""

    def __init__(self, region, participant, handle):
        self.region, self.participant, self.map = region, participant, handle

    def put(self, key, value):
        call("map_put", self.map, Bytes.of(key), Bytes.of(value), None)
        return 0

    def held(self, key):
        """The entry of a key and its item; `None` if the key does not exist."""
        entry, item = c_void_p(), Item()
        code = call("map_get", self.map, Bytes.of(key), byref(entry), byref(item))
        return (entry, item) if code == OK else None

    def get(self, key):
        held = self.held(key)
        if held is None:
            print("absent")
            return 1
        entry, item = held
        # Read in place: the item is valid until the entry is released, whatever others change.
        show(item)
        call("entry_release", entry)
        return 0

    def remove(self, key):
        code = call("map_remove", self.map, Bytes.of(key))
        if code == ABSENT:
            print("absent")
        return code

    def list(self, prefix=b"", move="range_next"):
        with opened("range_close", "map_prefix", self.map, Bytes.of(prefix)) as found:
            item = Item()
            while call(move, found, byref(item)) == OK:
                show(item)
        return 0

    def back(self, prefix=b""):
        return self.list(prefix, "range_previous")

    def try_add(self, key):
        """Adds 1, unless another process changes the value first."""
        held = self.held(key)
        if held is None:
            return call("map_put_if_absent", self.map, Bytes.of(key), Bytes.of(b"1"))
        entry, item = held
        number = str(int(item.value.copied()) + 1).encode()
        code = call("map_put_if_same", self.map, entry, Bytes.of(number))
        call("entry_release", entry)
        return code

    def add(self, key, count):
        done = again = 0
        while done < int(count):
            if self.try_add(key) == OK:
                done += 1
            else:
                again += 1
        print(f"added {done}, tried again {again} times")
        return 0

    def fill(self, count=b"0"):
        row = 0
        while int(count) == 0 or row < int(count):
            key = f"row {row % 5000:08}"
            self.put(key.encode(), f"this is {key}, {row}".encode())
            print(row, flush=True)
            row += 1
        return 0

    def walk(self):
        with opened("cursor_close", "map_cursor", self.map) as cursor:
            for line in sys.stdin:
                item = Item()
                move = {"next": "cursor_next", "previous": "cursor_previous"}
                code = call(move.get(line.strip(), "cursor_item"), cursor, byref(item))
                if code == OK:
                    show(item)
                else:
                    print("nowhere", flush=True)
        return 0

    def stats(self):
        stats = Stats()
        call("map_stats", self.map, byref(stats))
        print(f"len {stats.len}, {stats.used_bytes} bytes used, {stats.change_count} changes, "
              f"{stats.repair_count} repairs")
        return 0

    def check(self):
        report, swept = CheckReport(), c_uint32()
        call("region_sweep", self.region, byref(swept))
        call("participant_check", self.participant, byref(report))
        print(f"sound: {report.maps} maps, {report.entries} entries, {swept.value} dead swept")
        return 0


COMMANDS = ["put", "get", "remove", "list", "back", "add", "fill", "walk", "stats", "check"]


def main(path, command, *arguments):
    if command not in COMMANDS:
        sys.exit(f"no such command: {command}")
    call("abi_check", 2, 0)
    config = Config(bytes=8 << 20)
    with (opened("region_close", "region_open", path.encode(), byref(config)) as region,
          opened("participant_leave", "participant_join", region) as participant,
          opened("map_close", "participant_map", participant, b"table", None) as handle):
        table = Table(region, participant, handle)
        return getattr(table, command)(*(argument.encode() for argument in arguments))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: table.py REGION COMMAND [ARGUMENT…]")
    try:
        sys.exit(main(*sys.argv[1:]))
    except MapError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
