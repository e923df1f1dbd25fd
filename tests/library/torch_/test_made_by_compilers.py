"""Calls of functions that torch.jit compiled, and of graph modules of FX, are traced."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support import captured, check

X = torch.randn(4, 6)


@torch.jit.script
def _scripted(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x.relu() * times


def test_a_scripted_function_is_traced_through_as_it_was_written():
    captured(lambda x: _scripted(x) + _scripted(x, times=3), X)


def test_a_function_that_was_recorded_is_called_in_the_graph():
    recorded = torch.jit.trace(lambda x: x.sin() + 1, (X,))
    captured(lambda x: recorded(x) * 2, X)


def test_a_graph_module_is_traced_through():
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(6, 3), nn.ReLU()))
    captured(lambda x: module(x) + 1, X)


class _Stream(metaclass=torch.fx.ProxyableClassMeta):
    def __init__(self, value, scale=2):
        self.value = value
        self.scale = scale


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_class_that_fx_may_make_proxies_of_is_instantiated():
    def fn(x):
        stream = _Stream(x, scale=3)
        return stream.value * stream.scale, type(stream).__bases__

    captured(fn, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_is_traced_while_torch_records_a_program():
    def fn(x):
        return torch.jit.trace(nn.Linear(6, 2, bias=False).requires_grad_(False), (x,)).code.count("linear")

    check(lambda x: (x + 1, fn(x)), X)
