"""Layers that torch.ao.quantization quantised dynamically: captured with their packed weights as inputs."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref

import pytest
import torch
from torch import nn

import tracer
from tests.support.comparing import Comparison

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.ao import quantization

pytestmark = pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:.*dispatch key.*autograd")
LAYERS = {nn.Linear, nn.LSTM, nn.GRU}


class Layers(nn.Module):
    """A linear layer with ReLU, a normalisation, and recurrent layers."""

    def __init__(self, batch_first: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.second = nn.Linear(16, 4, bias=False)
        self.lstm = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=batch_first, dropout=dropout)
        self.gru = nn.GRU(12, 5, batch_first=batch_first)

    def forward(self, x):
        y = self.second(self.norm(self.first(x).relu()))
        z, (hidden, cells) = self.lstm(y)
        out, last = self.gru(z)
        return out.transpose(0, 1) + 1, hidden, cells, last


def quantised(model, dtype=torch.qint8):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quantization.quantize_dynamic(model.eval(), LAYERS, dtype=dtype)


def linear(columns=8, rows=4, dtype=torch.qint8):
    return quantised(nn.Sequential(nn.Linear(columns, rows)), dtype)


def compare(compiled, model, *args):
    with torch.no_grad():
        for seen, expected in zip(compiled(*args), model(*args), strict=True):
            Comparison().same(expected, seen, "result")
            assert seen.stride() == expected.stride()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_are_one_graph_for_all_batches(batch_first, dtype, backend):
    torch.manual_seed(0)
    model = quantised(Layers(batch_first), dtype)
    compiled = tracer.compile(model, backend=backend, dynamic=True, fullgraph=True)
    for batch, steps in ((3, 5), (2, 9), (7, 4)):
        compare(compiled, model, torch.randn(batch, steps, 8))
    assert len(tracer.region_of(compiled).entries()) == 1


def test_fused_relu_is_captured():
    torch.manual_seed(0)
    weights = linear()[0]._packed_params._packed_params

    def fn(x):
        return (torch.ops.quantized.linear_relu_dynamic.default(x, weights, True) + 1,)

    compare(tracer.compile(fn, fullgraph=True), fn, torch.randn(2, 3, 8).transpose(0, 1))


def test_other_weights_in_the_place_of_the_first_are_noticed():
    torch.manual_seed(0)
    model, other = linear(), linear(rows=6)
    compiled = tracer.compile(model, fullgraph=True)
    x = torch.randn(3, 8)
    compare(compiled, model, x)
    model[0]._packed_params._packed_params = other[0]._packed_params._packed_params
    compare(compiled, model, x)


def test_equal_layers_read_their_own_weights():
    torch.manual_seed(0)
    model = quantised(nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(6))))
    compare(tracer.compile(model, dynamic=True, fullgraph=True), model, torch.randn(3, 8))


def test_packed_weights_live_as_long_as_their_model():
    model = linear()
    weights = weakref.ref(model[0]._packed_params._packed_params)
    compiled = tracer.compile(model)
    compiled(torch.randn(2, 8))
    assert weights() is not None
    del compiled, model
    gc.collect()
    assert weights() is None


@pytest.mark.parametrize("data", [torch.zeros(3, 7), torch.zeros(8), torch.zeros(3, 8).double()], ids=["columns", "1-d", "dtype"])
def test_what_the_operator_refuses_raises_its_error(data):
    model = linear()
    with pytest.raises(RuntimeError) as expected:
        model(data)
    with pytest.raises(RuntimeError) as seen:
        tracer.compile(model)(data)
    assert str(seen.value) == str(expected.value)


def test_an_input_that_requires_a_gradient_is_left_to_autograd():
    model, x = linear(), torch.randn(3, 8, requires_grad=True)
    assert tracer.compile(model)(x).requires_grad is model(x).requires_grad is True


def test_a_packed_sequence_is_left_to_torch():
    torch.manual_seed(0)
    model = quantised(nn.Sequential(nn.LSTM(4, 6)))

    def fn(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [3, 2])
        return nn.utils.rnn.pad_packed_sequence(model(packed)[0])

    compare(tracer.compile(fn), fn, torch.randn(3, 2, 4))


def test_a_copied_model_is_another_one():
    torch.manual_seed(0)
    model = linear()
    compiled = tracer.compile(lambda m, x: (m(x),), fullgraph=True)
    x = torch.randn(3, 8)
    for each in (model, copy.deepcopy(model)):
        compare(compiled, lambda m, x: (m(x),), each, x)


def test_packed_weights_of_another_kind_are_left_to_torch():
    torch.manual_seed(0)
    kernel = torch.quantize_per_tensor(torch.randn(4, 3, 2, 2), 0.1, 0, torch.qint8)
    weights = torch.ops.quantized.conv2d_prepack(kernel, None, [1, 1], [0, 0], [1, 1], 1)

    def fn(x):
        return (torch.ops.quantized.conv2d_dynamic(x * 2, weights) + 1,)

    compare(tracer.compile(fn), fn, torch.randn(2, 3, 8, 8))
