"""Checkpointed functions in traced code: one graph, and eager's gradients."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

import tracer
from tests.support import breaks, captured, check

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def inputs():
    torch.manual_seed(1)
    return X.clone().requires_grad_(), nn.Linear(3, 3)


def trained(fn, backend=None):
    x, layer = inputs()
    compiled = fn if backend is None else tracer.optimize(backend, fullgraph=True)(fn)
    torch.manual_seed(2)
    for _ in range(2):
        compiled(x, layer).sum().backward()
    return [x.grad, layer.weight.grad, layer.bias.grad]


def checkpointed_twice(x, layer):
    y, best, nothing = checkpoint(lambda t: (F.dropout(layer(t).relu()), t.argmax(), None), x, use_reentrant=True)
    assert nothing is None
    return checkpoint(layer, y, use_reentrant=True) * best


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_flow_through_checkpoints_of_the_reentrant_kind(backend):
    expected = trained(checkpointed_twice)
    for seen, gradient in zip(trained(checkpointed_twice, backend), expected, strict=True):
        torch.testing.assert_close(seen, gradient)


def test_a_backward_pass_through_the_reentrant_kind_is_captured():
    def fn(x, layer):
        y = checkpointed_twice(x, layer)
        y.sum().backward()
        return y.detach(), x.grad, layer.weight.grad

    captured(fn, *inputs())


@pytest.mark.parametrize("function", [lambda t: t, lambda t: (t * 2, t.detach() * 2), lambda t: t.view(6), lambda t: [t * 2]])
def test_what_the_reentrant_kind_would_give_another_way_breaks_the_graph(function):
    breaks(lambda x: checkpoint(function, x, use_reentrant=True), inputs()[0])


def test_the_reentrant_kind_cuts_off_what_its_inputs_do_not_require():
    seen = captured(lambda x, layer: checkpoint(layer, x, use_reentrant=True), X, inputs()[1])
    assert not seen.result.requires_grad
    breaks(lambda x: checkpoint(lambda t: t, x, use_reentrant=True), X)
    with torch.no_grad():
        captured(lambda x, layer: checkpoint(layer, x, use_reentrant=True), *inputs())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_checkpoint_of_no_chosen_kind_is_reentrant_and_warns(backend):
    def fn(x, layer):
        return checkpoint(lambda t: F.dropout(layer(t).relu()), x) * 2

    texts = []
    for function in (fn, tracer.compile(fn, backend=backend, fullgraph=True)):
        for x, layer in (inputs(), (X, inputs()[1])):
            torch.manual_seed(0)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                result = function(x, layer)
            texts.append((result, result.requires_grad, [str(each.message) for each in heard]))
    for (expected, *rest), (seen, *others) in zip(texts[:2], texts[2:], strict=True):
        assert torch.equal(expected, seen) and rest == others
    assert [len(said) for *_, said in texts] == [1, 2, 1, 2]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_wrapper_tensors_are_checkpointed(backend):
    def fn(x):
        return checkpoint(lambda t: t.clone() * 2, x), checkpoint(torch.sin, x, use_reentrant=True)

    x = TwoTensor(torch.ones(2, 2), torch.zeros(2, 2))
    for seen, expected in zip(tracer.compile(fn, backend=backend, fullgraph=True)(x), fn(x), strict=True):
        assert type(seen) is TwoTensor and torch.equal(seen.a, expected.a) and torch.equal(seen.b, expected.b)


@pytest.mark.parametrize("does_more", [False, True])
def test_a_compiled_function_is_checkpointed_by_its_caller(does_more):
    def f(x, seen):
        y = torch.sin(x) * 2
        if does_more:
            seen.append(1)
        return torch.cos(y)

    gradients = []
    for function in (f, tracer.compile(f), tracer.compile(f)):
        for _ in range(3):
            x = torch.arange(1.0, 5.0).requires_grad_()
            torch.utils.checkpoint.checkpoint(function, x, [], use_reentrant=False).sum().backward()
            gradients.append(x.grad)
    assert all(torch.equal(each, gradients[0]) for each in gradients)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpointed_function_changes_is_changed_twice(reentrant):
    def f(x):
        count, mean = torch.zeros(()), torch.zeros(4)
        count.add_(1)

        def block(t):
            count.add_(1)
            return torch.nn.functional.batch_norm(t, mean, torch.ones(4), training=True)

        y = torch.utils.checkpoint.checkpoint(block, torch.stack([x, x * 2]), use_reentrant=reentrant)
        (y * y).sum().backward()
        return x.grad, count, mean

    check(f, torch.arange(1.0, 5.0).requires_grad_())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_gradient_that_is_kept_is_that_of_the_tensor_after_it_was_written_to(backend):
    def written(b, part):
        (b[0] if part else b).mul_(3)
        return (b * b).sum()

    compiled = tracer.optimize(backend)(written)
    for keeps, part in ((False, False), (True, False), (False, True), (True, True)):
        gradients = []
        for run in (written, compiled):
            x = torch.arange(1.0, 5.0).reshape(2, 2).requires_grad_()
            b = x * 2
            if keeps:
                b.retain_grad()
            run(b, part).backward()
            gradients.append([x.grad, *([b.grad] if keeps else [])])
        torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)


class Halves(nn.Module):
    """Breaks the graph in the midst of it."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        y = self.one(x).relu()
        tracer.graph_break()
        return self.other(y.sin()).tanh() * y


@pytest.mark.parametrize("make", [lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()), Halves])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_what_is_checkpointed_behind_a_break_is_the_same_program_when_it_is_run_again(make, reentrant, inside):
    def trained(backend=None):
        torch.manual_seed(0)
        block, x = make(), torch.randn(4, 3, requires_grad=True)

        def step(x):
            loss = checkpoint(block, x, use_reentrant=reentrant).square().mean()
            if inside:
                loss.backward()
            return loss

        run = tracer.optimize(backend)(step) if backend else step
        for _ in range(2):
            loss = run(x)
            if not inside:
                loss.backward()
        return loss.detach(), x.grad, [p.grad for p in block.parameters()], list(block.buffers())

    for backend in ("eager", "aot_eager"):
        torch.testing.assert_close(trained(backend), trained())
