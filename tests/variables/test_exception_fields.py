"""What exceptions keep in their C structure, beside `args`."""

from __future__ import annotations

import re

import pytest
import torch

import tracer
from tests.support import check

X = torch.arange(3.0)


def cannot_encode(x):
    return "\u00e4".encode("ascii")


def cannot_decode(x):
    return b"\xff".decode("utf-8")


@pytest.mark.parametrize("fails", [cannot_encode, cannot_decode])
def test_an_error_of_a_codec_says_where_it_failed(fails):
    def fn(x):
        try:
            fails(x)
        except UnicodeError as error:
            return x + 1, error.args, error.start, error.end, error.reason, error.object, str(error)

    check(fn, X)


def test_an_error_of_a_format_says_which_attribute_of_what_is_missing():
    def fn(x):
        try:
            "{0.missing}".format(1)
        except AttributeError as error:
            return x + 1, error.args, error.name, error.obj

    check(fn, X, fullgraph=True)


def test_a_field_that_is_deleted_is_none():
    def fn(x):
        error = OSError(2, "words", "file")
        text = str(error)
        del error.filename
        return x + 1, text, str(error), error.filename, error.args

    check(fn, X)


def test_a_field_that_cannot_be_deleted():
    def fn(x):
        error = ValueError(1)
        try:
            del error.args
        except TypeError as raised:
            return x + 1, str(raised), error.args

    check(fn, X)


@pytest.mark.parametrize("pattern", ["(", "[a\n(", "(?P<a>)\n(?P<a>)"])
def test_the_error_of_a_wrong_pattern_keeps_its_attributes_where_it_leaves_the_graph(pattern):
    def fn(x):
        try:
            re.compile(pattern)
        except re.error as error:
            return x + 1, error, error.pos + error.lineno

    result, error, place = tracer.compile(fn, fullgraph=True, backend="eager")(X)
    _, expected, expected_place = fn(X)
    assert torch.equal(result, X + 1) and place == expected_place
    assert error.__dict__ == expected.__dict__ and error.__dict__["pattern"] == pattern
