"""What compiled graphs return requires gradients where it does in CPython, and can be differentiated as far."""

from __future__ import annotations

import pytest
import torch

from tests.comparing import Comparison
from tracer.api.callables import compiled
from tracer.api.settings import Settings

pytestmark = [pytest.mark.filterwarnings(f"ignore:{text}") for text in ("The .grad attribute", "Error detected")]


def both(program, make, **settings):
    """What an eager run and a compiled one leave behind; the breaks of the latter."""
    breaks = []
    hooks = {"on_break": breaks.append}
    traced = compiled(program, Settings(backend="aot_eager", name="check", hooks=hooks, **settings))
    outcomes = []
    for run in (program, traced):
        torch.manual_seed(0)
        args = make()
        outcomes.append((args, run(*args)))
    Comparison().same(*outcomes, "outcome")
    return outcomes, breaks


def leaf():
    return (torch.arange(4.0) + 1).requires_grad_()


def trained():
    weight = leaf()
    return weight, torch.optim.Adam([weight], lr=0.1), torch.ones(4)


def test_a_training_step_returns_its_loss():
    def step(weight, optimizer, x):
        for _ in range(2):
            optimizer.zero_grad()
            loss = (weight * weight * x).sum()
            loss.backward()
            optimizer.step()
        return loss

    outcomes, breaks = both(step, trained)
    assert not breaks
    for _, loss in outcomes:
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="second time|modified by an inplace operation"):
            loss.backward()


def test_a_result_whose_gradient_was_spoilt_is_returned_all_the_same():
    def program(x, w):
        y = x.sin() * w
        w.add_(1)
        return y, x * 2

    outcomes, breaks = both(program, lambda: (leaf(), torch.ones(4)))
    assert not breaks
    for _, (spoilt, other) in outcomes:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            spoilt.sum().backward()
        other.sum().backward()


LEAVES = {
    "told to require a gradient": lambda x: (x * 2).requires_grad_(),
    "made so": lambda x: torch.zeros(4, requires_grad=True),
    "a view in no_grad": lambda x: torch.no_grad()(lambda: x.view(2, 2))(),
}


@pytest.mark.parametrize("make", LEAVES.values(), ids=LEAVES)
def test_a_leaf_that_the_program_makes_and_returns_is_one(make):
    def program(x):
        y = make(x)
        return y * 3, y

    both(program, lambda: (leaf(),))
    outcomes, breaks = both(program, lambda: (leaf().detach(),))
    for _, (product, made) in outcomes:
        if product.requires_grad:
            assert breaks
            product.sum().backward()
            assert torch.equal(made.grad, torch.full_like(made, 3.0))


def test_a_leaf_that_stays_in_the_graph_is_captured():
    def program(x):
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y * y).sum(), y)[0]

    _, breaks = both(program, lambda: (leaf().detach(),), fullgraph=True)
    assert not breaks
