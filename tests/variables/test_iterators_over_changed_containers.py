"""An iterator that the program keeps goes over the container as the traced frame left it."""

from __future__ import annotations

import collections

import pytest
import torch

from tests.support import captured


def _dict(d):
    d["n"] = 1
    return d.items()


def _list(d):
    items = d["list"]
    items.append(2)
    items.append(3)
    return items


def _set(d):
    items = d["set"]
    items.add(1)
    return items


def _deque(d):
    d["deque"].append(2)
    return d["deque"]


def _arguments():
    return torch.ones(2), {"list": [1], "set": set(), "deque": collections.deque([1])}, []


@pytest.mark.parametrize("changed", [_dict, _list, _deque])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("first", [False, True], ids=["the container first", "the keeper first"])
def test_an_iterator_that_another_list_keeps(changed, backwards, first):
    def fn(x, d, kept):
        if first:
            kept.append(0)
        container = changed(d)
        iterator = reversed(container) if backwards else iter(container)
        next(iterator)
        kept.append((iterator, x + 1))
        return x * 2

    captured(fn, *_arguments())


def test_an_iterator_over_a_set_that_another_list_keeps():
    def fn(x, d, kept):
        kept.append(iter(_set(d)))
        return x * 2

    captured(fn, *_arguments())


def test_an_iterator_over_a_container_that_holds_an_iterator_over_another_one():
    def fn(x, d, kept):
        kept.append(0)
        d["a"] = 1
        inner = {"deep": [iter(kept)]}
        d["list"].append(zip(kept, inner.values()))
        kept.append(x + 1)
        return x, iter(d["list"])

    captured(fn, *_arguments())
