"""What `struct` packs and unpacks of constants."""

from __future__ import annotations

import struct

import torch

import tracer
from tests.support import breaks, captured

X = torch.arange(3.0)


def test_constants_are_packed_and_unpacked():
    def fn(x):
        packed = struct.pack("<if", 3, 1.5)
        number, factor = struct.unpack("<if", packed)
        return x * factor + number, packed, struct.calcsize("<if"), struct.unpack_from("<f", packed, 4)

    captured(fn, X)


def test_an_error_of_struct_is_raised():
    def fn(x):
        try:
            struct.unpack("<i", b"abc")
        except struct.error as error:
            return x + 1, str(error)

    captured(fn, X)


HEADER = struct.Struct("<2sH")


def test_a_format_that_is_read_once_packs_and_unpacks():
    given = struct.Struct(">h")

    def fn(x):
        made = struct.Struct("<if")
        buffer = bytearray(12)
        made.pack_into(buffer, 2, 5, 0.5)
        magic, length = HEADER.unpack(b"ab\x07\x00")
        pairs = list(HEADER.iter_unpack(b"ab\x01\x00cd\x02\x00"))
        return x * length, magic, buffer, made.unpack_from(buffer, 2), made.size, made.format, given.pack(3), pairs

    captured(fn, X)


def test_another_format_makes_another_entry():
    compiled = tracer.optimize("eager")(lambda x, given: x + given.size)
    for text, size in (("<h", 2), ("<i", 4), ("<H", 2), ("<h", 2)):
        assert torch.equal(compiled(X, struct.Struct(text)), X + size)


def test_formats_and_iterators_leave_the_graph():
    def fn(x):
        made, pairs = struct.Struct("<h"), struct.iter_unpack("<h", b"abcd")
        first = next(pairs)
        print(end="")
        return x + made.size, made.pack(3), first, type(pairs).__name__, next(pairs)

    breaks(fn, X)
