"""What functions, cells and methods of built-in objects are beside being called: compared, named, given attributes."""

from __future__ import annotations

import torch

from tests.support import check
from tracer.api.callables import compiled
from tracer.api.settings import Settings


def test_methods_of_one_dict_are_told_apart_when_they_are_arguments():
    table = {"a": 1, "b": 2}

    def fn(x, method):
        return x + sum(len(str(item)) for item in method())

    traced = compiled(fn, Settings())
    x = torch.ones(2)
    for method in (table.keys, table.items, table.values):
        assert torch.equal(traced(x, method), fn(x, method))


def test_method_of_a_list_keeps_its_identity():
    def fn(x, method):
        return x + 1, method

    method = [].append
    assert compiled(fn, Settings())(torch.ones(2), method)[1] is method


def test_attributes_of_functions_that_take_text_alone():
    def function():
        pass

    def fn(x):
        def inner():
            pass

        words = []
        for each in (function, inner):
            for name in ("__name__", "__qualname__", "__kwdefaults__", "__annotations__", "__dict__"):
                try:
                    setattr(each, name, 7)
                except TypeError as error:
                    words.append(str(error))
        return x + len(words), words

    check(fn, torch.ones(2))


def test_cells_and_bound_methods_are_compared_by_what_they_hold():
    def cell(value):
        return (lambda: value).__closure__[0]

    def fn(x):
        items = []
        return x + 1, cell(2) == cell(2), cell(1) == cell(2), items.append == items.append, items.append == [].append

    check(fn, torch.ones(2))
