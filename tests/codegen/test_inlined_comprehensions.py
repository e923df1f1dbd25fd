"""A comprehension that Python 3.12 runs in the frame around it, where the graph breaks in it: names that both use keep apart."""

from __future__ import annotations

import torch

import tracer
from tests.support import check

X = torch.ones(2)


def broken(value):
    tracer.graph_break()
    return value


def test_a_local_that_a_comprehension_hides_is_as_before():
    def fn(x):
        n = 10
        found = [x * n for n in (1, 2) if broken(n)]
        return n, found, [tracer.graph_break() or n for n in (3, 4)], n

    check(fn, X)


def test_a_local_that_was_unbound_is_unbound_again():
    def fn(x, bound):
        if bound:
            n = 5
        found = [tracer.graph_break() or x * n for n in (1, 2)]
        try:
            return found, n
        except UnboundLocalError as error:
            return found, str(error)

    check(fn, X, True)
    check(fn, X, False)


def test_nested_comprehensions_of_one_name():
    def fn(x):
        n = x + 1
        return [[tracer.graph_break() or n * m for n in (m, 2)] + [n] for m in (1, 2) for n in [m * 10]], n

    check(fn, X)


def test_functions_made_in_a_comprehension_have_cells_of_their_own():
    def fn(x):
        n = 10
        before = lambda: n
        made = [(tracer.graph_break(), lambda: x * n)[1] for n in (1, 2)]
        return before(), n, [each() for each in made]

    check(fn, X)


def test_a_cell_whose_name_a_comprehension_uses_for_a_plain_local():
    def fn(x):
        n = 10
        before = lambda: n
        found = [tracer.graph_break() or x * n for n in (1, 2)]
        n += 1
        return before(), n, found

    check(fn, X)


def test_a_free_variable_whose_name_a_comprehension_uses():
    n = 10

    def plain(x):
        return n, [tracer.graph_break() or x * n for n in (1, 2)], n

    def captured(x):
        return n, [each() for each in [lambda: x * n for n in (1, 2)]]

    check(plain, X)
    check(captured, X)


def test_an_exception_that_leaves_a_comprehension_gives_the_local_back():
    def fn(x):
        n = x + 1
        try:
            [tracer.graph_break() or 1 // n for n in (1, 0)]
        except ZeroDivisionError:
            return n

    check(fn, X)


def test_dicts_and_sets_are_made_over_a_break():
    def fn(x):
        return {k: tracer.graph_break() or x * k for k in (1, 2)}, {tracer.graph_break() or k for k in (1, 2)}

    check(fn, X)
