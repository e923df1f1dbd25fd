"""Floats that vary and whose values kernels need: one graph for all of them, cut around the operation that takes one."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch._inductor.config as inductor
import torch.nn.functional as F

import tracer
from tracer.operators.facts import turns_of

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)]

OPERATIONS = {
    "dropout": lambda x, y, a: F.dropout(x, a),
    "a method that draws": lambda x, y, a: x * torch.empty_like(x).uniform_(0, a) + y,
    "huber_loss": lambda x, y, a: F.huber_loss(x, y, delta=a),
    "smooth_l1_loss": lambda x, y, a: F.smooth_l1_loss(x, y, beta=a),
    "label smoothing": lambda x, y, a: F.cross_entropy(x, torch.tensor([0, 2, 1]), label_smoothing=a),
    "layer_norm": lambda x, y, a: F.layer_norm(x, (4,), eps=a),
    "attention": lambda x, y, a: F.scaled_dot_product_attention(x[None], y[None], x[None], scale=a),
    "a margin": lambda x, y, a: F.triplet_margin_loss(x, y, x * y, margin=a),
    "the derivative of a power": lambda x, y, a: x.abs() ** a,
    "the derivative of an interpolation": lambda x, y, a: torch.lerp(x, y, a),
    "two of them": lambda x, y, a: F.dropout(F.layer_norm(x, (4,), eps=a), a) * F.huber_loss(x, y, delta=a * 2),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_one_graph_serves_all_values_forward_and_backward(name, backend):
    def program(x, y, a):
        return OPERATIONS[name](x * 2, y.sin(), a) * a + x.sum()

    def run(call, value):
        torch.manual_seed(0)
        x, y = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
        result = call(x, y, value)
        result.sum().backward()
        return result.detach(), x.grad, y.grad, torch.rand(1)

    compiled = tracer.compile(program, backend=backend)
    exact = {"rtol": 0, "atol": 0} if backend != "inductor" else {"rtol": 1e-4, "atol": 1e-5}
    with inductor.patch(fallback_random=True) if backend == "inductor" else contextlib.nullcontext():
        for value in (0.1, 0.2, 0.35, 0.5, 0.25):
            torch.testing.assert_close(run(compiled, value), run(program, value), **exact)
    assert tracer.stats(compiled)["compiles"] == 2  # the first value is a constant


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_norm_that_averages_is_compiled_once_for_all_counts(backend):
    def trained(decorate):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3, momentum=None), torch.nn.Tanh())
        compiled, compiles = decorate(model), []
        for _ in range(6):
            compiled(torch.randn(4, 3)).sum().backward()
            compiles.append(0 if compiled is model else tracer.stats(compiled)["compiles"])
        return [*(parameter.grad for parameter in model.parameters()), *model.buffers()], compiles

    expected, _ = trained(lambda model: model)
    seen, compiles = trained(lambda model: tracer.compile(model, backend=backend))
    torch.testing.assert_close(seen, expected)
    assert compiles[2] == compiles[5]  # the first count is a constant


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_dropout_of_nothing_is_its_argument_and_one_of_all_is_zero(backend):
    def program(x, p):
        return F.dropout(x, p)

    compiled, x = tracer.compile(program, backend=backend), torch.ones(4)
    for value in (0.5, 0.25, 0.0, 1.0, 0.75):
        torch.manual_seed(0)
        expected = program(x, value)
        torch.manual_seed(0)
        seen = compiled(x, value)
        assert torch.equal(seen, expected) and (seen.data_ptr() == x.data_ptr()) is (value == 0)
    with pytest.raises(ValueError, match="probability"):
        compiled(x, 1.5)


def test_a_step_in_one_graph_with_its_backward_pass_has_each_value_compiled():
    layer = torch.nn.Linear(3, 3)

    def step(x, p):
        layer.zero_grad()
        F.dropout(layer(x), p).sum().backward()
        return layer.weight.grad.clone()

    compiled, x = tracer.compile(step, backend="aot_eager", fullgraph=True), torch.randn(4, 3)
    for value in (0.1, 0.2, 0.3):
        torch.manual_seed(0)
        expected = step(x, value)
        torch.manual_seed(0)
        assert torch.equal(compiled(x, value), expected)


def test_which_floats_only_elements_depend_on():
    x = torch.randn(3, 3)
    assert turns_of(F.dropout, (x, 0.5), {}, 1) == turns_of(torch.dropout, (x, 0.5, True), {}, 1) == (0.0, 1.0)
    assert turns_of(x.uniform_, (0.0, 0.5), {}, 1) == turns_of(F.layer_norm, (x, (3,)), {"eps": 0.1}, "eps") == ()
    for function, args, place in ((torch.mul, (x, 0.5), 1), (F.interpolate, (x, 0.5), 1), (F.layer_norm, (x, (3,)), 0)):
        assert turns_of(function, args, {}, place) is None
