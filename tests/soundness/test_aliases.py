"""One object in two places of a call: an entry that was made where there were two does not serve it, nor the other way round."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.ones(2)


class Names(list):
    pass


def _add(container: Any) -> None:
    container.add(5)


def _append(container: Any) -> None:
    container.append(5)
    container[0] = 7


def _set_item(container: Any) -> None:
    container["a"] = 9


# what makes the container, what changes it, what another place has of it, and how that is read
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], None], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "set, its length": (lambda: {1}, _add, lambda each: each, len),
    "set, iterated": (lambda: {1}, _add, lambda each: each, lambda seen: sum(sorted(seen))),
    "set, asked": (lambda: {1}, _add, lambda each: each, lambda seen: int(5 in seen)),
    "deque": (lambda: collections.deque([1, 2]), _append, lambda each: each, sum),
    "bytearray": (lambda: bytearray(b"ab"), _append, lambda each: each, lambda seen: seen[0] + len(seen)),
    "iterator": (lambda: [1, 2], _append, iter, sum),
    "iterator over a subclass": (lambda: Names([1, 2]), _append, iter, sum),
    "reversed": (lambda: [1, 2], _append, reversed, sum),
    "enumerate": (lambda: [1, 2], _append, enumerate, lambda seen: sum(index * each for index, each in seen)),
    "zip": (lambda: [1, 2], _append, lambda each: zip(each, (3, 4, 5)), lambda seen: sum(a * b for a, b in seen)),
    "map": (lambda: [1, 2], _append, lambda each: map(int, each), sum),
    "filter": (lambda: [1, 2], _append, lambda each: filter(None, each), sum),
    "iterator over values": (lambda: {"a": 1}, _set_item, lambda each: iter(each.values()), sum),
    "iterator over pairs": (lambda: {"a": 1}, _set_item, lambda each: iter(each.items()), lambda seen: sum(v for _, v in seen)),
}


def _calls(name: str, written_comes_first: bool) -> tuple[Callable[..., Any], Callable[[bool], Iterator[Any]]]:
    make, change, show, read = CASES[name]

    def fn(x, first, second):
        changed, shown = (first, second) if written_comes_first else (second, first)
        change(changed)
        return x + read(shown)

    def arguments(one: bool) -> Iterator[Any]:
        container = make()
        shown = show(container if one else make())
        return iter((container, shown) if written_comes_first else (shown, container))

    return fn, arguments


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("written_comes_first", [True, False])
@pytest.mark.parametrize("one_at_first", [True, False])
def test_an_entry_knows_whether_two_places_have_one_container(name, written_comes_first, one_at_first):
    fn, arguments = _calls(name, written_comes_first)
    traced = compiled(fn, Settings())
    for one in (one_at_first, not one_at_first, one_at_first):
        assert torch.equal(traced(X, *arguments(one)), fn(X, *arguments(one))), one


def test_two_iterators_over_one_list_are_served_while_another_is_changed():
    def fn(x, first, second, found):
        found.extend(first)
        found.extend(second)
        return x + len(found)

    traced = compiled(fn, Settings(fullgraph=True))
    for _ in range(3):
        both = [1, 2]
        assert torch.equal(traced(X, iter(both), iter(both), []), X + 4)


class Attributes(dict):
    def __init__(self, own: bool) -> None:
        super().__init__(a=1)
        if own:
            self.__dict__ = self
        else:
            self.a = 1


@pytest.mark.parametrize("own_at_first", [True, False])
@pytest.mark.parametrize("way", ["item", "attribute", "removal", "length"])
def test_items_of_a_dict_that_are_its_attributes(way, own_at_first):
    def fn(x, given):
        if way == "item":
            given["a"] = 3
            return x + given.a
        if way == "attribute":
            given.a = 3
            return x + given["a"]
        if way == "removal":
            del given["a"]
            return x + hasattr(given, "a")
        given.b = 1
        return x + len(given)

    traced = compiled(fn, Settings())
    for own in (own_at_first, not own_at_first, own_at_first):
        assert torch.equal(traced(X, Attributes(own)), fn(X, Attributes(own))), own


class Shared:
    common: dict[str, Any] = {}

    def __init__(self) -> None:
        self.__dict__ = Shared.common


class Plain:
    def __init__(self) -> None:
        self.value = 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("make", [lambda: (Shared(), Shared()), lambda: (each := Plain(), vars(each))], ids=["objects", "vars"])
@pytest.mark.parametrize("changes_the_first", [True, False])
def test_objects_and_dicts_with_the_same_attributes(make, order, changes_the_first):
    def changed(each):
        if isinstance(each, dict):
            each["value"] = 5
        else:
            each.value = 5

    def fn(x, first, second):
        changed(first if changes_the_first else second)
        other = second if changes_the_first else first
        return x + (other["value"] if isinstance(other, dict) else other.value)

    traced = compiled(fn, Settings())
    for _ in range(2):
        Shared.common["value"] = 1
        both = make()
        assert torch.equal(traced(X, *(both[index] for index in order)), X + 5)


def test_attributes_of_objects_that_share_them_are_read():
    Shared.common["value"] = 4
    fn = lambda x, first, second: x * first.value + second.value
    assert torch.equal(compiled(fn, Settings())(X, Shared(), Shared()), X * 8)
