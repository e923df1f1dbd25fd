"""Special methods of a metaclass answer for its classes; what is no mapping or iterable says so in CPython's words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tracer
from tests.support import captured, check, check_made
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.ones(2)


class Sized(type):
    def __len__(cls) -> int:
        return 2

    def __getitem__(cls, index: int) -> int:
        return [5, 6][index]


class OfSized(metaclass=Sized):
    pass


class Empty(type):
    def __bool__(cls) -> bool:
        return False

    def __contains__(cls, item: Any) -> bool:
        return item == 3

    def __getattr__(cls, name: str) -> str:
        return f"no {name}"

    def __invert__(cls) -> str:
        return "inverted"

    def __add__(cls, other: Any) -> Any:
        return other

    def __lt__(cls, other: Any) -> bool:
        return True


class OfEmpty(metaclass=Empty):
    here = 1


class Equal(type):
    def __eq__(cls, other: Any) -> bool:
        return True


class OfEqual(metaclass=Equal):
    pass


class Plain:
    pass


def test_a_class_has_the_length_and_the_items_that_its_metaclass_gives() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + len(OfSized), OfSized[1], [item for item in OfSized], 6 in OfSized, bool(OfSized)

    captured(f, X)


def test_a_class_is_as_true_as_its_metaclass_says() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1 if OfEmpty else x - 1, not OfEmpty, 3 in OfEmpty, 4 in OfEmpty

    captured(f, X)


def test_attributes_that_a_class_lacks_are_asked_of_its_metaclass() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + OfEmpty.here, OfEmpty.there, hasattr(OfEmpty, "there"), getattr(OfEmpty, "there", 1)

    captured(f, X)


def test_operators_of_classes_are_those_of_the_metaclass() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + (OfEmpty + 2), ~OfEmpty, OfEmpty < 3, 3 > OfEmpty, OfEqual == 3, OfEqual != Plain, Plain == OfEqual

    captured(f, X)


def test_which_class_is_whose_subclass_does_not_ask_whether_they_are_equal() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, issubclass(OfEqual, Plain), isinstance(Plain(), OfEqual)

    check(f, X)


@pytest.mark.parametrize("value", [3, None, Plain, Plain(), [("a", 1)]])
def test_what_is_no_mapping_and_no_iterable_is_refused_where_it_is_unpacked(value: Any) -> None:
    def called(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def f(x: torch.Tensor) -> Any:
        messages: list[Any] = []
        for attempt in (lambda: {**value}, lambda: [*value], lambda: called(*value), lambda: called(**value), lambda: len(value)):
            try:
                messages.append(attempt())
            except TypeError as error:
                messages.append(error.args)
        return x + 1, messages

    check(f, X)


class Doubling(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value * 2)

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        super().__setattr__("deleted", name)


class OfDoubling(metaclass=Doubling):
    pass


def test_a_store_through_the_setattr_of_a_metaclass_happens_once() -> None:
    def f(x: torch.Tensor) -> Any:
        OfDoubling.number = 1  # type: ignore[attr-defined]
        OfDoubling.number += 1  # type: ignore[attr-defined]
        OfDoubling.other = 3  # type: ignore[attr-defined]
        del OfDoubling.other  # type: ignore[attr-defined]
        return x + OfDoubling.number, OfDoubling.deleted  # type: ignore[attr-defined]

    for run in (f, compiled(f, Settings(backend="eager"))):
        assert run(X)[0].tolist() == [7.0] * 2
        assert OfDoubling.number == 6 and OfDoubling.deleted == "other" and not hasattr(OfDoubling, "other")  # type: ignore[attr-defined]


def test_a_property_of_a_metaclass_comes_before_the_class_attribute():
    class Meta(type):
        @property
        def size(cls):
            return 3

    class Sized(metaclass=Meta):
        size = 5

    def fn(x):
        return x + Sized.size, Sized().size

    captured(fn, torch.ones(2))


def test_a_class_is_usable_while_it_is_being_made():
    def measure(cls, x):
        return x + len(cls.__name__), cls.__mro__

    def fn(x):
        class Meta(type):
            def mro(cls):
                found.append(measure(cls, x)[1])
                return super().mro()

        class Made(metaclass=Meta):
            pass

        return x + len(found)

    found = []
    check_made(fn, lambda: ((torch.ones(2),), {}), reset=found.clear)


def test_a_handler_whose_metaclass_fails_is_passed_over():
    class Meta(type):
        def __subclasscheck__(cls, subclass):
            raise ValueError("asked")

    class Odd(Exception, metaclass=Meta):
        pass

    def fn(x):
        try:
            raise KeyError("key")
        except Odd:
            return x
        except KeyError:
            return x + 1

    check(fn, torch.ones(2))


def test_the_base_of_a_class_is_read_and_asked_for_again_where_it_has_changed():
    class First:
        pass

    class Second:
        pass

    class Derived(First):
        pass

    def fn(x):
        return x + 1, Derived.__base__, object.__base__, bool.__base__

    traced = tracer.compile(fn, fullgraph=True, backend="eager")
    for base in (First, Second):
        Derived.__bases__ = (base,)
        assert traced(X)[1:] == (base, None, int)
