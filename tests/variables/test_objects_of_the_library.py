"""Objects of the standard library's classes and of classes derived from built-in ones, made in the trace or before it."""

from __future__ import annotations

import base64
import binascii
import collections
import contextvars
import dataclasses
import functools
import os
import pathlib
import struct
import threading
import typing
import weakref
import zlib

import pytest
import torch

import tracer
from tests.soundness.watching import noticed
from tests.support import breaks, captured, check, check_made

X = torch.arange(3.0)


class Number(int):
    def doubled(self):
        return self * 2


class Ring(collections.deque):
    def top(self):
        return self[-1]


@dataclasses.dataclass
class Node:
    value: int
    below: typing.Any = None


@dataclasses.dataclass(frozen=True)
class Key:
    a: int
    b: tuple = ()


@dataclasses.dataclass
class WithOptions:
    tensor: torch.Tensor
    table: dict = dataclasses.field(default_factory=dict, repr=False, compare=False, metadata={"k": 1})
    kind: typing.ClassVar[int] = 3


class Modulo:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return self.value % 2

    def __eq__(self, other):
        return isinstance(other, Modulo) and self.value == other.value


class Doubling:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, value * 2)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Described:
    value = Doubling()

    def __init__(self, value):
        self.value = value


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Box(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, value):
        self.value = value


@functools.singledispatch
def kind_of(value):
    return "other"


@kind_of.register
def _(value: int):
    return "int"


@kind_of.register(str)
def _(value):
    return "text"


NUMBER, RING = Number(3), Ring([1, 2])
BY_KEY = {Key(1): 5, Key(2, (3,)): 6}
TARGET = Node(4)
REFERENCE = weakref.ref(TARGET)
SETTING: contextvars.ContextVar[int] = contextvars.ContextVar("SETTING", default=2)


def test_a_number_of_a_class_of_its_own_that_existed():
    def fn(x):
        return x * NUMBER, NUMBER + 1, NUMBER.doubled(), NUMBER > 2, [0, 1, 2, 3][NUMBER], range(NUMBER), NUMBER

    captured(fn, X)


def test_the_value_of_such_a_number_is_guarded():
    holder = [Number(3)]

    def fn(x):
        return x * holder[0]

    noticed(fn, (X,), lambda: holder.__setitem__(0, Number(4)))


def test_deques_of_a_class_of_their_own():
    def fn(x):
        ring = Ring([1, 2])
        ring.append(3)
        return x * ring.top(), len(ring), ring, RING.top(), list(RING)

    captured(fn, X)


def test_the_text_of_dataclasses():
    def fn(x):
        node = Node(1, Node(2))
        return x + 1, repr(node), str(Key(1)), f"{node}"

    captured(fn, X)


def test_the_text_of_a_dataclass_that_holds_itself():
    def fn(x):
        node = Node(1)
        node.below = node
        return x + 1, repr(node)

    breaks(fn, X)


def test_dataclasses_replaced_and_taken_apart():
    def fn(x):
        made = WithOptions(x)
        made.table["z"] = 1
        parts = dataclasses.asdict(Node(1, [{"a": 1}])), dataclasses.astuple(Node(1, 2))
        names = [field.name for field in dataclasses.fields(made)], dataclasses.fields(WithOptions)[1].metadata["k"]
        return made.tensor * 2, dataclasses.replace(made, tensor=x + 1).tensor, WithOptions.kind, parts, names

    captured(fn, X)


def test_a_missing_argument_of_a_dataclass_is_told_as_cpython_tells_it():
    def fn(x):
        try:
            Node()
        except TypeError as error:
            return x + 1, str(error)

    captured(fn, X)


def test_a_frozen_dataclass_refuses_stores():
    def fn(x):
        try:
            Key(1).a = 2
        except dataclasses.FrozenInstanceError as error:
            return x + 1, str(error)

    captured(fn, X)


def test_keys_whose_class_says_how_they_are_hashed():
    def fn(x):
        table = {Key(1): x, Modulo(1): 2, Modulo(3): 4, Modulo(1): 5}
        found = table[Key(1)], table[Modulo(1)], table[Modulo(3)], Modulo(5) in table, len(table)
        known = BY_KEY[Key(2, (3,))], Key(1) in BY_KEY, Key(9) in BY_KEY
        return x + 1, found, known, len({Modulo(1), Modulo(1), Modulo(2)}), {(Key(1), 2): 3}[Key(1), 2]

    captured(fn, X)


class Name:
    """Equal to the text that it has, whose hash is nearly always too large for that of a number."""

    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        return self.text == getattr(other, "text", other)


class Hashed:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return self.value


@pytest.mark.parametrize("text", ["a", "b", "key", "name", "of"])
def test_a_key_that_is_equal_to_a_text_is_found_by_it(text):
    def fn(x, names):
        table = {text: 3}
        same = hash(Name(text)) == hash(text), hash(Hashed(-1)), hash(Hashed(2**61)), hash(Hashed(2**80))
        return x + table.get(Name(text), 1), names.get(text, 1), Name(text) in table, same

    check(fn, X, {Name(text): 2})


def test_keys_that_are_changed_after_they_were_stored():
    def fn(x):
        key = Modulo(1)
        table = {key: 1}
        key.value = 2
        return x + 1, key in table, Modulo(1) in table, list(table)[0] is key

    check(fn, X)  # left to CPython: whether output code could build such a table again is not looked into


def test_a_table_that_is_returned_is_made_of_its_keys_again():
    def fn(x):
        table = {Key(1): x, Key(2): 2}
        del table[Key(1)]
        table[Key(3)] = x + 1
        return table

    captured(fn, X)


def test_data_descriptors_read_store_and_delete():
    def fn(x):
        made = Described(x)
        first = made.value
        made.value = 3
        second = made.value
        del made.value
        return first + 1, second, hasattr(made, "value"), isinstance(Described.value, Doubling)

    captured(fn, X)


@pytest.mark.parametrize("action", ["read", "store"])
def test_errors_of_slots(action):
    def fn(x):
        made = Slots(x)
        try:
            if action == "read":
                made.b
            else:
                made.c = 1
        except AttributeError as error:
            return made.a + 1, str(error)

    captured(fn, X)


def test_a_slot_is_emptied():
    def fn(x):
        made = Slots(x)
        del made.a
        return x + 1, hasattr(made, "a"), made

    captured(fn, X)


def test_generic_classes():
    def fn(x):
        made = Box[int](x)
        return made.value + 1, made.__orig_class__ == Box[int], Box(2).value

    captured(fn, X)


def test_functions_dispatched_on_the_class_of_their_argument():
    def fn(x):
        return x + 1, kind_of(3), kind_of("a"), kind_of(2.0), kind_of(True)

    captured(fn, X)


def test_an_implementation_registered_between_calls_is_noticed():
    @functools.singledispatch
    def scaled(value, x):
        return x

    def fn(x):
        return scaled(2.0, x) + 1

    noticed(fn, (X,), lambda: scaled.register(float, lambda value, x: x * value))


def test_weak_references():
    def fn(x):
        return x * REFERENCE().value, REFERENCE() is TARGET, weakref.ref(TARGET)() is TARGET, REFERENCE

    captured(fn, X)


def test_a_weak_reference_whose_object_dies_is_noticed():
    holder = [Node(3)]
    reference = weakref.ref(holder[0])

    def fn(x):
        node = reference()
        return x if node is None else x * node.value

    noticed(fn, (X,), holder.clear)


def test_a_weak_reference_to_what_the_trace_makes_breaks():
    def fn(x):
        reference = weakref.ref(Node(1))
        return x + 1, reference() is None

    breaks(fn, X)


def test_context_variables_are_read_and_guarded():
    def fn(x):
        return x * SETTING.get()

    captured(fn, X)
    context = contextvars.copy_context()
    context.run(noticed, fn, (X,), lambda: SETTING.set(7))


def test_context_variables_are_set_in_the_trace():
    def fn(x):
        token = SETTING.set(5)
        y = x * SETTING.get()
        inner = SETTING.set(7)
        z = y * SETTING.get()
        SETTING.reset(inner)
        z = z + SETTING.get()
        SETTING.reset(token)
        return z * SETTING.get(), token.var is SETTING, SETTING.name

    captured(fn, X)
    assert SETTING.get() == 2


def test_a_context_variable_stays_set():
    def fn(x):
        SETTING.set([x + 1, 3])
        return x * 2

    def run():
        traced = tracer.compile(fn, fullgraph=True)
        for _ in range(2):
            traced(X)
            assert torch.equal(SETTING.get()[0], X + 1) and SETTING.get()[1] == 3

    contextvars.copy_context().run(run)
    assert SETTING.get() == 2


def test_the_default_of_a_context_variable_depends_on_whether_it_is_set():
    bare = contextvars.ContextVar("bare")

    def fn(x):
        try:
            found = bare.get()
        except LookupError as error:
            found = 4 if error.args[0] is bare else 0
        return x * found, bare.get(9), SETTING.get(9)

    def change():
        bare.set(3), SETTING.set(2)

    captured(fn, X)
    contextvars.copy_context().run(noticed, fn, (X,), change)


def test_a_context_variable_is_set_before_a_break_and_reset_behind_it():
    def fn(x):
        token = SETTING.set(5)
        y = x * SETTING.get()
        tracer.graph_break()
        y = y + SETTING.get()
        SETTING.reset(token)
        return y * SETTING.get()

    check_made(fn, lambda: ((X,), {}))
    assert SETTING.get() == 2


class Pretender(int):
    def __index__(self):
        return 0


def test_a_subclass_of_int_is_an_index_itself_whatever_its_index_method_says():
    def program(x, n):
        made = Pretender(2)
        return x * [1, 2, 4, 8][n], [5, 6, 7][made], (1, 2, 3)[:n], x[made]

    check_made(program, lambda: ((X, Pretender(1)), {}))


def test_cached_properties_of_local_classes():
    def f(x):
        worked_out = []

        class Local:
            @functools.cached_property
            def doubled(self):
                worked_out.append(1)
                return x * 2

        local = Local()
        return local.doubled + local.doubled, worked_out, vars(local), Local.doubled.attrname, type(Local.doubled.lock)

    captured(f, X)

    def escapes(x):
        class Local:
            @functools.cached_property
            def plain(self):
                """A cached one."""
                return 3

        return x + 1, Local

    assert captured(escapes, X).result[1]().plain == 3


def test_locks_that_are_made():
    class Guarded:
        def __init__(self):
            self.lock, self.again = threading.Lock(), threading.RLock()

    def f(x):
        guarded = Guarded()
        with guarded.lock:
            held = guarded.lock.locked()
        same = guarded.lock is guarded.again, {guarded.lock: 1}[guarded.lock], type(guarded.again)
        return x * 2, held, guarded.lock.locked(), same

    captured(f, X)
    captured(lambda x: (x * 2, bool(Guarded().lock), Guarded().lock == Guarded().lock), X)


def test_checksums_encodings_and_packed_numbers():
    def f(x):
        packed = struct.pack("<if", 3, 1.5)
        texts = base64.b64encode(b"abc"), base64.b64decode("YWJj"), binascii.hexlify(b"a")
        try:
            struct.pack("<b", 1000)
        except struct.error as error:
            words = str(error)
        return x * struct.unpack("<if", packed)[0], texts, struct.calcsize("q"), zlib.crc32(b"a", 3), words

    captured(f, X)


def test_paths_are_put_together():
    def f(x):
        path = pathlib.PurePosixPath("a") / "b" / "c.txt"
        parts = path.name, path.suffix, path.stem, path.parent, path.with_suffix(".py"), path.is_absolute()
        return x * len(path.parts), str(path), parts, path == pathlib.PurePosixPath("a/b/c.txt"), f"{path}"

    captured(f, X)


def test_the_parts_of_paths_that_os_path_leaves_to_c():
    captured(lambda x: (x + 1, os.path.normpath("a//b/../c"), os.path.normpath(""), os.path.split("a/b")), torch.ones(2))
