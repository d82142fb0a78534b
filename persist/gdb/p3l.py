"""Pointers into stores of P3L, for gdb: (gdb) source persist/gdb/p3l.py

A pointer that was not read yet is not an address but a surrogate (p3l_access.h), which gdb would print as
0x8000000000012080. With this script it is

    18:128 (not resident)               page 18, byte 128; not accessed yet
    18:128 -> 0x7f2a40001080            the object is in memory, only this slot has not been healed
    0x7f2a40001080 (part 18:128)        an address in persistent memory: what lies there, from where

for p3l::pptr<T> and for plain C pointers alike. Nothing is called in the program for that: the
library's tables are read as they lie, so it works on core files, too. The commands (`help p3l`):

    p3l store                the stores that are open: memory, objects, transaction, counts
    p3l where EXPRESSION     what a pointer, address or surrogate leads to
    p3l print EXPRESSION     the object that a pointer leads to
    p3l fetch EXPRESSION     makes it resident; the one command that runs code of the program

Needs the library's debugging information (it is built with -g).
"""

import re

import gdb
import gdb.xmethod

SURROGATE = 1 << 63
ZEROS = 0x60 << 56
ADDRESS = (1 << 56) - 1
PAGE = 4096
GRANULE = 16
SEGMENT = 1 << 20
FRAMES, ARENA, LARGE = range(3)  # p3l_segment_kind
ADOPTED = 2  # p3l_frame_use
NEW, DEAD = 2, 4  # flags of p3l_resident
USE_LARGE = 2  # p3l_page_use
LARGE_PART = PAGE - 64


def is_surrogate(word):
    return bool(word & SURROGATE) and not word & ZEROS


def show_address(byte):
    """An address in the store, as `p3l dump` writes it."""
    return "%d:%d" % (byte // PAGE, byte % PAGE)


def bit_at_or_before(words, index):
    """The last bit set at or before `index` of an array of 64-bit words, or None."""
    for at in range(index, -1, -1):
        if int(words[at // 64]) >> at % 64 & 1:
            return at
    return None


def bits_before(words, index):
    whole = sum(bin(int(words[at])).count("1") for at in range(index // 64))
    if index % 64 == 0:
        return whole
    return whole + bin(int(words[index // 64]) & ((1 << index % 64) - 1)).count("1")


class Place:
    """A place in persistent memory: its store, object, and position in the store."""

    def __init__(self, store, object_address, offset, type_id, flags):
        self.store = store
        self.object = object_address
        self.byte = object_address + offset
        self.offset = offset
        self.flags = flags
        self.type = type_name(store, type_id)

    def __str__(self):
        text = "%s %s" % (self.type, show_address(self.object))
        if self.offset:
            text += " + %d" % self.offset
        if self.flags & DEAD:
            text += ", deleted"
        elif self.flags & NEW:
            text += ", new"
        return text


def type_name(store, type_id):
    table = store["types"]
    if type_id < int(table["limit"]) and int(table["types"][type_id]):
        return table["types"][type_id]["name"].string()
    return "object"


def library_symbol(name):
    """A variable of the library; None if it is missing or has no debugging information."""
    symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if symbol is None:
        return None
    try:
        return symbol.value()
    except gdb.error:
        return None


def stores():
    store = library_symbol("p3l_open_stores")
    while store is not None and int(store):
        yield store.dereference()
        store = store["next"]


def segment_of(address):
    memory = library_symbol("p3l_persistent_memory")
    table = library_symbol("p3l_segment_table")
    if memory is None or table is None:
        return None
    offset = address - int(memory["base"])
    if not 0 <= offset < int(memory["bytes"]):
        return None
    segment = table[offset // SEGMENT]
    return segment.dereference() if int(segment) else None


def place_of(address):
    """The Place of an address of memory, or None."""
    segment = segment_of(address)
    if segment is None:
        return None
    store = segment["store"].dereference()
    offset = address - int(segment["memory"])
    kind = int(segment["kind"])
    if kind == LARGE:
        large = segment["large"]
        if offset >= int(large["bytes"]):
            return None
        what = large["object"]
        return Place(store, int(what["address"]), offset, int(what["type"]), int(what["flags"]))
    if kind == ARENA:
        arena = segment["arena"]
        if offset >= int(arena["fill"]):
            return None
        start = bit_at_or_before(arena["starts"], offset // GRANULE)
        if start is None:
            return None
        word = start // 64
        below = int(arena["starts"][word]) & ((1 << start % 64) - 1)
        what = arena["objects"][int(arena["rank"][word]) + bin(below).count("1")]
        into = offset - start * GRANULE
        if into >= int(what["granules"]) * GRANULE:
            return None
        return Place(store, int(what["address"]), into, int(what["type"]), int(what["flags"]))
    frame = segment["frames"]["frame"][offset // PAGE]
    if int(frame["use"]) != ADOPTED:
        return None
    page = frame["state"]["frame"].dereference()
    start = bit_at_or_before(page["starts"], offset % PAGE // GRANULE)
    if start is None or offset % PAGE >= int(page["end"]):
        return None
    index = bits_before(page["starts"], start)
    at_end = gdb.selected_inferior().read_memory(
        int(frame["state"]["frame"]) + PAGE - 2 * (index + 1), 2
    )
    type_id = int.from_bytes(bytes(at_end), "little")
    begin = int(frame["page"]) * PAGE + start * GRANULE
    return Place(store, begin, offset % PAGE - start * GRANULE, type_id, 0)


def page_state(store, number):
    """The library's state of a page (page_state.h), or None."""
    states = store["pages"]
    if not int(states) or not int(states["top"]) or number >> 18 >= int(states["top"]["count"]):
        return None
    middle = states["top"]["middles"][number >> 18]
    if not int(middle):
        return None
    group = middle["groups"][number >> 9 & 511]
    return group["states"][number & 511] if int(group) else None


def resident_in(store, byte):
    """The memory address of a byte of the store, or None."""
    number, offset = byte // PAGE, byte % PAGE
    state = page_state(store, number)
    if state is None or not state["known"]:
        return None
    if int(state["use"]) == USE_LARGE:
        first = int(state["large"]["first"])
        begin = page_state(store, first)
        memory = int(begin["large"]["memory"]) if begin is not None else 0
        return memory + byte - first * PAGE if memory else None
    granule = offset // GRANULE
    in_place = bit_at_or_before(state["in_place"], granule)
    copied = bit_at_or_before(state["copied"], granule)
    if copied is not None and (in_place is None or copied > in_place):
        memory = int(state["copies"][bits_before(state["copied"], copied)])
        address = memory + offset - copied * GRANULE
    elif in_place is not None:
        address = int(state["frame"]) + offset
    else:
        return None
    # An object that is resident may end before the byte, and the next not be resident.
    place = place_of(address)
    return address if place is not None and place.byte == byte else None


def resident(word, slot):
    """The address of a surrogate's object in memory, or None. Searches the slot's store, or all stores if that is unknown."""
    byte = word & ADDRESS
    near = segment_of(slot) if slot is not None else None
    for store in [near["store"].dereference()] if near is not None else stores():
        address = resident_in(store, byte)
        if address is not None:
            return address
    return None


def show(word, slot):
    """How to print a pointer; None: gdb's default, since it does not refer to a store."""
    try:
        if is_surrogate(word):
            address = resident(word, slot)
            name = show_address(word & ADDRESS)
            return "%s -> 0x%x" % (name, address) if address else name + " (not resident)"
        place = place_of(word) if word else None
        return "0x%x (%s)" % (word, place) if place else None
    except gdb.MemoryError:
        return None


def word_of(value):
    return int(value.cast(gdb.lookup_type("unsigned long"))) & (1 << 64) - 1


def slot_of(value):
    return int(value.address) if value.address is not None else None


class Pointer:
    """A pointer of either kind, which has something to do with a store."""

    def __init__(self, text):
        self.text = text

    def to_string(self):
        return self.text


class Pptr:
    """p3l::pptr<T>."""

    def __init__(self, value):
        self.slot = value["slot_"]

    def to_string(self):
        word = word_of(self.slot)
        return show(word, slot_of(self.slot)) or "0x%x" % word


class Field:
    """p3l::field<T>: its value."""

    def __init__(self, value):
        self.value = value["value_"]

    def to_string(self):
        return self.value


def is_pptr(value):
    return re.match(r"^(const )?p3l::pptr<.*>$", str(value.type.strip_typedefs().unqualified()))


def look_up(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR:
        if kind.target().strip_typedefs().code == gdb.TYPE_CODE_FUNC:
            return None
        text = show(word_of(value), slot_of(value))
        return Pointer(text) if text else None
    if kind.code == gdb.TYPE_CODE_STRUCT:
        if is_pptr(value):
            return Pptr(value)
        if re.match(r"^(const )?p3l::field<.*>$", str(kind.unqualified())):
            return Field(value)
    return None


def pointer_named(argument):
    """The value of an expression: word, slot, and the type that it points to (None: unknown)."""
    value = gdb.parse_and_eval(argument)
    if is_pptr(value):
        value = value["slot_"]
    kind = value.type.strip_typedefs()
    target = kind.target() if kind.code == gdb.TYPE_CODE_PTR else None
    if target is not None and target.strip_typedefs().code == gdb.TYPE_CODE_VOID:
        target = None
    return word_of(value), slot_of(value) if target is not None else None, target


def address_of(argument):
    """The address and type of the object that an expression refers to; it must be resident."""
    word, slot, target = pointer_named(argument)
    if not is_surrogate(word):
        return word, target
    address = resident(word, slot)
    if address is None:
        raise gdb.GdbError(
            "%s is not resident; `p3l fetch %s` makes it so (not on a core file)"
            % (show_address(word & ADDRESS), argument)
        )
    return address, target


class Prefix(gdb.Command):
    """Persistent objects of P3L: store, where, print, fetch."""

    def __init__(self):
        super().__init__("p3l", gdb.COMMAND_DATA, prefix=True)


class StoreCommand(gdb.Command):
    """The stores that are open: p3l store"""

    def __init__(self):
        super().__init__("p3l store", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        count = 0
        for store in stores():
            count += 1
            self.print_store(store)
        if count == 0:
            print("no store is open")

    def print_store(self, store):
        counts = [0, 0, 0]
        copied = adopted = 0
        segment = store["oldest"]
        while int(segment):
            kind = int(segment["kind"])
            counts[kind] += 1
            if kind == ARENA:
                copied += int(segment["arena"]["count"])
            elif kind == FRAMES:
                adopted += int(segment["frames"]["adopted"])
            segment = segment["younger"]
        options, statistics = store["options"], store["statistics"]
        limit = int(options["memory_bytes"])
        mode = "read only" if options["read_only"] else "for writing"
        print("%s (%s)" % (store["path"].string(), mode))
        print(
            "  memory       %d bytes, %s"
            % (int(statistics["memory_bytes"]), "limit %d" % limit if limit else "no limit")
        )
        print(
            "  objects      %d copied into %d arenas, %d large, %d pages in place"
            % (copied, counts[ARENA], counts[LARGE], adopted)
        )
        print("  transaction  %s" % ("under way" if int(store["changes"]) else "none"))
        print(
            "  so far       %d swizzled, %d pages read, %d commits, %d evictions"
            % tuple(int(statistics[name]) for name in ("swizzled", "pages_read", "commits", "evictions"))
        )


class WhereCommand(gdb.Command):
    """What a pointer, an address or a surrogate leads to: p3l where EXPRESSION"""

    def __init__(self):
        super().__init__("p3l where", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        word, slot, _ = pointer_named(argument)
        text = show(word, slot)
        print(text or "0x%x is in no store" % word)


class PrintCommand(gdb.Command):
    """The object that a pointer leads to: p3l print EXPRESSION"""

    def __init__(self):
        super().__init__("p3l print", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        address, target = address_of(argument)
        if target is None:
            raise gdb.GdbError("the type is missing: p3l print (struct part *)%s" % argument)
        print(gdb.Value(address).cast(target.pointer()).dereference().format_string())


class FetchCommand(gdb.Command):
    """Makes an object resident, by the program's own p3l_swizzle(): p3l fetch EXPRESSION

The slot, if EXPRESSION is one, is healed, as if the program had read it. Refused while a thread is
within the library, for the call would wait for it for ever."""

    def __init__(self):
        super().__init__("p3l fetch", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        word, slot, _ = pointer_named(argument)
        if is_surrogate(word):
            for store in stores():
                if int(store["slow"]["__data"]["__lock"]):
                    raise gdb.GdbError(
                        "a thread is making objects of %s resident just now; let it finish "
                        "(`finish` in that thread), then fetch" % store["path"].string()
                    )
            word = self.call(word, slot)
        print(show(word, None) or "0x%x" % word)

    def call(self, word, slot):
        before = gdb.parameter("unwindonsignal")
        gdb.execute("set unwindonsignal on")
        try:
            return word_of(
                gdb.parse_and_eval(
                    "((void *(*)(void *, const void *))p3l_swizzle)((void *)%d, (void *)%d)"
                    % (slot or 0, word)
                )
            )
        except gdb.error as failure:
            # The fault handler threw, or ended the process: gdb has reverted the call.
            raise gdb.GdbError(
                "%s cannot be made resident, or gdb cannot call the program: %s"
                % (show_address(word & ADDRESS), str(failure).split(",")[0].split("\n")[0])
            )
        finally:
            gdb.execute("set unwindonsignal %s" % ("on" if before else "off"))


class Follow(gdb.xmethod.XMethodWorker):
    """Operators of pptr<T>, so that `print p->to[1]->id` calls no function in the program."""

    def __init__(self, name, target):
        self.name = name
        self.target = target

    def get_arg_types(self):
        return gdb.lookup_type("long") if self.name == "operator[]" else None

    def get_result_type(self, _object, *_index):
        plain = self.name in ("operator->", "get")
        return self.target.pointer() if plain else self.target

    def __call__(self, pptr, *index):
        slot = pptr["slot_"]
        address = word_of(slot)
        if is_surrogate(address):
            address = resident(address, slot_of(slot))
            if address is None:
                raise gdb.GdbError(
                    "%s is not resident; `p3l fetch` makes it so (not on a core file)"
                    % show_address(word_of(slot) & ADDRESS)
                )
        pointer = gdb.Value(address).cast(self.target.pointer())
        if self.name in ("operator->", "get"):
            return pointer
        return (pointer + int(index[0]) if index else pointer).dereference()


class Operators(gdb.xmethod.XMethodMatcher):
    def __init__(self):
        super().__init__("p3l::pptr")
        self.methods = [gdb.xmethod.XMethod("operators")]

    def match(self, class_type, method):
        if not re.match(r"^(const )?p3l::pptr<.*>$", str(class_type.unqualified())):
            return None
        if method not in ("operator->", "operator*", "operator[]", "get"):
            return None
        return Follow(method, class_type.template_argument(0))


Prefix()
gdb.xmethod.register_xmethod_matcher(None, Operators(), replace=True)
StoreCommand()
WhereCommand()
PrintCommand()
FetchCommand()
gdb.pretty_printers.append(look_up)
