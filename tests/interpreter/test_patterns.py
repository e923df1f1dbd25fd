"""`match`: class, mapping and sequence patterns call what CPython calls, and fail in its words."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence

import pytest
import torch

from tests.support import check, check_made


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class NoTuple:
    __match_args__ = ["a"]


class NotOnlyNames:
    __match_args__ = ("a", 1)
    a = 1


@pytest.mark.parametrize("make", [lambda: Point(1, 2), NoTuple, NotOnlyNames, lambda: 5, lambda: "text"])
def test_class_patterns_that_ask_for_too_much_are_errors(make):
    def fn(x, value):
        found = []
        for cls in (Point, NoTuple, NotOnlyNames, int, str):
            for number in range(3):
                try:
                    if number == 0:
                        match value:
                            case cls(a, missing=b):
                                found.append((a, b))
                    elif number == 1:
                        match value:
                            case cls(a, b):
                                found.append((a, b))
                    else:
                        match value:
                            case cls(a, a=b):
                                found.append((a, b))
                except TypeError as error:
                    found.append(str(error))
        return x + len(found), found

    check_made(fn, lambda: ((torch.ones(2), make()), {}))


def test_a_mapping_pattern_with_the_same_key_twice_is_an_error():
    class Names:
        a = "a"

    def fn(x, table):
        try:
            match table:
                case {Names.a: first, "a": second}:
                    return x + first + second
        except ValueError as error:
            return x, str(error)

    check(fn, torch.ones(2), {"a": 1, "b": 2})


def test_a_class_that_is_a_mapping_and_registered_as_a_sequence_matches_as_in_cpython():
    class Both(UserDict, Sequence):
        pass

    class Registered:
        pass

    Sequence.register(Registered)

    def kind(value):
        match value:
            case {}:
                return "mapping"
            case [*_]:
                return "sequence"
        return "neither"

    def fn(x, both):
        return x + 1, kind(both), [isinstance(value, Sequence) for value in (both, Registered())]

    check_made(fn, lambda: ((torch.ones(2), Both()), {}))
