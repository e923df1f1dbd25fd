"""Enums that the traced program makes, by class statements and by calls."""

from __future__ import annotations

import copy
import enum
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto

import torch

import tracer
from tests.support import breaks, captured, check
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(3.0)


class Named(Enum):
    def upper(self):
        return self.name.upper()


class Counted(Enum):
    def __init__(self, number):
        self.double = number * 2


def test_members_their_values_and_methods():
    def fn(x):
        class Mode(Enum):
            A = auto()
            B = auto()
            C = A

            def apply(self, t):
                return t + 1 if self is Mode.A else t * self.value

            @classmethod
            def last(cls):
                return list(cls)[-1]

            @staticmethod
            def number():
                return 7

        found = Mode.C is Mode.A, Mode(2) is Mode["B"], Mode.last() is Mode.B, len(Mode), Mode.A in Mode, [m.name for m in Mode]
        texts = repr(Mode.A), str(Mode.B), f"{Mode.A}", Mode.A == 1, hash(Mode.A) == hash("A"), list(Mode.__members__)
        return Mode.A.apply(x), Mode.B.apply(x), found, texts, Mode.number(), copy.deepcopy(Mode.A) is Mode.A

    captured(fn, X)


def test_enums_of_numbers_and_texts():
    def fn(x):
        class Level(IntEnum):
            LOW = 1
            HIGH = 2

        class Kind(str, Enum):
            SUM = "sum"

        class Word(StrEnum):
            ONE = auto()

        texts = Kind.SUM == "sum", Kind("sum") is Kind.SUM, Word.ONE + "!", {"sum": 1}[Kind.SUM], "%s" % Word.ONE
        return x * Level.HIGH + x[Level.LOW], getattr(x, Kind.SUM)(), max(Level) is Level.HIGH, Level.LOW + 1, texts

    captured(fn, X)


def test_flags():
    def fn(x):
        class Access(Flag):
            R = auto()
            W = auto()
            RW = R | W

        class Bits(IntFlag, boundary=enum.KEEP):
            ONE = 1

        both = Access.R | Access.W
        found = both is Access.RW, Access.R in both, bool(Access.R & Access.W), (~Access.R).value, [f.name for f in both]
        return x + both.value + Bits(9), found, Access(0).value

    captured(fn, X)


def test_calls_that_make_enums():
    def fn(x):
        color, level = Enum("Color", "RED GREEN"), IntEnum("Level", ["LOW", "HIGH"], start=5)
        kind, flags = Enum("Kind", {"P": 1, "Q": 2}, module="m", qualname="a.Kind"), Flag("Flags", names="r w")
        texts = repr(color.RED), color.__module__, kind.__module__, kind.__qualname__, color.__name__
        return x + color.GREEN.value + level.HIGH + kind.Q.value + (flags.r | flags.w).value, texts

    captured(fn, X)


def test_what_leaves_the_frame_belongs_to_one_new_class():
    def fn(x):
        class Mode(Enum):
            A = (1, 2)
            B = "b"

            def first(self):
                return self.value[0]

        class Bits(Flag):
            R = 1
            W = 2

        return x + 1, Mode, Mode.A, [Mode.B, (Mode.A,)], {Mode.B: x}, Bits.R | Bits.W, Bits

    traced = compiled(fn, Settings(backend="eager", name="check", fullgraph=True))
    _, mode, member, items, table, both, bits = traced(X)
    assert member is mode.A is items[1][0] and items[0] is mode.B is next(iter(table))
    assert member.first() == 1 and both is bits.R | bits.W and both.value == 3
    assert [m.name for m in mode] == ["A", "B"] and mode.__qualname__.endswith("<locals>.Mode") and mode.__module__ == __name__
    assert traced(X)[1] is not mode


def test_a_member_is_held_across_a_break():
    def fn(x):
        class Mode(Enum):
            A = 1
            B = 2

        mode, table = Mode.B, {Mode.A: 3}
        print(end="")
        return x + mode.value, mode is Mode.B, table[Mode.A], Mode(1) is Mode.A

    assert check(fn, X).break_ids


def test_a_base_of_the_program_and_methods_that_call_super():
    def fn(x):
        class Local(Named):
            a = 1

            def __str__(self):
                return "<" + super().__str__() + ">"

            @classmethod
            def _missing_(cls, value):
                return cls.a

        class Lower(str, Enum):
            @staticmethod
            def _generate_next_value_(name, start, count, last):
                return name.lower()

            AB = auto()

        return x + 1, Local.a.upper(), isinstance(Local.a, Named), str(Local.a), Local(7) is Local.a, Lower.AB.value

    captured(fn, X)


def test_errors_are_those_of_the_program():
    def fn(x):
        class Mode(Enum):
            A = 1

        texts = []
        for ask in (lambda: Mode(5), lambda: Mode["Z"], lambda: Mode.Q):
            try:
                ask()
            except (ValueError, KeyError, AttributeError) as error:
                texts.append((type(error), str(error)))
        try:

            class Twice(Enum):
                A = 1
                A = 2
        except TypeError as error:
            texts.append(str(error))
        return x + 1, texts

    captured(fn, X)


def test_an_enum_whose_making_runs_code_of_the_program_is_left_to_cpython():
    def with_init(x):
        class Planet(Enum):
            EARTH = (1, 2)

            def __init__(self, first, second):
                self.sum = first + second

        return x + Planet.EARTH.sum

    def with_new(x):
        class Doubled(Enum):
            A = 1

            def __new__(cls, value):
                made = object.__new__(cls)
                made._value_ = value * 2
                return made

        return x + Doubled.A.value

    def inherited(x):
        class Local(Counted):
            A = 3

        return x + Local.A.double

    def of_tensors(x):
        class Held(Enum):
            A = x

        return Held.A.value + 1

    def without_member(x):
        class Mixed(Enum):
            A = 1
            B = enum.nonmember(2)

        return x + Mixed.B + len(Mixed)

    for fn in (with_init, with_new, inherited, of_tensors, without_member):
        breaks(fn, X)


def test_prototypes_are_no_subclasses_of_enum():
    def fn(x):
        class OnlyHere(Enum):
            A = 1

        return x + OnlyHere.A.value

    compiled(fn, Settings(backend="eager", name="check", fullgraph=True))(X)
    assert not [cls for cls in Enum.__subclasses__() if cls.__name__ == "OnlyHere"]


def test_an_entry_that_makes_an_enum_is_saved(tmp_path):
    def fn(x):
        class Mode(Enum):
            A = 1

        return x + Mode.A.value, Mode.A

    traced = tracer.compile(fn)
    traced(X)
    assert tracer.save(traced, tmp_path / "entries").saved == 1
