"""Arguments are bound to parameters as CPython binds them, and calls that do not fit fail in its words."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured, check

X = torch.ones(3)


def plain(a, b):
    return a, b


def with_defaults(a, b=2, c=3):
    return a, b, c


def positional_only(a, b=2, /, c=3):
    return a, b, c


def keyword_only(a, *, b, c=3):
    return a, b, c


def gathering(a, *rest, b=2, **more):
    return a, rest, b, more


def same_names(a, /, **more):
    return a, more


FUNCTIONS = (plain, with_defaults, positional_only, keyword_only, gathering, same_names, lambda: None)
CALLS = (
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4), {}),
    ((1,), {"b": 5}),
    ((1,), {"a": 5}),
    ((), {"a": 5, "b": 6}),
    ((1,), {"c": 5}),
    ((1,), {"b": 5, "d": 6}),
    ((1, 2), {"b": 5}),
    ((), {"b": 5, "c": 6}),
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_call_binds_or_fails_as_in_cpython(function):
    def fn(x):
        found = []
        for args, kwargs in CALLS:
            try:
                found.append(function(*args, **kwargs))
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    captured(fn, X)


def test_a_default_is_the_object_that_the_function_has():
    def collecting(item, into=[]):
        into.append(item)
        return into

    def fn(x):
        collecting(1)
        return x + 1, collecting(2) is collecting(3), collecting(4)

    first = captured(fn, X).result[2]
    assert first[-1] == 4


def renamed(a):
    return a


renamed.__qualname__ = "another.name"


def test_an_error_names_the_function_by_its_qualified_name():
    def fn(x):
        try:
            renamed()
        except TypeError as error:
            return x + 1, str(error)

    assert "another.name()" in captured(fn, X).result[1]


def test_a_function_that_gets_another_name_is_told_by_that_in_a_later_call():
    def named(a):
        return a

    def fn(x):
        try:
            named()
        except TypeError as error:
            return x + 1, str(error)

    compiled = tracer.compile(fn)
    for name in ("first.name", "second.name"):
        named.__qualname__ = name
        assert compiled(X)[1] == fn(X)[1] == f"{name}() missing 1 required positional argument: 'a'"


def test_an_error_names_a_function_that_the_trace_has_renamed_by_its_new_name():
    def fn(x):
        def inner(a):
            return a

        inner.__qualname__ = "another.name"
        try:
            inner()
        except TypeError as error:
            return x + 1, str(error)

    check(fn, X)
