"""Functions and classes are looked up in a set by identity."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.regions import entries

_KNOWN = frozenset([torch.add, len, int, "x"])
_ALSO_KNOWN = {torch.add, len, int, "x", type(None)}
_LAYERS = {torch.nn.Linear, torch.nn.Conv1d}


@pytest.mark.parametrize("known", [_KNOWN, _ALSO_KNOWN, dict.fromkeys(_KNOWN)])
def test_membership_in_a_set_of_functions_and_classes(known):
    def f(x):
        return x + 1, torch.add in known, torch.mul in known, int in known, float in known, "x" in known, len(known)

    captured(f, torch.ones(3))


def test_a_program_decides_by_the_class_of_a_module():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))

    def f(x):
        for layer in model:
            x = layer(x) * 2 if type(layer) in _LAYERS else layer(x)
        return x

    captured(f, torch.ones(2, 3))


def test_a_class_that_joins_a_set_is_seen():
    kinds = {int, str}

    def f(x, of):
        return x + 1 if of in kinds else x - 1

    compiled, x = tracer.compile(f, fullgraph=True), torch.ones(3)
    for _ in range(2):
        assert torch.equal(compiled(x, float), x - 1)
    kinds.add(float)
    for _ in range(2):
        assert torch.equal(compiled(x, float), x + 1)
    kinds.remove(float)
    assert torch.equal(compiled(x, float), x - 1) and len(entries(compiled)) == 2


def test_an_equal_set_of_other_classes_is_another():
    def local():
        class Kind:
            pass

        return Kind

    def f(x, kinds, of):
        return x + 1 if of in kinds else x - 1

    compiled, x, first, second = tracer.compile(f, fullgraph=True), torch.ones(3), local(), local()
    assert torch.equal(compiled(x, {first, 1}, first), x + 1)
    assert torch.equal(compiled(x, {second, 1}, first), x - 1)
    assert torch.equal(compiled(x, {first, 1, 2}, first), x + 1)
    assert torch.equal(compiled(x, {first, True}, first), x + 1)


def test_a_set_of_classes_is_changed_and_walked_as_in_cpython():
    def f(x, kinds):
        kinds.add(float)
        kinds.discard(int)
        return x + len(kinds), sorted(kind.__name__ for kind in kinds), kinds | {bytes}, float in kinds

    check(f, torch.ones(3), {int, str})
    check(f, torch.ones(3), {int})


def test_members_with_an_equality_of_their_own_are_left_to_cpython():
    class Meta(type):
        def __eq__(cls, other):
            return True

        __hash__ = type.__hash__

    class Kind(metaclass=Meta):
        pass

    def f(x, kinds):
        return x + 1 if int in kinds else x - 1

    check(f, torch.ones(3), {Kind})
