"""Views and mappingproxies that the program made before: they show a dict that it may reach, and change, elsewhere."""

from __future__ import annotations

import collections
import types

import pytest
import torch

from tests.support import captured_made, check_made
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.ones(2)
SHOWN = {
    "proxy": types.MappingProxyType,
    "keys": dict.keys,
    "values": dict.values,
    "items": dict.items,
}
ORDERED = {
    "proxy": types.MappingProxyType,
    "keys": collections.OrderedDict.keys,
    "values": collections.OrderedDict.values,
    "items": collections.OrderedDict.items,
}


@pytest.mark.parametrize("show", [*SHOWN.values(), *ORDERED.values()], ids=[*SHOWN, *(f"ordered {name}" for name in ORDERED)])
def test_what_shows_a_dict_is_an_argument(show):
    cls = collections.OrderedDict if show in [*ORDERED.values()][1:] else dict

    def fn(x, shown):
        return x + len(shown), list(shown), list(reversed(shown)), bool(shown), str(shown), type(shown), shown

    captured_made(fn, lambda: ((X, show(cls(a=1, b=2))), {}))


def test_views_of_an_object_are_asked_for_keys_pairs_and_operands_of_sets():
    class Holder:
        def __init__(self):
            table = {"a": 1, "b": 2}
            self.keys, self.items, self.values = table.keys(), table.items(), table.values()

    def fn(x, holder):
        return (
            x + 1,
            "a" in holder.keys,
            2 in holder.values,
            ("b", 2) in holder.items,
            holder.keys & {"a"},
            holder.keys == {"a", "b"},
        )

    captured_made(fn, lambda: ((X, Holder()), {}))


def test_a_view_of_a_dict_subclass_and_one_in_another_order_are_left_to_cpython():
    class Table(dict):
        pass

    check_made(lambda x, view: (x + 1, list(view)), lambda: ((X, Table(a=1).keys()), {}))
    moved = collections.OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    check_made(lambda x, view: (x + 1, list(view)), lambda: ((X, dict.keys(moved)), {}))


READ = {
    "proxy": lambda shown: shown["a"],
    "keys": len,
    "values": sum,
    "items": lambda shown: sum(value for _, value in shown),
}


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("dict_comes_first", [True, False])
@pytest.mark.parametrize("one_at_first", [True, False])
def test_an_entry_knows_whether_what_is_shown_is_the_dict_that_the_code_writes_to(name, dict_comes_first, one_at_first):
    def written(x, first, second):
        table, shown = (first, second) if dict_comes_first else (second, first)
        before = x + READ[name](shown)
        table["a"] = 7
        table["b"] = 3
        return before, x + READ[name](shown)

    traced = compiled(written, Settings(fullgraph=True))
    for one in (one_at_first, not one_at_first, one_at_first):
        found = []
        for each in (traced, written):
            table = {"a": 1}
            shown = SHOWN[name](table if one else {"a": 1})
            found.append((*each(X, *((table, shown) if dict_comes_first else (shown, table))), table))
        assert all(map(torch.equal, found[0][:2], found[1][:2])), one
        assert found[0][2] == found[1][2]


def test_an_entry_that_read_one_dict_through_a_proxy_is_not_for_two():
    def both(x, table, proxy):
        return x + table["a"] + proxy["a"]

    traced = compiled(both, Settings())
    table = {"a": 1}
    assert torch.equal(traced(X, table, types.MappingProxyType(table)), X + 2)
    assert torch.equal(traced(X, table, types.MappingProxyType({"a": 2})), X + 3)
