"""Functions whose result is assumed to be constant are called while tracing, with the values that the traced call has."""

from __future__ import annotations

import torch

import tracer
from tests.support import breaks, captured


@tracer.assume_constant_result
def nonzero_of(x):
    return torch.nonzero(x)


@tracer.assume_constant_result
def looked_up(table, key):
    return table[key]


def test_an_input_is_given_as_it_is():
    captured(lambda x: nonzero_of(x) + x.sum(), torch.tensor([0.0, 1.0]))


def test_what_the_graph_computes_is_computed():
    assert captured(lambda x: nonzero_of(x * 2 + x) + x.sum(), torch.tensor([0.0, 1.0])).operations[:2] == ["mul", "add"]


def test_containers_are_given_too():
    captured(lambda x: x + looked_up({"a": [1, 2]}, "a")[0], torch.ones(2))


def test_after_a_write_the_value_is_not_known():
    assert "not-a-constant" in breaks(lambda x: nonzero_of(x.add_(1)).shape[0] + x, torch.tensor([0.0, 1.0])).break_ids


def test_what_is_scripted_only_when_torchscript_traces_is_called_plainly():
    @torch.jit.script_if_tracing
    def scripted(x):
        return x + 1

    captured(lambda x: scripted(x) * 2, torch.ones(2))


def test_each_call_has_the_result_of_its_own_arguments():
    captured(lambda x, y: nonzero_of(x) + nonzero_of(y) * 10 + x.sum(), torch.ones(2), torch.tensor([1.0, 0.0]))
