"""Objects of the program that a trace reads, and whose own methods must not run."""

from __future__ import annotations

import copy
import types

import torch

from tests.support import check, check_made


class Changing:
    """Its hash changes with it, so that no dict finds it again."""

    def __init__(self, v):
        self.v = v

    def __hash__(self):
        return hash(self.v)

    def __eq__(self, other):
        return self.v == other.v


def test_dict_with_a_key_whose_hash_has_changed():
    def fn(x, table):
        return x + table["a"] + len(table)

    def make():
        key = Changing(1)
        table = {key: 5, "a": 1}
        key.v = 2
        return (torch.ones(2), table), {}

    check_made(fn, make)


def test_methods_that_modules_have_from_object():
    def fn(x, module):
        return x + 1, module.__reduce_ex__.__name__

    check_made(fn, lambda: ((torch.ones(2), types), {}))


def test_copying_a_module_fails_as_in_python():
    def fn(x):
        return x, copy.deepcopy(types)

    assert isinstance(check(fn, torch.ones(2)).error, TypeError)
