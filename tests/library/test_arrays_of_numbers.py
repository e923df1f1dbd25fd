"""array.array and memoryview, made inside, and `struct` that writes to them."""

from __future__ import annotations

import array
import copy
import struct

import torch

from tests.support import breaks, captured, check

X = torch.arange(3.0)


def test_an_array_is_used_as_in_cpython():
    def fn(x):
        a = array.array("d", [1, 2])
        a += array.array("d", [3])
        a.insert(0, 9)
        a.remove(2)
        b, c = a * 2, copy.deepcopy(a)
        c[0] = 0
        a[1:2] = array.array("d", [4, 5])
        texts = repr(a), f"{a}", a.tobytes(), a.typecode, a.itemsize, list(a), a[-1], 3.0 in a, a == c, len(a), sum(a), type(a)
        return x * a[0], a, b, c, texts, array.array("h", b"\1\0\2\0"), torch.tensor(a), torch.tensor(array.array("b", [1]))

    captured(fn, X)


def test_errors_of_arrays():
    def fn(x):
        a, seen = array.array("i", [1]), []
        for call in (
            lambda: a.append("q"), lambda: a[5], lambda: array.array("i", [2**40]), lambda: array.array("Z"), lambda: hash(a),
            lambda: a.append(1.5),
        ):  # fmt: skip
            try:
                call()
            except (TypeError, IndexError, OverflowError, ValueError) as error:
                seen.append((type(error), str(error)))
        return x + 1, seen, a

    captured(fn, X)


def test_an_array_that_changes_while_it_is_iterated_over():
    def fn(x):
        a, b = array.array("i", [1, 2]), bytearray(b"ab")
        for each in a, b:
            for item in each:
                if len(each) < 5:
                    each.append(item)
        return x + 1, a, b

    captured(fn, X)


def test_a_view_reads_and_writes_the_buffer():
    def fn(x):
        buffer, numbers = bytearray(b"abcdefgh"), array.array("i", range(4))
        view, other = memoryview(buffer), memoryview(numbers)
        part = view[1:4]
        part[0] = 1
        view[4:6] = b"ZZ"
        other[1] = 9
        words = view.cast("i")
        words[1] = 5
        facts = view.nbytes, view.format, view.readonly, other.itemsize, words.shape, part[::-1].tolist(), bytes(part), len(part)
        return x + view[0], buffer, numbers, facts, list(part), part == b"\1cd", view.obj is buffer, part.hex(), view, 99 in part

    captured(fn, X)


def test_a_view_of_bytes_and_its_end():
    def fn(x):
        view, seen = memoryview(b"abc"), []
        with memoryview(bytearray(b"abc")) as held:
            y = x + held[0]
        for call in (lambda: view.__setitem__(0, 1), lambda: held[0], lambda: view[7]):
            try:
                call()
            except (TypeError, ValueError, IndexError) as error:
                seen.append((type(error), str(error)))
        return y, seen, view.tobytes(), view

    captured(fn, X)


def test_what_depends_on_references_or_addresses_breaks():
    def grows(x):
        buffer = bytearray(b"abc")
        view = memoryview(buffer)
        del view
        buffer.append(3)
        return x + 1, buffer

    def cannot_grow(x):
        buffer = bytearray(b"abc")
        view = memoryview(buffer)
        try:
            buffer.append(3)
        except BufferError as error:
            return x + view[0], str(error)

    def text(x):
        return x + 1, repr(memoryview(b"ab"))[:7]

    def part(x):
        return x + 1, bytes(memoryview(b"abc")[1:]), memoryview(b"abc")[1:]

    check(grows, X)
    check(part, X)
    for fn in (cannot_grow, text):
        breaks(fn, X)


def test_struct_writes_to_buffers():
    def fn(x):
        buffer = bytearray(8)
        struct.pack_into("<h", buffer, 1, 258)
        struct.pack_into("<i", memoryview(buffer), 4, 7)
        return x + struct.unpack_from("<i", buffer, 4)[0], buffer, struct.unpack_from("<h", memoryview(buffer), offset=1)

    captured(fn, X)


def test_a_view_that_is_not_read_again_keeps_its_buffer_from_being_resized():
    def fn(x):
        data = bytearray(b"abc")
        view = memoryview(data)
        try:
            data.append(1)
        except BufferError as error:
            return x + 1, str(error), view is None
        return x, bytes(data)

    def unread(x):
        data = bytearray(b"abc")
        view = memoryview(data)  # noqa: F841
        try:
            data.append(1)
        except BufferError as error:
            return x + 1, str(error)
        return x, bytes(data)

    check(fn, X)
    check(unread, X)
