"""Hooks on tensors: part of the graph, or, on leaves, set behind it, with eager's gradients; others break it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tracer
from tests.support import breaks, captured, check

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


def on_a_made_parameter(x):
    p, seen = nn.Parameter(torch.ones(3)), []
    p.register_hook(lambda g: g * SCALE[0])
    p.register_hook(lambda g: seen.append(g.sum().item()))
    return x * p, p, seen


def on_a_made_leaf(x):
    p = torch.ones(3, requires_grad=True)
    p.register_hook(lambda g: g * 3)
    return x * p, p


def on_an_argument(x):
    x.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1)
    with torch.no_grad():
        x.add_(1)
    return x * x, x


def after_accumulation(x):
    p, seen = nn.Parameter(torch.ones(3)), {}
    x.register_post_accumulate_grad_hook(lambda each: seen.setdefault("x", []).append(each.grad.sum().item()))
    p.register_post_accumulate_grad_hook(lambda each: seen.setdefault("p", []).append(each.grad.sum().item()))
    return x * p, p, seen


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [on_a_made_parameter, on_a_made_leaf, on_an_argument, after_accumulation])
def test_hooks_on_leaves_are_set_behind_the_graph(fn, backend):
    outcomes = []
    for run in (fn, tracer.optimize(backend, fullgraph=True)(fn)):
        for _ in range(2):
            x = leaf()
            y, p, *seen = run(x)
            for _ in range(2):
                y.sum().backward(retain_graph=True)
            outcomes.append([y, x.grad, p.grad, seen])
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0])


def test_a_backward_pass_that_would_meet_a_hook_behind_the_graph_breaks_it():
    def by_backward(x):
        p = nn.Parameter(torch.ones(3))
        p.register_hook(lambda g: g * 2)
        (x * p).sum().backward()
        return p.grad

    def by_grad(x):
        x.register_hook(lambda g: g * 2)
        return torch.autograd.grad((x * 3).sum(), [x])

    def frozen(x):
        p = nn.Parameter(torch.ones(3))
        p.register_hook(lambda g: g * 2)
        return p.requires_grad_(False), x * p

    for fn in (by_backward, by_grad, frozen):
        breaks(fn, leaf())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_leaves_with_hooks_are_what_these_make_of_them(backend):
    traced = tracer.optimize(backend)(lambda x: torch.autograd.grad((x * 3).sum(), x)[0])
    x = leaf()
    assert torch.equal(traced(x), torch.full_like(X, 3))
    x.register_hook(lambda g: g * 2)
    assert torch.equal(traced(x), torch.full_like(X, 6))


def test_a_hook_on_what_was_computed_before_breaks_the_graph():
    def fn(x):
        def inner(y):
            y.register_hook(lambda g: g * 3)
            return y * 2

        y = x * 2
        tracer.graph_break()
        inner(y).sum().backward()
        return x.grad

    assert "autograd-in-trace" in check(fn, leaf()).break_ids
