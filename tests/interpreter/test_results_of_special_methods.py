"""Results of special methods of the program's classes are checked as CPython checks them, and the methods are called in its
order."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.support import captured, check

X = torch.ones(3)
LOG: list[Any] = []


class Long:
    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> Any:
        return self.length


class Iterated:
    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __iter__(self) -> Any:
        return self.iterator


class Index:
    def __init__(self, number: Any) -> None:
        self.number = number

    def __index__(self) -> Any:
        return self.number


class Hashed:
    def __hash__(self) -> Any:
        return "".join("a")


class Equal:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        LOG.append(("eq", self.number))
        return self.number == other

    def __mul__(self, other: Any) -> Equal:
        LOG.append(("mul", self.number))
        return self

    __rmul__ = __mul__

    def __float__(self) -> float:
        LOG.append(("float", self.number))
        return float(self.number)


class Three:
    def __iter__(self) -> Iterator[Equal]:
        for number in range(3):
            LOG.append(("next", number))
            yield Equal(number)


def outcomes(*functions: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    for function in functions:
        try:
            found.append(function())
        except (TypeError, ValueError, OverflowError) as error:
            found.append((type(error).__name__, str(error), repr(error.__context__)))
    return found


@pytest.mark.parametrize("length", [-1, 1 << 70, "a", None, 2.0, True, 0, Index(3), Index("a"), Index(-1)])
def test_a_length_must_be_a_number_that_is_not_negative(length: Any) -> None:
    def f(x: torch.Tensor) -> Any:
        a = Long(length)
        return x.sin(), outcomes(lambda: len(a), lambda: bool(a), lambda: 1 if a else 2, lambda: not a)

    captured(f, X)


@pytest.mark.parametrize("make", [lambda: 5, lambda: None, lambda: [1], lambda: Iterated(iter([1]))])
def test_what_is_no_iterator_cannot_be_iterated(make: Callable[[], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        a = Iterated(make())

        def loop() -> None:
            for _ in a:
                pass

        def unpack() -> None:
            b, c = a

        return x.sin(), outcomes(
            lambda: iter(a), loop, unpack, lambda: 1 in a, lambda: ",".join(a), lambda: functools.reduce(max, a),
            lambda: [*a], lambda: dict.fromkeys(a), lambda: list(zip(a)), lambda: sorted(a), lambda: sum(a),
            lambda: collections.deque(a), lambda: list(itertools.chain(a)),
        )  # fmt: skip

    captured(f, X)


def test_an_object_of_the_program_that_is_no_iterator_is_refused() -> None:
    def f(x: torch.Tensor, a: Any) -> Any:
        y = x.sin()
        try:
            for _ in a:
                pass
        except TypeError as error:
            return y, str(error)

    check(f, X, Iterated(5))


@pytest.mark.parametrize("number", [None, "a", 1.0, 2])
def test_an_index_must_be_a_whole_number(number: Any) -> None:
    def f(x: torch.Tensor) -> Any:
        a = Index(number)
        return x.sin(), outcomes(
            lambda: operator.index(a), lambda: [1, 2, 3][a], lambda: "abc"[:a], lambda: [0] * a, lambda: hex(a),
            lambda: chr(a), lambda: range(a), lambda: math.factorial(a), lambda: ord(a),
            lambda: list(itertools.islice([1, 2, 3], a)),
        )  # fmt: skip

    check(f, X)


def test_a_hash_must_be_a_whole_number() -> None:
    captured(lambda x: (x.sin(), outcomes(lambda: hash(Hashed()))), X)


@pytest.mark.parametrize(
    "consume",
    [
        lambda items: 1 in items,
        lambda items: 7 in items,
        lambda items: operator.countOf(items, 1),
        lambda items: operator.indexOf(items, 1),
        lambda items: math.prod(items).number,
        lambda items: math.fsum(items),
    ],
)
def test_items_are_asked_for_one_by_one(consume: Callable[[Any], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        LOG.clear()
        return x.sin(), consume(Three()), list(LOG)

    captured(f, X)


def test_reduce_asks_for_one_iterator() -> None:
    class Plain:
        """An iterator without `__iter__`."""

        def __init__(self) -> None:
            self.count = 0

        def __next__(self) -> int:
            self.count += 1
            if self.count > 3:
                raise StopIteration
            return self.count

    def f(x: torch.Tensor) -> Any:
        results = [functools.reduce(operator.add, Iterated(Plain())), functools.reduce(operator.add, Iterated(Plain()), 5)]
        return x.sin(), results, outcomes(lambda: functools.reduce(operator.add, []))

    captured(f, X)


def test_what_is_no_context_manager_cannot_be_entered() -> None:
    class Enters:
        def __enter__(self) -> None: ...

    def enter(manager: Any) -> None:
        with manager:
            pass

    def f(x: torch.Tensor) -> Any:
        return x.sin(), outcomes(lambda: enter(Enters()), lambda: enter(object), lambda: enter(5), lambda: enter([]))

    check(f, X)
    captured(lambda x: (x.sin(), contextlib.nullcontext(1).__enter__()), X)


def test_a_partial_of_what_cannot_be_called_is_an_error() -> None:
    captured(lambda x: (x.sin(), outcomes(lambda: functools.partial(5), lambda: functools.partial([], 1))), X)  # type: ignore


def test_keys_by_comparison_are_those_of_functools() -> None:
    def f(x: torch.Tensor) -> Any:
        key = functools.cmp_to_key(lambda a, b: b - a)
        found = [sorted([1, 3, 2], key=key), key(1) < key(2), key(1).obj, key(3) == key(3), bool(key), type(key(1)).__name__]
        return x.sin(), found, outcomes(lambda: key(1) < 5, lambda: hash(key(1)))

    captured(f, X)


def test_a_key_by_comparison_can_leave_the_frame() -> None:
    def f(x: torch.Tensor) -> Any:
        key = functools.cmp_to_key(lambda a, b: b - a)
        print(end="")
        return x.sin(), sorted([1, 3, 2], key=key), isinstance(key, functools.partial)

    check(f, X)


def test_a_cached_property_of_a_class_without_a_dict() -> None:
    class Slots:
        __slots__ = ()

        @functools.cached_property
        def value(self) -> int:
            return 1

    captured(lambda x: (x.sin(), outcomes(lambda: Slots().value)), X)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_unpacking_asks_for_one_item_too_many_and_no_more(count: int) -> None:
    class Counted:
        def __iter__(self) -> Iterator[int]:
            for number in range(9):
                LOG.append(number)
                yield number

    def f(x: torch.Tensor) -> Any:
        LOG.clear()
        try:
            if count == 2:
                a, b = Counted()
            elif count == 3:
                a, b, c = Counted()
            else:
                a, *b = Counted()
        except ValueError as error:
            return x.sin(), str(error), list(LOG)
        return x.sin(), list(LOG)

    captured(f, X)


@pytest.mark.parametrize("question", ["issuperset", "isdisjoint", "issubset"])
def test_sets_ask_for_no_item_behind_the_one_that_settles_a_question(question: str) -> None:
    def f(x: torch.Tensor) -> Any:
        LOG.clear()
        numbers = (LOG.append(number) or number for number in [1, 7, 1, 5])  # type: ignore[func-returns-value]
        return x.sin(), getattr({1}, question)(numbers), list(LOG)

    captured(f, X)


def test_an_iterator_without_iter_fills_a_tuple() -> None:
    class Ends:
        def __next__(self) -> None:
            raise StopIteration

    def f(x: torch.Tensor) -> Any:
        return x.sin(), outcomes(
            lambda: tuple(Iterated(Ends())), lambda: list(Iterated(Ends())), lambda: "".join(Iterated(Ends())),
            lambda: set(Iterated(Ends())), lambda: sorted(Iterated(Ends())),
        )  # fmt: skip

    captured(f, X)
