"""Matches of regular expressions."""

from __future__ import annotations

import re

import pytest
import torch

import tracer
from tests.support import breaks, captured, check

X = torch.ones(3)


def test_a_match_in_a_bytearray_gives_what_is_there_when_it_is_asked():
    def f(x, search):
        text = bytearray(b"abcdefgh")
        match = search(b"[a-h]+", text)
        first = match.group()
        text[:] = b"xyz"
        return x + 1, first, match.group()

    breaks(f, X, re.search)
    breaks(f, X, re.match)


@pytest.mark.parametrize("memory", [bytearray, lambda text: memoryview(bytearray(text))], ids=["bytearray", "memoryview"])
def test_a_match_made_before_in_memory_that_changes(memory):
    text = memory(b"abc")
    match = re.search(b"[a-z]+", text)
    compiled = tracer.compile(lambda x: (x + 1, match.group()))
    assert compiled(X)[1] == b"abc"
    text[:] = b"xyz"
    assert compiled(X)[1] == b"xyz"


def test_what_a_search_of_a_bytearray_copies_is_known():
    def f(x):
        text = bytearray(b"a-b")
        parts, found, other = re.split(b"-", text), re.findall(b"[ab]", text), re.sub(b"-", b"+", text)
        text[:] = b"xyz"
        return x + len(parts), parts, found, other

    check(f, X)


def test_the_numbers_of_the_named_groups():
    def fn(x):
        pattern = re.compile(r"(?P<a>\d)-(\w)(?P<b>.)")
        index = pattern.groupindex
        try:
            index["c"] = 1
        except TypeError as error:
            seen = str(error)
        try:
            del index["a"]
        except TypeError as error:
            seen = seen, str(error)
        return x + index["b"], dict(index), list(index), seen

    captured(fn, torch.ones(2))


DIGITS = re.compile(r"\d+")
FIND, REPLACE = DIGITS.search, DIGITS.sub


def test_methods_of_a_pattern_that_a_global_or_a_default_holds():
    def f(x, text, match=re.compile("[a-z]+").match):
        return x * FIND(text).end(), match(text).group(), REPLACE("#", text), REPLACE(lambda found: found.group() * 2, text)

    captured(f, X, "ab12 c3")


def test_a_function_replaces_the_first_matches():
    def f(x, text):
        doubled = DIGITS.sub(lambda found: found.group() * 2, text, count=1)
        return x + 1, doubled, DIGITS.subn(lambda found: "", string=text, count=2), re.sub("a", lambda found: "b", text, count=1)

    captured(f, X, "a1a22a3")
