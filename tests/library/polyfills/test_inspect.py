"""The functions of inspect that are replaced by plain Python: one graph, and what CPython's give."""

from __future__ import annotations

import functools
import inspect

import torch

from tests.support import captured, check

X = torch.ones(3)


def plain(x, rate: float = 2.0):
    return x * rate


@functools.wraps(plain)
def wrapped(*args):
    return plain(*args)


@functools.wraps(wrapped)
def wrapped_twice(*args):
    return wrapped(*args)


def first_of_a_loop():
    pass


def second_of_a_loop():
    pass


first_of_a_loop.__wrapped__, second_of_a_loop.__wrapped__ = second_of_a_loop, first_of_a_loop  # type: ignore[attr-defined]


def test_what_is_wrapped_is_found_and_called():
    captured(lambda x: (inspect.unwrap(wrapped_twice)(x), inspect.unwrap(wrapped_twice) is plain), X)


def test_unwrapping_stops_where_it_is_told_to():
    def fn(x):
        found = inspect.unwrap(wrapped_twice, stop=lambda function: function is wrapped)
        return found(x), found is wrapped

    captured(fn, X)


def test_a_loop_of_wrappers_is_an_error():
    def fn(x):
        try:
            inspect.unwrap(first_of_a_loop)
        except ValueError as error:
            return x + 1, str(error)[:28]

    check(fn, X)  # the text of a function is told outside of the graph


class Annotated:
    size: int
    name: str = ""


class Derived(Annotated):
    pass


def test_annotations_are_given_as_a_new_dict():
    def fn(x):
        found = inspect.get_annotations(plain)
        found["more"] = 1
        of_classes = inspect.get_annotations(Annotated), inspect.get_annotations(Derived)
        return x + 1, found, of_classes, inspect.get_annotations(plain)

    captured(fn, X)


def test_annotations_of_what_has_none_are_an_error():
    def fn(x):
        try:
            inspect.get_annotations(3)
        except TypeError as error:
            return x + 1, str(error)

    captured(fn, X)


def test_annotations_that_a_class_evaluates_are_given():
    names = {}
    exec(compile("class Own:\n    size: int\n", "<own>", "exec", dont_inherit=True), names)  # not as texts, as in this file
    own = names["Own"]
    check(lambda x: (x + 1, inspect.get_annotations(own)), X)
