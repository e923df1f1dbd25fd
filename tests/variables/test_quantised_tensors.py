"""Quantised tensors: made, passed on and turned into numbers in one graph, and cut out of graphs for compilers."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import breaks, captured
from tests.support.comparing import Comparison

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel")
X = torch.linspace(-1, 1, 6).reshape(2, 3)


def per_tensor(x):
    made = torch.quantize_per_tensor(x.sin() * 3, 0.1, 10, torch.quint8)
    asked = (
        made.q_scale(),
        made.q_zero_point(),
        made.qscheme(),
        made.dtype,
        made.is_quantized,
        made.shape,
        made.dim(),
        made.size(0),
    )
    return made, (made.dequantize() * 2).cos(), made.int_repr().long() + 1, asked, torch.int_repr(made), torch.dequantize(made)


def per_channel(x):
    made = torch.quantize_per_channel(x, torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8)
    return made.clone().dequantize() + 1, made.detach(), isinstance(made, torch.Tensor)


def by_their_range(x):
    return torch.quantize_per_tensor_dynamic(x, torch.quint8, False).relu().dequantize() + x


def by_tensors(x):
    return torch.quantize_per_tensor(x, torch.tensor(0.05), torch.tensor(3), torch.qint32).int_repr() * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [per_tensor, per_channel, by_their_range, by_tensors], ids=lambda fn: fn.__name__)
def test_tensors_are_quantised_in_the_graph(fn, backend):
    compiled = tracer.compile(fn, backend=backend, fullgraph=True)
    for x in (X, X * 2):
        Comparison().same(fn(x), compiled(x), "result")
    assert len(tracer.region_of(compiled).entries()) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_quantised_argument_is_read_at_each_call(backend):
    def fn(given, x):
        return given.dequantize() @ x.t(), given.int_repr().sum(), given, given.numel()

    compiled = tracer.compile(fn, backend=backend)
    for scale in (0.1, 0.3):
        given = torch.quantize_per_tensor(X, scale, 5, torch.quint8)
        result = compiled(given, X)
        Comparison().same(fn(given, X), result, "result")
        assert result[2] is given
    assert len(tracer.region_of(compiled).entries()) == 1
    for given in (
        torch.quantize_per_tensor(X, 0.1, 5, torch.qint8),
        torch.quantize_per_tensor(X[:1].clone(), 0.1, 5, torch.quint8),
    ):
        Comparison().same(fn(given, X), compiled(given, X), "result")


def test_a_write_behind_it_does_not_change_a_quantised_tensor():
    def fn(x):
        made = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        x.add_(1)
        return made.dequantize(), x + 1

    captured(fn, X)


def test_a_zero_point_that_does_not_fit_is_refused_by_torch():
    def fn(x):
        try:
            return torch.quantize_per_tensor(x, 0.1, 1000, torch.quint8).dequantize()
        except RuntimeError as error:
            return x + 1, "zero_point" in str(error)

    tracer.compile(fn)(X)
    Comparison().same(fn(X), tracer.compile(fn)(X), "result")


def test_what_no_graph_knows_of_a_quantised_tensor_breaks_it():
    def transposed(x):
        return torch.quantize_per_tensor(x.t(), 0.1, 0, torch.qint8).dequantize()

    def compared(x):
        made = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        return (made == made).sum() + x, made[0].dequantize()

    breaks(transposed, X)
    breaks(compared, X)
    breaks(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(), X.clone().requires_grad_())
