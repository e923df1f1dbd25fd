"""Guards of a whole trace that objects are distinct: each object that the trace changes is compared with those that it could be,
and no other objects are compared."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tracer.guards.identity import Distinct

X = torch.linspace(-1, 1, 3)


class Box:
    def __init__(self, value=1):
        self.value = value


class OtherBox(Box):
    pass


def entry_of(fn, *args, **kwargs):
    compiled = tracer.optimize()(fn)
    compiled(*args, **kwargs)
    (entry,) = tracer.region_of(compiled).entries()
    return entry


def kept_apart(entry):
    """The names in each guard that objects are not the same."""
    return [{source.name for source in guard.group} for guard in entry.guarded_code.manager.guards if type(guard) is Distinct]


def extend(x, a, b):
    a.append(x + 1)
    return x * len(b)


def fill(x, a, b):
    a["new"] = x + 1
    return x * len(b)


def assign(x, a, b):
    a.value = 3
    return x * b.value


CHANGES = {
    "lists": (extend, list),
    "dicts": (fill, dict),
    "objects": (assign, Box),
}


@pytest.mark.parametrize(("fn", "make"), CHANGES.values(), ids=CHANGES)
def test_what_is_changed_may_turn_out_to_be_what_is_read(fn, make):
    compiled = tracer.optimize()(fn)
    for same in (False, True, False):
        results = []
        for run in (fn, compiled):
            a = make()
            results.append(run(X, a, a if same else make()))
        assert torch.equal(*results)
    assert len(tracer.region_of(compiled).entries()) == 2


def test_objects_of_other_classes_are_not_compared():
    def fn(x, a, b, c, d):
        a.append(1)
        return x * len(b) * d.value * len(c)

    assert kept_apart(entry_of(fn, X, [], [1], {"k": 1}, Box())) == [{"L['a']", "L['b']"}]
    assert kept_apart(entry_of(assign, X, Box(), OtherBox())) == []
    assert kept_apart(entry_of(assign, X, Box(), Box())) == [{"L['a']", "L['b']"}]


def test_the_dict_of_keywords_is_nothing_else():
    def fn(x, table, **options):
        options["more"] = options.pop("some") + len(table)
        return x * options["more"]

    assert kept_apart(entry_of(fn, X, {"k": 1}, some=2)) == []
    watched = Watched(fn)
    watched(X, {"k": 1}, some=2)
    table = {"some": 3}
    watched(X, table, **table)
    assert table == {"some": 3}


def test_nothing_is_compared_where_nothing_is_changed():
    def fn(x, a, b):
        return x * len(a) * len(b)

    assert kept_apart(entry_of(fn, X, [1], [2])) == []


def test_guards_of_one_line_share_its_place():
    def fn(x, a, b):
        return x * a.value * b.value

    guards = entry_of(fn, X, Box(), Box()).guarded_code.manager.guards
    places = [guard.where for guard in guards if guard.where is not None]
    assert len(places) > len(set(places)) == len(set(map(id, places)))
