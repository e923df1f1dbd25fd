"""Deques, sets and frozensets: methods, order, changes of inputs."""

from __future__ import annotations

import collections
from collections import deque

import pytest
import torch

from tests.support import breaks, captured, check

X = torch.arange(3.0)


def test_deque_methods():
    def f(x, d):
        d.append(x + 1)
        d.appendleft(0)
        d.rotate(2)
        d.extend([7, 8])
        d.extendleft("ab")
        popped = d.pop(), d.popleft()
        d.insert(1, "in")
        d[0] = "first"
        del d[2]
        e = collections.deque([1, 2, 3, 4], maxlen=2)
        e.append(5)
        e.appendleft(6)
        return d, popped, e, e.maxlen, len(d), e[0], list(reversed(e)), 6 in e, e == collections.deque([6, 5]), e.copy()

    captured(f, X, collections.deque([1, 2, 3]))


def test_deque_with_a_limit_as_input():
    def f(x, d):
        d.extend([x, x + 1])
        d.reverse()
        return d + collections.deque([1]), d * 2, d.count(1)

    captured(f, X, collections.deque([1, 2], maxlen=3)) if False else check(f, X, collections.deque([1, 2], maxlen=3))


def test_deque_changed_during_iteration():
    def f(x):
        d = collections.deque([1, 2, 3])
        try:
            for item in d:
                d.append(item)
        except RuntimeError as error:
            return x + 1, str(error), d

    captured(f, X)


def test_half_consumed_deque_iterator():
    def f(x):
        iterator, back = iter(collections.deque("abc")), reversed(collections.deque("abc"))
        next(iterator), next(back)
        return x + 1, iterator, back

    captured(f, X)


def test_deque_errors():
    def f(x):
        errors = []
        for call in (
            lambda: deque().pop(), lambda: deque([1])[3], lambda: deque([1])[:1],
            lambda: deque([], -1), lambda: deque([1], 1).insert(0, 2), lambda: hash(deque()),
        ):  # fmt: skip
            try:
                call()
            except Exception as error:
                errors.append((type(error), str(error)))
        return x + 1, errors

    captured(f, X)


def test_set_methods():
    def f(x):
        s = {3, 1, 2}
        s.add(5)
        s.discard(1)
        s.remove(2)
        s |= {8, 9}
        s &= {3, 5, 8, 100}
        t = {1, 2} | {2, 3}, {1, 2} & {2, 3}, {1, 2} - {2}, {1, 2} ^ {2, 3}, {1}.union([2], (3,)), {1}.issubset({1, 3})
        return x + 1, s, t, 3 in s, len(s), {1} < {1, 2}, {1} == frozenset([1]), sorted(s), set("hello") == set("olleh")

    captured(f, X)


@pytest.mark.parametrize("make", [
    lambda: {17, 5, 33, 1, 9}, lambda: set(range(40, 0, -7)), lambda: {1, 33} | {17, 65}, lambda: {1, 9, 17, 25} - {9},
    lambda: set({33: 0, 1: 0, 17: 0}), lambda: {33, 1, 17}.copy(), lambda: frozenset([33, 1, 17]) | {49},
    lambda: {33, 1, 17} & {17, 33}, lambda: {33: 0, 1: 0}.keys() | {17}, lambda: {33: 0, 17: 0, 1: 0}.keys() & {17, 33},
    lambda: {n * 8 for n in range(9)}, lambda: {"a", 3, None, (1, 2), 2.5}, lambda: {int, str, dict}, lambda: {*[65], 1},
])  # fmt: skip
def test_iteration_order_is_that_of_cpython(make):
    def f(x):
        s = make()
        return x + 1, list(s), s, [*s][0]

    check(f, X)


def test_order_after_changes():
    def f(x):
        s = {33, 1, 17, 9}
        s.discard(1)
        s.add(65)
        s.update([73, 81], {97, 2})
        s.add(1)
        first = s.pop()
        return x + 1, list(s), first, s

    check(f, X)


def test_changes_of_an_input_set():
    def f(x, s):
        s.add(1)
        s.discard(5)
        s |= {33, 65}
        s.symmetric_difference_update({9, 2})
        return x + 1, len(s), 33 in s

    captured(f, X, {5, 17, 9})


def test_iteration_over_an_input_set():
    def f(x, s):
        return x + 1, list(s), sorted(s), max(s)

    captured(f, X, {5, 17, 9})


def test_input_set_in_another_order_is_traced_again():
    def order(x, s):
        return x + 1, list(s)

    checked = check(order, X, {8, 0})
    assert not checked.recompiles
    other = {0, 8}
    assert list(other) != list({8, 0})
    check(order, X, other)


def test_order_of_new_objects_breaks():
    def f(x):
        s = {object(), object()}
        return x + 1, len(list(s))

    assert "set-order" in breaks(f, X).break_ids


def test_set_of_tensors_is_made():
    def f(x, y):
        s = {x, y, x}
        return x + 1, len(s), x in s

    check(f, X, X + 1)


def test_set_errors():
    def f(x):
        errors = []
        for call in (
            lambda: {1}.remove(2), lambda: set().pop(), lambda: {[]}, lambda: hash({1}), lambda: {1} | [2],
            lambda: {1} + {2}, lambda: {1}.nothing, lambda: frozenset().add(1), lambda: set(5), lambda: {1}["a"],
        ):  # fmt: skip
            try:
                call()
            except Exception as error:
                errors.append((type(error), str(error)))
        return x + 1, errors

    check(f, X)


def test_set_changed_during_iteration():
    def f(x):
        s = {1, 2}
        try:
            for item in s:
                s.add(item + 10)
        except RuntimeError as error:
            return x + 1, str(error)

    captured(f, X)


def test_sets_as_keys_and_members():
    def f(x):
        return x + 1, {frozenset([1, 2]): "k"}[frozenset([2, 1])], {1, 2} in [{2, 1}], {1} in {frozenset([1])}

    captured(f, X)


def test_set_comprehension_over_strings():
    check(lambda x, names: (x + 1, {name.lower() for name in names}, frozenset(names)), X, ["B", "a", "C"])


def test_a_deque_is_searched_within_bounds():
    def fn(x):
        items = deque([1, 2, 3, 1, 3])
        return x + items.index(3), items.index(3, 3), items.index(1, -3), items.index(3, 0, 9)

    captured(fn, X)
