"""Enums in traced code: members, look-up by value and name, flags, and the special methods that an enum defines."""

from __future__ import annotations

import contextlib
import enum
import functools
import sys

import pytest
import torch

import tracer
from tests.support import breaks, captured, check, check_made

X = torch.arange(6.0).reshape(2, 3)


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    VERT = 2

    @property
    def double(self):
        return self.value * 2

    def shout(self):
        return self.name + "!"

    @classmethod
    def first(cls):
        return cls.RED

    @staticmethod
    def successor(value):
        return value + 1


class Axis(enum.IntEnum):
    ROWS = 0
    COLUMNS = 1

    @property
    def following(self):
        return self + 1


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    RUN = enum.auto()


class Bits(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Reduction(str, enum.Enum):
    SUM = "sum"


class Mode(str, enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


class Stage(enum.StrEnum):
    EARLY = enum.auto()
    LATE = "last"


class Special(enum.Enum):
    ONE = 1
    TWO = 2

    def __str__(self):
        return "<" + self.name + ">"

    def __format__(self, spec):
        return "formatted" + spec

    def __call__(self, x):
        return x * self.value

    def __bool__(self):
        return self.value > 1

    def __add__(self, other):
        return self.value + other

    def __radd__(self, other):
        return other - self.value

    def __lt__(self, other):
        return self.value < other.value

    def __getitem__(self, index):
        return index + self.value

    def __len__(self):
        return 7

    def __iter__(self):
        return iter([self.value])

    def __contains__(self, item):
        return item == self.value

    @enum.property
    def tripled(self):
        return self.value * 3


class Listed(enum.Enum):
    ITEMS = [1, 2]
    PAIR = (1, "x")

    def __init__(self, *parts):
        self.parts = list(parts)


class Activation(enum.Enum):
    RELU = functools.partial(torch.relu)

    def __call__(self, *args):
        return self.value(*args)


class Lenient(enum.Enum):
    DEFAULT = "default"

    @classmethod
    def _missing_(cls, value):
        return cls.DEFAULT if value == "other" else None


def test_members_by_value_and_name():
    def fn(x):
        return x * Color.RED.value, Color.GREEN.name, Color(1), Color["GREEN"], Color.RED is Color(1), Color.GREEN is Color.VERT

    captured(fn, X)


def test_iteration_length_and_membership():
    def fn(x):
        return x + len(Color), list(Color), [c.name for c in Color], Color.RED in Color, "VERT" in Color.__members__

    captured(fn, X)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before Python 3.12, `in` of what is no member is a TypeError")
def test_membership_of_values():
    def fn(x, value):
        found = 2 in Color, 3 in Color, 1.0 in Color, True in Axis, "eval" in Mode, "test" in Mode, 2 in Access
        return x + 1, found, "default" in Lenient, value in Stage

    captured(fn, X, "last")
    captured(fn, X, "first")

    def asks(x):
        return x + 1, 3 in Access, "other" in Lenient, 1 in Listed

    found = breaks(asks, X).break_ids
    made = 3 in Access._value2member_map_  # by asking for it in CPython: from Python 3.14 on the union is made, and known then
    assert found == ["unsupported-operator"] * (3 - made)


def test_methods_and_properties():
    def fn(x):
        return x * Color.RED.double, Color.GREEN.shout(), Color.first(), Color.successor(2)

    captured(fn, X)


def test_members_that_are_ints():
    def fn(x):
        sizes = x.size(Axis.COLUMNS), x.shape[Axis.COLUMNS], range(Axis.COLUMNS), [1, 2][Axis.ROWS]
        return x * Axis.COLUMNS, x.sum(Axis.ROWS), x[Axis.COLUMNS], Axis.ROWS.following, Axis(1), Axis.ROWS < Axis.COLUMNS, sizes

    captured(fn, X)


def test_an_int_member_enters_the_graph_as_an_int():
    def fn(x):
        return x * Axis.COLUMNS

    node = next(node for node in captured(fn, X).graphs[0].graph.nodes if node.op == "call_function")
    assert type(node.args[1]) is int


def test_flags():
    def fn(x):
        both = Access.READ | Access.WRITE
        return x + 1, both, Access.READ in both, both & Access.RUN, bool(both & Access.RUN), ~Access.READ, both.value, list(both)

    captured(fn, X)


def test_int_flags():
    def fn(x):
        both = Bits.LOW | Bits.HIGH
        return x * both, both & 1, both.value, Bits(3)

    captured(fn, X)


def test_members_that_are_text():
    def fn(x):
        return x + 1, Mode("train"), Mode.TRAIN == "train", Mode.EVAL.upper(), Stage.EARLY, f"{Stage.LATE}", f"{Mode.TRAIN}"

    captured(fn, X)


def test_text_of_members():
    def fn(x):
        return x + 1, str(Color.RED), repr(Color.RED), f"{Axis.ROWS}", "{!r:>20}".format(Color.RED), "%s" % Mode.EVAL

    captured(fn, X)


def test_special_methods_written_in_python_are_traced():
    def fn(x):
        texts = str(Special.ONE), f"{Special.ONE}", f"{Special.ONE:>3}", "%s" % Special.TWO, "{}".format(Special.TWO)
        numbers = Special.ONE + 3, 3 + Special.ONE, Special.ONE[2], len(Special.ONE), Special.ONE < Special.TWO
        return Special.TWO(x), texts, numbers, 1 in Special.ONE, list(Special.TWO), bool(Special.ONE), Special.TWO.tripled

    captured(fn, X)


def test_the_truth_of_a_member_is_its_own():
    def fn(x):
        return x + 1 if Special.ONE else x - 1

    captured(fn, X)


def test_a_special_method_with_an_effect_runs_once_a_call():
    calls = []

    class Counting(enum.Enum):
        ONE = 1

        def __add__(self, other):
            calls.append(other)
            return other

    def fn(x):
        return x * (Counting.ONE + 2), len(calls)

    check_made(fn, lambda: ((X,), {}), reset=calls.clear)
    assert calls == [2]


def test_values_that_are_mutable():
    def fn(x):
        return x + len(Listed.ITEMS.value), Listed.PAIR.value, Listed.PAIR.parts

    captured(fn, X)


def test_values_that_are_called():
    def fn(x):
        return Activation.RELU(x - 2)

    assert captured(fn, X).operations == ["sub", "relu"]


def test_members_as_keys_and_items():
    def fn(x):
        table = {Color.RED: x, Color.GREEN: x + 1}
        return table[Color.GREEN], Color.RED in {Color.RED}, Color.RED in (Color.GREEN,), [Color.RED].index(Color.RED), table

    captured(fn, X)


def test_a_member_passed_as_an_argument_is_guarded():
    def fn(x, color):
        match color:
            case Color.RED:
                return x + 1
            case Color.GREEN:
                return x - 1

    captured(fn, X, Color.RED)
    captured(fn, X, Color.GREEN)


@pytest.mark.parametrize("lookup", [lambda: Color(7), lambda: Color["NONE"]])
def test_what_is_no_member_raises(lookup):
    def fn(x):
        try:
            return lookup()
        except (ValueError, KeyError) as error:
            return x + 1, type(error), str(error)

    captured(fn, X)


def test_missing_is_traced():
    def fn(x):
        try:
            Lenient("neither")
        except ValueError as error:
            return x + 1, Lenient("other"), str(error)

    captured(fn, X)


def test_classes_of_members():
    def fn(x):
        kinds = isinstance(Color.RED, Color), isinstance(Axis.ROWS, int), issubclass(Color, enum.Enum), type(Color.RED) is Color
        return x + 1, kinds, Color.RED.__class__, isinstance(Color, enum.EnumMeta)

    captured(fn, X)


def test_the_table_of_members():
    def fn(x):
        return x + 1, list(Color.__members__), Color.__members__["VERT"], len(Color.__members__)

    captured(fn, X)


class Fails(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        raise (ZeroDivisionError if value == 2 else ValueError)(value)


def test_an_error_of_missing_leads_to_the_value_that_is_none():
    def fn(x):
        found = []
        for value in (2, 3):
            try:
                Fails(value)
            except (ZeroDivisionError, ValueError) as error:
                found.append((type(error), error.args, type(error.__context__), str(error.__context__)))
        return x + 1, found

    check(fn, torch.ones(2))


def test_members_are_not_assigned_anew():
    def fn(x):
        told = []
        with contextlib.suppress(AttributeError):
            Fails.ONE = 2
            told.append("assigned")
        try:
            del Fails.ONE
        except AttributeError as error:
            told.append(str(error))
        return x + 1, told, Fails.ONE.value

    check(fn, torch.ones(2))


def test_the_name_of_an_attribute_is_the_text_that_a_member_holds():
    def fn(x):
        found = hasattr(x, Reduction.SUM), getattr(x, Reduction.SUM)()
        try:
            Color.NONE_SUCH
        except AttributeError as error:
            return *found, str(error)

    captured(fn, X)


def test_members_by_a_value_that_varies():
    class Stage(enum.Flag):
        PREFILL = 1
        DECODE = 2
        DRAFT = 4

    def fn(x, n):
        return x * n, Stage(n & 3) | Stage.DRAFT, Color(n % 2 + 1)

    traced = tracer.compile(fn, fullgraph=True, dynamic=True)
    for n in (2, 3, 4):
        assert traced(X, n)[1:] == fn(X, n)[1:]
