"""What `struct` packs and unpacks of constants."""

from __future__ import annotations

import struct

import torch

from tests.support import captured

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
