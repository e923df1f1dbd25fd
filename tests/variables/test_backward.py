"""Backward passes inside a traced function: one graph, and the gradients are eager's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tracer
from tests.support import breaks, captured, captured_made, check, check_made
from tests.support.graphs import Graphs
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def leaf(*shape):
    count = torch.Size(shape).numel()
    return torch.linspace(0.5, 1.5, count).reshape(shape).requires_grad_()


def test_grad_is_captured():
    def program(x, w):
        y = (x @ w).sin()
        (first,) = torch.autograd.grad(y.sum(), w)
        return first, torch.autograd.grad([y.sum(), w.sum()], (w,), [torch.tensor(2.0), None]) if y.dim() > 2 else first * 2

    assert "grad" in captured(program, X, leaf(3, 2)).operations


def test_grad_of_grad():
    def program(w):
        (first,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
        return torch.autograd.grad(first.sum(), w)[0], torch.autograd.grad((w * 2).sum(), [w, leaf(2)], allow_unused=True)

    check(program, leaf(3))


def test_grad_with_respect_to_what_the_region_made():
    def program(x):
        middle = (x * 2).requires_grad_()
        return torch.autograd.grad((middle * middle).sum(), middle)[0]

    captured(program, X)


def test_backward_stores_gradients():
    def program(x, w, b):
        loss = ((x @ w).relu() + b).sum()
        loss.backward()
        return loss.detach(), w.grad * 2

    captured(program, X, leaf(3, 2), leaf(2))


def test_backward_adds_to_gradients_in_place():
    def program(w, kept):
        (w * w).sum().backward()
        (w * 3).sum().backward()
        return w.grad is kept, w.grad.sum()

    def make():
        w = leaf(3)
        w.grad = torch.ones(3)
        return (w, w.grad), {}

    checked = check_made(program, make)
    assert checked.result[0] and not checked.breaks and len(checked.graphs) == 1


def test_gradients_share_no_memory():
    def program(a, b):
        (a + b).sum().backward()
        a.grad.add_(1)
        return b.grad

    captured(program, leaf(3), leaf(3))


def test_backward_of_several_and_with_given_gradients():
    def program(a, b, gradient):
        torch.autograd.backward((a * 2, (b * 3).sum()), (gradient, None))
        (a * b).backward(gradient, inputs=[a])
        return a.grad

    captured(program, leaf(3), leaf(3), torch.ones(3))


def test_a_graph_that_is_kept_is_walked_twice():
    def program(w):
        y = (w * w).sum()
        y.backward(retain_graph=True)
        y.backward()
        return w.grad

    captured(program, leaf(3))


def test_a_graph_that_is_gone_is_eagers_error():
    def program(w):
        y = (w * w).sum()
        y.backward()
        y.backward()

    assert isinstance(check(program, leaf(3)).error, RuntimeError)


def _steps(decorate):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    traced = decorate(step)
    torch.manual_seed(1)
    losses = [traced(X, torch.tensor([0, 1, 1, 0])) for _ in range(5)]
    return [*losses, *model.parameters(), *(parameter.grad for parameter in model.parameters())]


def test_a_training_step_is_one_graph():
    graphs, found = Graphs(), []

    def decorate(step):
        return compiled(step, Settings(backend=graphs.backend, name="check", hooks={"on_break": found.append}))

    assert all(map(torch.equal, _steps(lambda step: step), _steps(decorate)))
    assert not found
    assert len(graphs) == 2  # the first makes gradients and state


def test_a_training_step_under_another_backend():
    for expected, seen in zip(_steps(lambda step: step), _steps(tracer.optimize("aot_eager"))):
        torch.testing.assert_close(seen, expected)


def test_a_loss_that_is_returned_after_its_backward_under_another_backend():
    def program(w, x):
        loss = (w * x).sum()
        loss.backward()
        return loss

    leaves = leaf(3), leaf(3)
    for run, w in zip((program, tracer.optimize("aot_eager")(program)), leaves):
        run(w, torch.arange(3.0))
    assert torch.equal(leaves[0].grad, leaves[1].grad)


class Hooked(nn.Module):
    def __init__(self, hook):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        hook(self.weight)

    def forward(self, x):
        (x * self.weight).sum().backward()
        return self.weight.grad


def penalised(model, x):
    """A penalty on gradients, which are differentiated once more."""
    model(x).sum().backward(create_graph=True)
    penalty = sum(parameter.grad.pow(2).sum() for parameter in model.parameters())
    penalty.backward()
    return penalty.detach()


def adapted(model, x):
    """The loss of parameters that a step of descent gave, with gradients for those before it."""
    model(x).pow(2).mean().backward(create_graph=True)
    fast = {name: parameter - 0.1 * parameter.grad for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = None
    loss = torch.func.functional_call(model, fast, (x,)).pow(2).mean()
    loss.backward()
    return loss.detach()


def accumulated(model, x):
    for _ in range(2):
        model(x).pow(3).sum().backward(create_graph=True)
    kept = model[0].weight.grad
    (kept * kept).sum().backward()
    return kept is model[0].weight.grad


def returned_gradients(model, x):
    model(x).pow(3).sum().backward(create_graph=True)
    return [parameter.grad.sin() for parameter in model.parameters()]


def in_no_grad_mode(model, x):
    loss = model(x).pow(3).sum()
    with torch.no_grad():
        loss.backward(create_graph=True)
    return model[0].weight.grad * 2


def small_model():
    torch.manual_seed(0)
    return (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), X.clone()), {}


DIFFERENTIATED = [penalised, adapted, accumulated, returned_gradients, in_no_grad_mode]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("program", DIFFERENTIATED, ids=lambda program: program.__name__)
def test_gradients_that_are_differentiated(program):
    captured_made(program, small_model)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("program", DIFFERENTIATED, ids=lambda program: program.__name__)
def test_gradients_that_are_differentiated_under_another_backend(program):
    (expected, x), _ = small_model()
    (seen, _), _ = small_model()
    results = program(expected, x), tracer.optimize("aot_eager")(program)(seen, x)
    if program is returned_gradients:
        for result in results:
            sum(each.sum() for each in result).backward()
    torch.testing.assert_close(results[1], results[0])
    for one, other in zip(expected.parameters(), seen.parameters()):
        torch.testing.assert_close(other.grad, one.grad)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("given", [None, "plain", "leaf", "computed"])
@pytest.mark.parametrize("differentiable", [False, True])
def test_gradients_that_were_there_before(given, differentiable):
    def program(w):
        (w**3).sum().backward(create_graph=differentiable)
        return w.grad * 2, w.grad.requires_grad

    def make():
        w = leaf(3)
        if given is not None:
            w.grad = torch.ones(3, requires_grad=given != "plain")
            w.grad = w.grad * 2 if given == "computed" else w.grad
        return (w,), {}

    checked = check_made(program, make)
    assert bool(checked.breaks) is (given in ("leaf", "computed"))


SEEN: list[torch.Tensor] = []
BREAKING = {
    "an input that was computed before": (lambda w: (w * 2).sum().backward(), lambda: leaf(3) * 2),
    "a hook on a tensor": (lambda w: (w * 2).register_hook(SEEN.append), lambda: leaf(3)),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_is_left_to_torch(name):
    program, make = BREAKING[name]

    def run(w):
        program(w)
        return w + 1

    checked = check_made(run, lambda: ((make(),), {}))
    assert checked.break_ids[0] == "autograd-in-trace"
    SEEN.clear()


@pytest.mark.parametrize(
    "hook",
    [lambda p: p.register_hook(lambda g: g * 2), lambda p: p.register_post_accumulate_grad_hook(SEEN.append)],
    ids=["hook", "post-accumulate hook"],
)
def test_hooks_on_leaves_are_left_to_torch(hook):
    torch.manual_seed(0)
    expected, module = Hooked(hook), Hooked(hook)
    assert torch.equal(tracer.optimize("eager")(module)(torch.ones(3)), expected(torch.ones(3)))


def test_a_hook_that_comes_later_is_seen():
    weight = leaf(3)

    def program(x):
        weight.grad = None
        (x * weight).sum().backward()
        return weight.grad

    traced = tracer.optimize("eager")(program)
    assert torch.equal(traced(torch.ones(3)), torch.ones(3))
    weight.register_hook(lambda gradient: gradient * 5)
    assert torch.equal(traced(torch.ones(3)), torch.full((3,), 5.0))


def test_backward_under_no_grad_breaks_as_eager_raises():
    def program(w):
        with torch.no_grad():
            (w * 2).sum().backward()

    assert isinstance(breaks(program, leaf(3)).error, RuntimeError)


def kept(w):
    y = w * 2
    y.retain_grad()
    before = y.grad
    (y * y).sum().backward()
    return before, y.grad, w.grad, y.retains_grad, y.is_leaf, w.retains_grad


def kept_twice(w):
    y = w * 2
    y.retain_grad()
    y.retain_grad()
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    first = y.grad
    loss.backward(retain_graph=True)
    second, y.grad = y.grad, None
    loss.backward(retain_graph=True)
    y.grad.zero_()
    loss.backward()
    return first, second, y.grad, first is second


def kept_in_place(w):
    y = w * 2
    part, other = y[:1], w * 3
    y.retain_grad(), part.retain_grad(), other.retain_grad()
    y.mul_(3)
    (y.sin() + other.mul_(2)).sum().backward()
    return y.grad, part.grad, other.grad, w.grad


def kept_on_the_way(w):
    y, u = w * 2, w.detach().requires_grad_()
    y.retain_grad()
    loss = (y * u).sum()
    loss.backward(inputs=[u], retain_graph=True)
    first = y.grad, u.grad, torch.autograd.grad(loss, u, retain_graph=True)
    loss.backward(inputs=[w])
    return first, y.grad, w.grad


def kept_and_differentiated(w):
    y = w * 2
    y.retain_grad()
    (y**3).sum().backward(create_graph=True)
    gradient, w.grad = y.grad, None
    gradient.sum().backward()
    return gradient.detach(), gradient.requires_grad, y.grad.detach(), w.grad


def kept_in_another_layout(w):
    y = (w * 2).reshape(1, 3).t()
    y.retain_grad()
    w.retain_grad()
    (y * torch.arange(3.0).reshape(3, 1)).sum().backward()
    return y.grad, y.grad.stride()


KEPT = [kept, kept_twice, kept_in_place, kept_on_the_way, kept_and_differentiated, kept_in_another_layout]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("program", KEPT, ids=lambda program: program.__name__)
def test_gradients_that_are_kept(program):
    captured(program, leaf(3))
    w, other = leaf(3), leaf(3)
    results = program(w), tracer.optimize("aot_eager", fullgraph=True)(program)(other)
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(other.grad, w.grad)


def kept_outside(w):
    y = w * 2
    y.retain_grad()
    return y, (y * y).sum()


def kept_behind_a_hook(w):
    y = w * 2
    y.register_hook(lambda gradient: gradient * 10)
    y.retain_grad()
    return y, (y * y).sum()


def kept_inside_and_outside(w):
    y, loss = kept_outside(w)
    loss.backward(retain_graph=True)
    return y, loss


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, w):
        for _ in range(2):
            w = w.sin() * 2
            w.retain_grad()
            self.seen.append(w)
        return self.seen[0], w.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", [lambda: kept_outside, lambda: kept_inside_and_outside, lambda: kept_behind_a_hook, Keeping])
def test_gradients_that_are_kept_outside(make, backend):
    outcomes = []
    for decorate in (lambda program: program, tracer.optimize(backend, fullgraph=backend == "eager")):
        program, w = decorate(make()), leaf(3)
        for _ in range(2):
            y, loss = program(w)
            loss.backward()
            outcomes.append([y, y.grad, y.retains_grad, w.grad.clone()])
    torch.testing.assert_close(outcomes[2:], outcomes[:2])


def test_what_retains_a_gradient_in_a_way_that_no_node_could_tell_breaks_the_graph():
    def by_grad(w):
        y = w * 2
        y.retain_grad()
        return torch.autograd.grad((y * y).sum(), w), y.grad

    def behind_a_hook(w):
        y = w * 2
        y.register_hook(lambda gradient: gradient * 10)
        y.retain_grad()
        y.sum().backward()
        return y.grad

    def of_none(w):
        w.detach().retain_grad()

    for program in (by_grad, behind_a_hook, of_none):
        breaks(program, leaf(3))
    checked = check_made(lambda w: w.retain_grad(), lambda: ((leaf(3) * 2,), {}))
    assert checked.break_ids == ["autograd-in-trace"]


def placed_by_a_mask(w, x, mask):
    placed = w.new_zeros(x.shape)
    placed[mask] = w
    (placed * x).sum().backward()
    return w.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_through_what_a_mask_places(backend):
    traced = tracer.compile(placed_by_a_mask, backend=backend, fullgraph=True)
    for mask in (torch.tensor([True, False, True, True]), torch.tensor([True, True, True, False])):
        w, x = torch.randn(3, 2), torch.randn(4, 2)
        assert torch.equal(placed_by_a_mask(leaf_of(w), x, mask), traced(leaf_of(w), x, mask))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        traced(leaf_of(w), x, torch.tensor([True, False, True, False]))


def leaf_of(data):
    return data.clone().requires_grad_()
