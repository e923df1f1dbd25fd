"""Generators that are alive where a graph ends: the output code makes them again where the trace left them."""

from __future__ import annotations

import contextlib

import pytest
import torch

import tracer
from tests.support import breaks, captured, check
from tests.support.generators import numbers

X = torch.arange(3.0)


@pytest.mark.parametrize("taken", [0, 1, 3, 5])
def test_a_generator_is_returned_with_some_items_taken(taken):
    def f(x):
        g = numbers(3)
        items = [next(g, None) for _ in range(taken)]
        return x + 1, items, g

    captured(f, X)


def test_a_generator_is_returned_before_it_has_started():
    def make(a, /, b, *args, c=3, d=4, **kwargs):
        inner = lambda: a + b
        yield inner()
        yield args, c, d, kwargs

    def f(x):
        return x + 1, make(1, 2, 7, 8, d=5, q=6), make(1, b=1), (n + 1 for n in [x, x])

    captured(f, X)


def test_a_generator_half_consumed_keeps_its_cells_and_nested_generators():
    def f(x):
        scale = 2

        def inner():
            for n in range(3):
                yield n * scale

        def outer():
            got = yield from inner()
            yield got
            yield from (n + scale for n in range(2))

        g, h = outer(), outer()
        first = next(g)
        for _ in range(4):
            next(h)
        scale = 5
        return x + 1, first, g, h

    captured(f, X)


def test_a_generator_lives_across_a_graph_break():
    def f(x):
        total = x
        for n in numbers(4):
            total = total + n
            if total.sum() > 10:
                total = total * 2
        return total

    assert "data-dependent-branch" in breaks(f, X).break_ids


def test_a_generator_is_sent_values_behind_a_graph_break():
    def f(x, log):
        def accumulate():
            total = 0
            while True:
                received = yield total
                if received is None:
                    return "done"
                total = total + received

        g = accumulate()
        next(g)
        log.append(g.send(x))
        print(end="")
        log.append(g.send(x + 1))
        try:
            g.send(None)
        except StopIteration as stop:
            log.append(stop.value)
        return x + 1

    breaks(f, X, [])


def test_a_generator_suspended_in_a_try_block_lives_across_a_graph_break():
    @contextlib.contextmanager
    def noting(log):
        log.append("in")
        try:
            yield 3
        except KeyError as error:
            log.append(error.args)
        finally:
            log.append("out")

    def f(x, log, fails):
        with noting(log) as value:
            x = x + value
            print(end="")
            log.append("body")
            if fails:
                raise KeyError("k")
            x = x * 2
        return x

    breaks(f, X, [], False)
    breaks(f, X, [], True)


def test_a_graph_breaks_inside_of_a_generator():
    def doubled(items):
        for item in items:
            print(end="")
            yield item * 2

    def f(x):
        return [item + 1 for item in doubled([x, x + 1])]

    breaks(f, X)


def test_a_generator_that_is_rebuilt_has_its_names():
    def f(x, taken):
        def local(count):
            yield from range(count)

        gs = numbers(2), local(2), (n for n in [1, 2])
        for g in gs:
            for _ in range(taken):
                next(g, None)
        return x + 1, gs

    for taken in (0, 1, 4):
        names = [[g.__name__, g.__qualname__, repr(g).partition(" at ")[0]] for g in captured(f, X, taken).result[1]]
        assert names == [[g.__name__, g.__qualname__, repr(g).partition(" at ")[0]] for g in f(X, taken)[1]]


def test_a_generator_is_consumed_partly_inside_and_partly_outside():
    def squares(x):
        for n in range(4):
            yield x * n

    def f(x):
        g = squares(x)
        return next(g) + next(g), g

    checked = captured(f, X)
    assert checked.result[0].tolist() == X.tolist()


def test_a_recursive_generator_lives_across_a_graph_break():
    def walk(tree):
        for item in tree:
            if isinstance(item, list):
                yield from walk(item)
            else:
                yield item

    def f(x, tree):
        for item in walk(tree):
            x = x + item
            tracer.graph_break()
        return x

    check(f, X, [1, [2, [3, []]], 4])


def test_a_closed_over_generator_is_shared():
    def f(x):
        g = numbers(5)

        def take():
            return next(g)

        first = take(), next(g)
        tracer.graph_break()
        return x + 1, first, take(), next(g), take

    check(f, X)
