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
