"""Recurrent layers under torch's compilers, which would write out each step: they run as written, between compiled pieces."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import tracer
from tests.support.regions import entries
from tracer.operators.facts import is_unrolled
from tracer.operators.table import ROWS

BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)]


class Tagger(torch.nn.Module):
    def __init__(self, layer, **options):
        super().__init__()
        torch.manual_seed(0)
        self.before, self.layer, self.head = (
            torch.nn.Linear(3, 4),
            layer(4, 5, batch_first=True, **options),
            torch.nn.Linear(5, 2),
        )

    def forward(self, x):
        out, last = self.layer(self.before(x).relu())
        last = last[0] if isinstance(last, tuple) else last
        return self.head(out) * 2 + last.mean()


def gradients_of(call, model, x):
    model.zero_grad()
    call(x).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_one_entry_serves_all_lengths_forward_and_backward(layer, backend):
    model = Tagger(layer)
    compiled = tracer.compile(model, backend=backend, dynamic=True, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch, length in ((6, 7), (8, 9), (7, 30)):
            x = torch.randn(batch, length, 3)
            torch.testing.assert_close(compiled(x), model(x))
            for seen, expected in zip(gradients_of(compiled, model, x), gradients_of(model, model, x), strict=True):
                torch.testing.assert_close(seen, expected)
    assert len(entries(compiled)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_lstm_whose_input_needs_no_gradient_is_trained(backend):
    model = torch.nn.LSTM(4, 5)
    compiled, x = tracer.compile(lambda x: model(x)[0], backend=backend), torch.randn(6, 3, 4)
    seen = gradients_of(compiled, model, x)
    for gradient, expected in zip(seen, gradients_of(lambda x: model(x)[0], model, x), strict=True):
        torch.testing.assert_close(gradient, expected)


def test_dropout_between_the_layers_draws_what_it_draws_in_eager():
    model, x = Tagger(torch.nn.GRU, num_layers=2, dropout=0.5), torch.randn(3, 5, 3)
    torch.manual_seed(1)
    expected, after = model(x), torch.rand(2)
    compiled = tracer.compile(model, backend="aot_eager")
    torch.manual_seed(1)
    assert torch.equal(compiled(x), expected) and torch.equal(torch.rand(2), after)


def test_a_packed_sequence_is_what_it_is_in_eager():
    layer = torch.nn.GRU(4, 5)

    def program(x):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x * 2, torch.tensor([5, 3, 2]))
        return layer(packed)[1] + 1

    x = torch.randn(5, 3, 4)
    torch.testing.assert_close(tracer.compile(program, backend="aot_eager")(x), program(x))


def test_a_graph_with_the_backward_pass_in_it_runs_as_it_is():
    model = Tagger(torch.nn.LSTM)

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    x = torch.randn(3, 5, 3)
    expected = step(x), *(parameter.grad.clone() for parameter in model.parameters())
    model.zero_grad()
    with pytest.warns(UserWarning, match="runs as it is"):
        seen = tracer.compile(step, backend="aot_eager", fullgraph=True)(x)
    for value, wanted in zip((seen, *(parameter.grad for parameter in model.parameters())), expected, strict=True):
        torch.testing.assert_close(value, wanted)


def test_another_compiler_is_given_the_layer():
    given = []
    tracer.compile(Tagger(torch.nn.LSTM), backend=lambda gm, inputs: given.append(gm) or gm.forward)(torch.randn(3, 5, 3))
    assert len(given) == 1 and torch.lstm in [node.target for node in given[0].graph.nodes]


def operations(function, args, length):
    return len(make_fx(function, tracing_mode="fake")(torch.randn(length, 3, 4).double(), *args).graph.nodes)


def test_compilers_write_out_each_step_of_what_the_table_says_they_unroll():
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
    assert gates.keys() == {name for name, row in ROWS.items() if row.unrolled}
    for name, count in gates.items():
        function, state = getattr(torch, name), torch.zeros(1, 3, 5).double()
        weights = [torch.randn(5 * count, 4).double(), torch.randn(5 * count, 5).double()]
        args = ((state, state) if name == "lstm" else state, weights, False, 1, 0.0, True, False, False)
        assert is_unrolled(function) and is_unrolled(getattr(torch.ops.aten, name).input)
        assert operations(function, args, 12) > operations(function, args, 6) + 12
