"""Views of tensors with gaps, where a dim has size 1: their strides hold for every other size."""

from __future__ import annotations

import itertools

import torch

import tracer


def split_heads(x):
    return x[..., :-2, :].transpose(1, 2).reshape(x.shape[0], 4, x.shape[1], 8)


def test_a_view_of_its_own_shape_of_a_tensor_with_gaps_has_an_entry_for_size_one_and_no_more():
    compiled = tracer.compile(split_heads)
    found = tracer.precompile(compiled, "x: B, S, _, _; B in 1..6; S in 1..16", torch.ones(3, 5, 6, 8))
    assert found.certified and len(found.covering) <= 4


def test_its_strides_are_those_of_eager():
    def strides(x):
        return split_heads(x).stride()

    compiled = tracer.compile(strides, shapes="x: B, S, _, _; B in 1..6; S in 1..16", recompile_limit=64)
    for batch, length in itertools.product((1, 2, 6), (1, 2, 16)):
        x = torch.ones(batch, length, 6, 8)
        assert compiled(x) == strides(x)
