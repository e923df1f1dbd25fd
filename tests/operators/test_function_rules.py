"""The rule of a function gives fakes with the sizes, strides, dtype and autograd state of the real results."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.soundness.watching import Watched
from tests.support import captured, captured_made, check
from tracer import optimize
from tracer.operators.meta import fake_form


def described(results):
    return [
        (tuple(t.shape), t.stride(), t.dtype, t.requires_grad, t.grad_fn is None)
        for t in (results if isinstance(results, tuple) else (results,))
    ]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("cls", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers(cls, frozen):
    function = {torch.nn.LSTM: torch.lstm, torch.nn.GRU: torch.gru, torch.nn.RNN: torch.rnn_tanh}[cls]
    for layers, bias, both, first in itertools.product((1, 2), (True, False), (True, False), (True, False)):
        module = cls(8, 16, layers, bias=bias, bidirectional=both, batch_first=first).requires_grad_(not frozen)
        weights = [getattr(module, name) for name in module._flat_weights_names]
        x = torch.randn(3, 5, 8)
        state = torch.zeros(layers * (1 + both), 3 if first else 5, 16)
        states = (state, torch.zeros_like(state)) if cls is torch.nn.LSTM else state
        for data in (x, x.clone().requires_grad_()):
            args = (data, states, weights, bias, layers, 0.0, True, both, first)
            assert described(fake_form(function)(*args)) == described(function(*args))


@pytest.mark.parametrize("first", [True, False])
def test_a_projection_has_sizes_of_its_own(first):
    module = torch.nn.LSTM(8, 16, 2, proj_size=4, batch_first=first)
    captured(lambda x: module(x), torch.randn(3, 5, 8))


@pytest.mark.parametrize("options", [(3,), (3, 2), ([3], [2], [1]), (2, 1, 0, 2), (3, 2, 1, 1, True), (3, None, 1, 1, True)])
def test_max_pool1d(options):
    for x in (torch.randn(2, 4, 21), torch.randn(4, 21, requires_grad=True), torch.randn(4, 21, 2).mT):
        assert described(fake_form(F.max_pool1d)(x, *options)) == described(F.max_pool1d(x, *options))


@pytest.mark.parametrize("cls", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_a_recurrent_module_serves_all_lengths_with_one_graph(cls):
    module = cls(8, 16, 2, batch_first=True, bidirectional=True)
    watched = Watched(lambda x: module(x)[0].sum(-1), dynamic=True)
    for batch, length in ((3, 5), (4, 7), (9, 2), (6, 30)):
        watched(torch.randn(batch, length, 8, requires_grad=True))
    assert watched.traces == 1


@pytest.mark.parametrize("cls", [torch.nn.LSTM, torch.nn.GRU])
def test_dropout_between_layers_draws_as_eager_does(cls):
    module = cls(8, 16, 2, dropout=0.5)

    def program(x):
        out, last = module(x)
        return out + torch.rand_like(out), last

    check(program, torch.randn(5, 3, 8))


@pytest.mark.parametrize("cls", [torch.nn.LSTM, torch.nn.GRU])
def test_a_packed_sequence_is_what_it_was(cls):
    module = cls(8, 16)

    def program(x):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]))
        return module(packed)[1]

    check(program, torch.randn(5, 3, 8))


def test_wrong_sizes_raise_as_in_eager():
    module = torch.nn.GRU(8, 16)
    check(lambda x, h: module(x, h)[0], torch.randn(5, 3, 8), torch.randn(1, 4, 16))
    check(lambda x: F.max_pool1d(x, 30), torch.randn(3, 8))


def dropped(x, p, training):
    return F.dropout(x, p, training) is x, torch.dropout(x, p=p, train=training) is x, F.dropout(x, p, training).stride()


@pytest.mark.parametrize("x", [torch.ones(2, 3), torch.ones(0, 3), torch.ones(2, 0).t(), torch.ones(2, 0, requires_grad=True)])
@pytest.mark.parametrize("p, training", [(0.5, True), (0.5, False), (0.0, True), (0, True), (1, True)])
def test_a_dropout_that_drops_nothing_is_its_argument(x, p, training):
    captured(dropped, x, p, training)


def test_what_is_written_to_the_result_of_a_dropout_that_drops_nothing_is_written_to_its_argument():
    def program(x):
        y = F.dropout(x, 0.5, False)
        y.add_(1)
        return x * 2

    captured(program, torch.ones(2, 3))


@pytest.mark.parametrize("p", [-0.5, 2.0, float("nan")])
def test_a_dropout_whose_share_is_none_is_refused(p):
    assert check(lambda x: F.dropout(x, p, False), torch.ones(2)).error is not None


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_share_that_differs_from_call_to_call(backend, training):
    def program(x, p):
        y = F.dropout(x, p, training)
        y.add_(1)
        return y is x, x.clone()

    traced = optimize(backend)(program)
    for p in (0.5, 0.3, 0.0, 1.0, 0.7, 0.0):
        expected, seen = program(torch.ones(4), p), traced(torch.ones(4), p)
        assert seen[0] is expected[0] and torch.equal(seen[1], expected[1])
    with pytest.raises(ValueError, match="between 0 and 1"):
        traced(torch.ones(4), 2.0)


def test_a_native_dropout_that_drops_nothing_is_a_copy():
    captured(lambda x: torch.native_dropout(x, 0.5, False)[0] is x, torch.ones(3))


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_hot_is_contiguous_however_its_indices_lie(dynamic):
    captured_made(lambda x: F.one_hot(x, 2).stride(), lambda: ((torch.ones(3, 4, dtype=torch.int64).t(),), {}), dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.float32])
def test_one_hot_of_another_dtype_is_refused_with_a_compiler_too(dtype):
    compiled = optimize("aot_eager")(lambda x: F.one_hot(x, 2))
    with pytest.raises(RuntimeError, match="LongTensor"):
        compiled(torch.ones(3, dtype=dtype))


def selected_loss(x, mask):
    loss = (x * 2).masked_select(mask).sum() + torch.masked_select(x, mask[..., :1]).pow(2).sum()
    loss.backward()
    return loss.detach(), x.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_entry_serves_the_backward_of_a_selection_by_a_mask_for_all_sizes(backend):
    traced = optimize(backend, fullgraph=True)(selected_loss)
    for size in (4, 5, 6, 8):
        mask = torch.arange(3 * size).view(3, size) % 3 > 0
        x = torch.arange(3.0 * size).view(3, size)
        expected, seen = (run(x.clone().requires_grad_(), mask) for run in (selected_loss, traced))
        assert all(map(torch.equal, expected, seen))
    assert len(tracer.region_of(traced).entries()) <= 2


def test_a_selection_by_what_is_no_mask_is_refused():
    assert check(lambda x, m: x.masked_select(m), torch.ones(3), torch.ones(3)).error is not None
    check(lambda x, m: x.masked_select(m), torch.ones(2, 3), torch.ones(2, dtype=torch.bool))
    check(lambda x, m: x.masked_select(m), torch.ones(3), torch.ones(2, 3, dtype=torch.bool))
