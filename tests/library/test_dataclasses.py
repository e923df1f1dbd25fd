"""Classes decorated with @dataclass inside of traced functions."""

import abc
import dataclasses
import sys
import typing
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields, replace

import pytest
import torch

from tests.support import captured, check
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(4.0)


def test_a_dataclass_with_defaults_and_methods():
    def fn(x):
        @dataclass
        class Pair:
            first: int
            second: float = 2.0

            def total(self):
                return self.first + self.second

        pair = Pair(1)
        return x * pair.total(), pair, Pair, pair == Pair(1, 2.0), pair != Pair(2), Pair.__match_args__

    checked = captured(fn, X)
    pair, cls = checked.result[1:3]
    assert type(pair) is cls and cls(3) == cls(3, 2.0) and cls.__doc__ == "Pair(first: int, second: float = 2.0)"


def test_tensors_and_factories_as_defaults():
    def fn(x):
        @dataclass
        class Holder:
            shown: torch.Tensor
            default: object = x
            items: list = field(default_factory=list)
            hidden: int = field(default=4, repr=False)

        holder = Holder(x)
        holder.items.append(x + 1)
        return holder.items[0] * holder.hidden, holder, Holder, Holder(x).default

    checked = captured(fn, X)
    assert checked.result[2](0).items == []


def test_frozen_dataclasses():
    def fn(x):
        @dataclass(frozen=True)
        class Frozen:
            content: torch.Tensor
            factor: int = 3

        frozen = Frozen(x)
        try:
            frozen.factor = 4
        except dataclasses.FrozenInstanceError as error:
            message = str(error)
        return frozen.content * frozen.factor, message, frozen, Frozen

    captured(fn, X)


def test_dataclasses_with_slots():
    def fn(x):
        @dataclass(slots=True)
        class Slotted:
            content: torch.Tensor
            factor: int = 1

        slotted = Slotted(x + 1)
        try:
            slotted.other = 1
        except AttributeError as error:
            message = str(error)
        return slotted.content * slotted.factor, slotted, Slotted, Slotted.__slots__, message

    captured(fn, X)


def test_order_hash_and_text():
    def fn(x):
        @dataclass(order=True, unsafe_hash=True)
        class Number:
            "what it is"

            value: int
            _: KW_ONLY
            unit: str = "m"

        low, high = Number(1), Number(2, unit="s")
        table = {low: 1}
        return x + table[Number(1)], low < high, sorted([high, low]), repr(low), f"{high}", Number.__doc__, Number

    captured(fn, X)


def test_fields_replace_and_asdict_of_a_derived_dataclass():
    def fn(x):
        @dataclass
        class Base:
            first: int = 1

        @dataclass
        class Derived(Base):
            second: int = 2

        made = replace(Derived(), second=7)
        names = [field.name for field in fields(Derived)]
        return x + made.first + made.second, names, dataclasses.asdict(made), dataclasses.is_dataclass(made), made

    captured(fn, X)


def test_class_variables_init_variables_and_post_init():
    def fn(x):
        @dataclass
        class Made:
            value: int
            quoted: "int" = 3
            given: InitVar[int] = 2
            shared: typing.ClassVar[int] = 9

            def __post_init__(self, given):
                self.value += given

        made = Made(1, given=5)
        return x + made.value + Made.shared, made, Made

    captured(fn, X)


def test_abstract_dataclasses():
    def fn(x):
        @dataclass
        class Base(abc.ABC):
            value: int = 1

            @abc.abstractmethod
            def run(self): ...

        @dataclass
        class Derived(Base):
            def run(self):
                return self.value + 1

        return x + Derived().run(), Base, Derived

    checked = captured(fn, X)
    assert checked.result[1].__abstractmethods__ == {"run"} and not checked.result[2].__abstractmethods__


def test_what_the_library_refuses_is_left_to_cpython():
    def mutable(x):
        @dataclass
        class Made:
            items: list = []

        return x

    def ordered(x):
        @dataclass(eq=False, order=True)
        class Made:
            value: int = 1

        return x

    for fn in (mutable, ordered):
        assert type(check(fn, X).error) is ValueError


def test_code_of_the_program_is_not_run_by_the_library():
    class Loud:
        def __repr__(self):
            print("repr")
            return "Loud()"

    def fn(x, loud):
        @dataclass
        class Made:
            value: object = loud

        return x + 1, Made.__doc__

    assert check(fn, X, Loud()).break_ids == ["makes-a-class"]


def test_a_field_that_is_kept_is_not_read_as_it_was():
    def fn(x):
        kept = field(default=1)

        @dataclass
        class Made:
            value: int = kept

        return x + Made().value, kept.name, Made

    check(fn, X)


def test_a_call_of_a_dataclass_with_wrong_arguments_names_the_class():
    def fn(x):
        @dataclass
        class Pair:
            first: int

        try:
            return x, Pair(1, 2)
        except TypeError as error:
            return x + 1, str(error)

    captured(fn, X)


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="make_dataclass sets __annotate__ of a class from 3.14 on: CPython makes it"
)
def test_dataclasses_that_are_made_by_calls():
    def fn(x):
        pair = dataclasses.make_dataclass("Pair", [("a", int), ("b", int, 3), "c"], kw_only=True)
        other = dataclasses.make_dataclass("Other", ["x", ("y", list, field(default_factory=list))], bases=(Named,), frozen=True)
        made, second = pair(a=1, c=x), other(2, y=[x])
        return made.c + made.a * made.b, second.name(), repr(other(1)), other(2) == other(2), [f.name for f in fields(pair)]

    def returned(x):
        return dataclasses.make_dataclass("Pair", [("a", int, 4), "b"], kw_only=True)(b=x)

    captured(fn, X)
    pair = compiled(returned, Settings(backend="eager", name="check", fullgraph=True))(X)
    assert pair.b is X and type(pair)(b=1).a == 4 and repr(type(pair)(b=1)) == "Pair(a=4, b=1)"


class Named:
    def name(self):
        return type(self).__name__
