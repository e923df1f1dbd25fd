"""Marks on tensors and functions: a mark is checked completely before any of it is stored."""

from __future__ import annotations

import gc

import pytest
import torch

import tracer
from tracer import user_marks
from tracer.exc import UserError
from tracer.user_marks import DimMark, dim_marks


def test_dims_are_normalised_and_kept_with_their_bounds():
    t = torch.ones(2, 3, 4)
    tracer.mark_dynamic(t, -1, min=2, max=8)
    tracer.mark_dynamic(t, (0,))
    assert dim_marks(t) == {2: DimMark("dynamic", 2, 8), 0: DimMark("dynamic")}


def test_the_later_mark_wins_dim_by_dim():
    t = torch.ones(2, 3)
    tracer.mark_dynamic(t, [0, 1])
    tracer.mark_static(t, 1)
    assert dim_marks(t) == {0: DimMark("dynamic"), 1: DimMark("static")}
    tracer.mark_static(t)
    assert set(dim_marks(t).values()) == {DimMark("static")}


def test_each_kind_of_mark_is_told_apart():
    t = torch.ones(2, 3)
    tracer.maybe_mark_dynamic(t, 0)
    tracer.mark_unbacked(t, 1, max=5)
    assert dim_marks(t) == {0: DimMark("maybe_dynamic"), 1: DimMark("unbacked", None, 5)}
    tracer.mark_static_address(t)


@pytest.mark.parametrize(
    ("dims", "bounds", "error", "words"),
    [
        (2, {}, IndexError, r"dim 2 is out of range for a tensor of shape \(2, 3\); valid dims: from -2 to 1"),
        ([0, -3], {}, IndexError, "dim -3"),
        (True, {}, TypeError, "a dim is an int, not True"),
        ("0", {}, TypeError, "a dim is an int, not '0'"),
        (0, {"min": 5, "max": 2}, ValueError, "no size is left"),
        (0, {"min": -1}, ValueError, "negative"),
        (0, {"max": 2.5}, TypeError, "not a size"),
    ],
)
def test_a_refused_mark_changes_nothing(dims, bounds, error, words):
    t = torch.ones(2, 3)
    tracer.mark_dynamic(t, 1)
    with pytest.raises(error, match=words):
        tracer.mark_dynamic(t, dims, **bounds)
    assert dim_marks(t) == {1: DimMark("dynamic")}


def test_a_scalar_has_no_dim_to_mark():
    with pytest.raises(IndexError, match="none \\(it is a scalar\\)"):
        tracer.mark_dynamic(torch.tensor(1.0), 0)


def test_only_tensors_are_marked():
    with pytest.raises(TypeError, match="expects a tensor, not list"):
        tracer.mark_dynamic([1, 2], 0)
    assert tracer.mark_static(torch.nn.ReLU) is torch.nn.ReLU


def test_functions_are_marked_by_identity():
    def fn(x):
        return x

    assert tracer.allow_in_graph(fn) is fn
    assert user_marks.graph_policy.get(fn) == "allow"
    tracer.disallow_in_graph([fn, torch.sub])
    assert user_marks.graph_policy.get(torch.sub) == "disallow" and user_marks.graph_policy.get(torch.add) is None
    user_marks.graph_policy.discard(torch.sub)
    tracer.assume_constant_result(fn)
    assert fn in user_marks.constant_result


def test_marks_do_not_keep_functions_alive():
    gc.collect()
    before = len(user_marks.graph_policy)
    tracer.forbid_in_graph(lambda x: x)
    gc.collect()
    assert len(user_marks.graph_policy) == before


def test_a_refused_list_marks_none_of_its_functions():
    def fn(x):
        return x

    with pytest.raises(UserError, match="got 3"):
        tracer.allow_in_graph([fn, 3])
    assert fn not in user_marks.graph_policy


def test_methods_without_weak_references_can_be_marked():
    tracer.disallow_in_graph(torch.Tensor.add)
    assert user_marks.graph_policy.get(torch.Tensor.add) == "disallow"
    user_marks.graph_policy.discard(torch.Tensor.add)


def test_a_mark_counts_that_was_set_before_the_call_of_another_tensor_was_traced():
    rows, columns = torch.ones(3, 4), torch.ones(3, 4)
    tracer.mark_dynamic(rows, 0)
    tracer.mark_dynamic(columns, 1)
    compiled = tracer.optimize("eager")(lambda x: x.sum())
    compiled(rows)
    compiled(columns)
    assert len(tracer.region_of(compiled).entries()) == 2
    for x in (rows, columns, torch.ones(5, 4), torch.ones(3, 7)):
        compiled(x)
    assert len(tracer.region_of(compiled).entries()) == 2


def test_marks_that_were_taken_back_make_no_entry_look_for_marks():
    x = torch.ones(3)
    with user_marks.temporarily_marked(x, {0: DimMark("dynamic")}):
        assert any(each is x for each in user_marks.marked.objects())
    assert not any(each is x for each in user_marks.marked.objects())
