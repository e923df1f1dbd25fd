"""Marks on dims: they count also where entries exist already, bounds are kept, contradictions are explained."""

from __future__ import annotations

import copy

import pytest
import torch

import shapes
import tracer
from tests.soundness.watching import Watched, traced
from tracer.exc import ConstraintViolationError, UserError


def marked(*sizes, dim=0, **bounds):
    t = torch.randn(*sizes)
    tracer.mark_dynamic(t, dim, **bounds)
    return t


def symbolic(watched, index=-1):
    return [n.name for n in watched.graphs[index].graph.nodes if n.op == "placeholder" and n.name.startswith("s")]


def test_a_mark_after_a_static_entry_exists_recompiles():
    t = torch.randn(4, 3)
    watched = traced(lambda x: x * 2, (t,))
    assert not symbolic(watched)
    tracer.mark_dynamic(t, 0)
    watched(t)
    assert watched.traces == 2 and symbolic(watched) == ["s0"]
    assert "marks of L['x'] changed" in watched.reasons[-1]
    for size in (4, 5, 100):
        watched(torch.randn(size, 3))
        watched(marked(size, 3))
    assert watched.traces == 2


def test_a_new_kind_of_mark_recompiles_and_the_same_one_does_not():
    t = marked(4, 3)
    watched = traced(lambda x: x * 2, (t,))
    tracer.mark_dynamic(t, 0)
    watched(t)
    assert watched.traces == 1
    tracer.mark_dynamic(t, 1)
    watched(t)
    assert watched.traces == 2 and len(symbolic(watched)) == 2
    tracer.mark_dynamic(t, 0, max=10)
    watched(t)
    assert watched.traces == 3


def test_a_mark_on_another_tensor_is_no_reason():
    t = torch.randn(4, 3)
    watched = traced(lambda x: x * 2, (t,))
    marked(7, 7)
    watched(t)
    assert watched.traces == 1


def test_a_mark_on_a_module_parameter_or_buffer():
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randn(5))

        def forward(self, x):
            return self.table * x

    module = Holder()
    watched = traced(lambda x: module(x), (torch.tensor(2.0),))
    tracer.mark_dynamic(module.table, 0)
    watched(torch.tensor(2.0))
    assert symbolic(watched) == ["s0"]
    module.table = torch.randn(9)
    watched(torch.tensor(2.0))
    assert watched.traces == 2


def test_marks_travel_with_copies():
    watched = Watched(lambda x: x * 2)
    watched(copy.deepcopy(marked(4, 3)))
    assert symbolic(watched) == ["s0"]


def test_bounds_become_guards_of_the_entry():
    watched = Watched(lambda x: x * 2)
    watched(marked(8, 3, min=4, max=16))
    for size in (4, 16, 10):
        watched(torch.randn(size, 3))
    assert watched.traces == 1
    for size in (3, 17, 2):
        watched(torch.randn(size, 3))
    assert watched.traces > 1
    text = watched.entries[-1].guarded_code.guards_text
    assert any("<= L['x'].size()[0]" in e.guarded_code.guards_text for e in watched.entries), text


def test_bounds_decide_branches():
    watched = Watched(lambda x: x * 2 if x.shape[0] <= 16 else x * 3)
    watched(marked(8, 3, max=16))
    for size in (3, 16, 5):
        watched(torch.randn(size, 3))
    assert watched.traces == 1
    watched(torch.randn(17, 3))
    assert watched.traces == 2


@pytest.mark.parametrize(("size", "bounds"), [(3, {"min": 4}), (1, {"min": 2}), (0, {"min": 1}), (20, {"max": 16})])
def test_a_size_outside_of_its_bounds_is_an_error_before_tracing(size, bounds):
    calls = []

    def fn(x):
        calls.append(1)
        return x * 2

    watched = Watched(fn)
    with pytest.raises(ConstraintViolationError, match=rf"L\['x'\].size\(\)\[0\] is {size}, but it was marked with"):
        watched.compiled(marked(size, 3, **bounds))
    assert not watched.graphs and not calls and not watched.entries
    assert torch.equal(watched.compiled(torch.ones(8, 3)), torch.full((8, 3), 2.0))


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_0_and_1_take_their_own_static_entry_without_error(size):
    watched = Watched(lambda x: x * 2)
    watched(marked(5, 3))
    watched(marked(size, 3))
    assert watched.traces == 2 and not symbolic(watched)
    watched(marked(9, 3))
    watched(torch.randn(size, 3))
    assert watched.traces == 2


def test_min_1_allows_a_batch_of_one():
    watched = Watched(lambda x: x * 2)
    watched(marked(5, 3, min=1))
    watched(marked(1, 3, min=1))
    watched(marked(7, 3, min=1))
    assert watched.traces == 2


def fixes_the_size(x):
    if x.shape[0] == 5:
        return x * 2
    return x * 3


def three_lines(x, y):
    a, b = x.shape[0], y.shape[0]
    if a <= b:
        x = x * 2
    if a >= b:
        y = y * 2
    if a + b == 10:
        return x + y
    return x - y


def line(fn, offset):
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno + offset} in {fn.__name__}"


def test_a_contradicted_mark_names_the_line():
    watched = Watched(fixes_the_size)
    with pytest.raises(ConstraintViolationError) as raised:
        watched.compiled(marked(5, 3))
    text = str(raised.value)
    assert "L['x'].size()[0] was marked dynamic" in text and "L['x'].size()[0] == 5" in text
    assert line(fixes_the_size, 1) in text and "maybe_mark_dynamic" in text
    assert isinstance(raised.value, UserError) and isinstance(raised.value, shapes.ConstraintViolationError)
    assert [str(cause.where) for cause in raised.value.causes] == [line(fixes_the_size, 1)]
    assert not watched.graphs
    watched(marked(6, 3))
    watched(marked(7, 3))
    assert watched.traces == 1


def test_a_contradiction_that_takes_three_lines_names_all_three():
    watched = Watched(three_lines)
    with pytest.raises(ConstraintViolationError) as raised:
        watched.compiled(marked(5, 3), marked(5, 3))
    text = str(raised.value)
    assert "== 5" in text
    for offset in (2, 4, 6):
        assert line(three_lines, offset) in text


def test_a_contradiction_leaves_nothing_half_changed():
    t = marked(5, 3)
    compiled = Watched(fixes_the_size).compiled
    for _ in range(2):
        with pytest.raises(ConstraintViolationError):
            compiled(t)
    assert torch.equal(compiled(torch.ones(5, 3)), torch.full((5, 3), 2.0))
    assert torch.equal(compiled(torch.ones(6, 3)), torch.full((6, 3), 3.0))


def test_it_is_an_error_with_suppressed_errors_too():
    with tracer.config.patch(suppress_errors=True), pytest.raises(ConstraintViolationError):
        Watched(fixes_the_size).compiled(marked(5, 3))


def test_a_broadcast_with_a_constant_contradicts_a_mark():
    with pytest.raises(ConstraintViolationError, match="== 4"):
        Watched(lambda x, y: x + y).compiled(marked(4, 3), torch.randn(4, 3))


def test_maybe_mark_dynamic_gives_in():
    t = torch.randn(5, 3)
    tracer.maybe_mark_dynamic(t, 0)
    watched = Watched(fixes_the_size)
    watched(t)
    watched(torch.randn(6, 3))
    watched(torch.randn(7, 3))
    assert watched.traces == 2


def test_mark_static_under_dynamic_true():
    t = torch.randn(5, 3)
    tracer.mark_static(t, 0)
    watched = Watched(lambda x: x * x.shape[0], dynamic=True)
    watched(t)
    other = torch.randn(6, 3)
    tracer.mark_static(other, 0)
    watched(other)
    assert watched.traces == 2


def test_mark_unbacked_serves_0_and_1_and_refuses_to_branch():
    t = torch.randn(5, 3)
    tracer.mark_unbacked(t, 0)
    watched = Watched(lambda x: x * 2)
    watched(t)
    for size in (0, 1, 7):
        other = torch.randn(size, 3)
        tracer.mark_unbacked(other, 0)
        watched(other)
    assert watched.traces == 1
    watched = Watched(fixes_the_size)
    watched(t)  # the branch breaks the graph, and CPython decides it


def unbacked(size, **bounds):
    t = torch.randn(size, 3)
    tracer.mark_unbacked(t, 0, **bounds)
    return t


def test_bounds_of_an_unbacked_size_decide_branches_and_are_guards():
    watched = Watched(lambda x: x * 2 if x.shape[0] <= 8 else x * 3)
    for size in (2, 5, 8):
        watched(unbacked(size, min=1, max=8))
    assert watched.traces == 1
    assert "1 <= L['x'].size()[0] <= 8" in watched.entries[0].guarded_code.guards_text
    watched(torch.randn(9, 3))
    assert watched.traces == 2
    with pytest.raises(ConstraintViolationError, match="is 9, but it was marked with min=1, max=8"):
        Watched(lambda x: x + 1).compiled(unbacked(9, min=1, max=8))


def test_marks_below_containers_and_after_breaks():
    def fn(items):
        x = items["a"][0] * 2
        print(end="")
        return x + 1

    watched = Watched(fn)
    watched({"a": [marked(4, 3)]})
    graphs = watched.traces
    watched({"a": [marked(7, 3)]})
    assert symbolic(watched, 0) == ["s0"]
    assert watched.traces <= graphs + 1  # the rest learns that the size of what it is given varies
    watched({"a": [marked(9, 3)]})
    assert watched.traces <= graphs + 1
