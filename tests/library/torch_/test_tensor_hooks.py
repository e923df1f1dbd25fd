"""Hooks on tensors that the traced function makes: part of the graph, with eager's gradients; others break it."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import breaks, captured

X = torch.linspace(-1, 1, 6).reshape(2, 3)
SCALE = [2.0]


def leaf():
    return X.clone().requires_grad_()


def clamps(x, w):
    y = x @ w
    z = y.sin()
    y.register_hook(lambda g: g.clamp(-0.3, 0.3) * w.sum() + z)
    y.register_hook(lambda g: None)
    handle = z.register_hook(lambda g: g * 100)
    handle.remove()
    return z * y, y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_pass_through_hooks_after_the_region(backend):
    w = torch.linspace(-2, 1, 9).reshape(3, 3)
    seen = []
    for fn in (clamps, tracer.optimize(backend, fullgraph=True)(clamps)):
        leaves = leaf(), w.clone().requires_grad_()
        for _ in range(2):
            first, second = fn(*leaves)
            (first.sum() + second.cos().sum()).backward()
        seen.append([each.grad for each in leaves])
    for expected, gradient in zip(*seen):
        torch.testing.assert_close(gradient, expected)


def test_gradients_pass_through_hooks_in_the_region():
    def fn(x):
        y = x * 2
        view = y[0]
        view.register_hook(lambda g, by=3: g * by)
        y.register_hook(lambda g: torch.where(g > 0, g, g * 5))
        y.mul_(2)
        (y.cos().sum() + view.sum()).backward()
        made = torch.ones(3, requires_grad=True)
        made.register_hook(torch_only)
        return x.grad, torch.autograd.grad((made * x.detach()).sum(), made)

    captured(fn, leaf())


def torch_only(gradient):
    return torch.neg(gradient) + 1


def rebinds_afterwards(x):
    y, scale = x * 2, 2
    y.register_hook(lambda g: g * scale)
    scale = 3
    y.sum().backward()
    return x.grad


def rebinds_in_a_loop(x):
    outputs = []
    for scale in range(3):
        y = x * 2
        y.register_hook(lambda g: g * scale)
        outputs.append(y.sum())
    sum(outputs).backward()
    return x.grad


def rebinds_behind_a_break(x):
    y, scale = x * 2, 2
    y.register_hook(lambda g: g * scale)
    tracer.graph_break()
    scale = 3
    y.sum().backward()
    return x.grad


def keeps_what_it_sees(x):
    y, seen = x * 2, []
    y.register_hook(seen.append)
    y.register_hook(lambda g: seen.append(g + 1))
    y.sum().backward()
    return x.grad, seen


def on_a_parameter(x):
    handle = x.register_hook(lambda g: g * 2)
    (x * 3).sum().backward()
    handle.remove()
    return x.grad


def on_what_requires_none(x):
    try:
        x.detach().register_hook(lambda g: g)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize(
    "fn",
    [rebinds_afterwards, rebinds_in_a_loop, rebinds_behind_a_break, keeps_what_it_sees, on_a_parameter, on_what_requires_none],
)
def test_what_a_graph_could_not_tell_breaks_it(fn):
    breaks(fn, leaf())


def test_a_hook_reads_what_is_there_when_gradients_come():
    def fn(x):
        y = x * 2
        y.register_hook(lambda g: g * SCALE[0])
        return y

    traced = tracer.optimize("eager")(fn)
    for scale in (3.0, 4.0):
        x = leaf()
        y = traced(x)
        SCALE[0] = scale
        y.sum().backward()
        assert torch.equal(x.grad, torch.full_like(X, 2 * scale))


def test_a_handle_that_leaves_the_region_takes_the_hook_away():
    def fn(x):
        y = x * 2
        return y, y.register_hook(lambda g: g * 3)

    x = leaf()
    for _ in range(2):
        y, handle = tracer.optimize("eager")(fn)(x)
        y.sum().backward()
        assert torch.equal(x.grad, torch.full_like(X, 6.0))
        y, handle = tracer.optimize("eager")(fn)(x)
        handle.remove()
        y.sum().backward()
        assert torch.equal(x.grad, torch.full_like(X, 8.0))
        x.grad = None
