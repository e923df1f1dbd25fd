"""Results of compiled graphs require gradients if they do in CPython, and can be differentiated as often."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support.comparing import Comparison
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
    assert not breaks
    for _, (product, made) in outcomes:
        if product.requires_grad:
            product.sum().backward()
            assert torch.equal(made.grad, torch.full_like(made, 3.0))


def test_a_leaf_that_stays_in_the_graph_is_captured():
    def program(x):
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y * y).sum(), y)[0]

    _, breaks = both(program, lambda: (leaf().detach(),), fullgraph=True)
    assert not breaks


def of_the_argument(x):
    return x.unbind(0)


def of_what_is_computed(x):
    return (x * 2).split(1)


def of_gradients_switched_off(x):
    with torch.no_grad():
        return (x * 2).view(-1), x.t()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("program", [of_the_argument, of_what_is_computed, of_gradients_switched_off])
def test_views_that_must_not_be_written_to_raise_behind_the_graph(program, backend):
    weight = torch.ones((), requires_grad=True)
    traced = tracer.optimize(backend)(program)
    for run in (program, traced):
        for result in run(torch.ones(2, 3).requires_grad_() * 1):
            with pytest.raises(RuntimeError, match="is being modified inplace|been modified inplace"):
                result.add_(weight)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_views_may_be_written_to_where_nothing_requires_gradients(backend):
    def program(x):
        return (x * 2).unbind(0)

    traced = tracer.optimize(backend)(program)
    assert [row.add_(1).tolist() for row in traced(torch.ones(2, 2))] == [[3, 3], [3, 3]]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_results_are_tensors_of_inference_mode_where_the_program_makes_them_there(backend):
    def entered(x):
        with torch.inference_mode():
            y = x * 2
            return y, y.t(), x.t(), y, torch.view_as_complex(y).conj()

    def left(x):
        with torch.inference_mode(False):
            y = torch.ones(2, 2)
        return y, x * 2, torch.zeros(2)

    for program, inside in ((entered, False), (left, True), (left, False)):
        x = torch.arange(4.0).reshape(2, 2)
        traced = tracer.optimize(backend)(program)
        with torch.inference_mode(inside):
            outcomes = [list(run(x)) for run in (program, program, traced, traced)]
        kinds = [[(each.is_inference(), each.stride(), each.is_conj()) for each in results] for results in outcomes]
        assert kinds == kinds[:1] * 4
        for results in outcomes[1:]:
            torch.testing.assert_close(results, outcomes[0])
            if program is entered:
                y, turned, *_ = results
                with torch.inference_mode():
                    y[0, 1] = 7
                assert turned[1, 0] == 7 and results[3] is y


def views_of_what_it_left_inference_mode_for(x):
    with torch.inference_mode(False):
        y = x.clone()
        z = y.t()
        z.add_(1)
        with torch.inference_mode():
            w = z[0]
    return x * w, w, y, z.view_as(z)


def view_of_what_it_made_in_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        z = y[0]
    return z.view(-1), x + 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("program", [views_of_what_it_left_inference_mode_for, view_of_what_it_made_in_inference_mode])
def test_a_graph_goes_on_with_a_view_across_the_ends_of_inference_mode(program, inside):
    x = torch.arange(4.0).reshape(2, 2)
    with torch.inference_mode(inside):
        got, expected = (run(x) for run in (tracer.optimize("aot_eager")(program), program))
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other) and one.is_inference() is other.is_inference() and one.stride() == other.stride()


@pytest.mark.filterwarnings("ignore:A graph of")
def test_an_operator_without_a_derivative_raises_when_it_is_asked_for():
    def program(x):
        return x // 2

    seen = tracer.optimize("aot_eager")(program)(leaf())
    assert torch.equal(seen, program(leaf())) and seen.requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        seen.sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_grad_mode_inside_of_inference_mode_gives_no_history(backend):
    def program(x):
        with torch.inference_mode():
            with torch.enable_grad():
                y = x * 2
            z = x * 3
        return y, z, x * 4

    for run in (program, tracer.optimize(backend)(program)):
        assert [each.requires_grad for each in run(leaf())] == [False, False, True]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_loss_is_returned_whose_parameters_a_fused_step_has_changed(backend):
    def trained(decorate):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, fused=True, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            for part in x.chunk(2):  # gradients are accumulated
                loss = model(part).square().mean()
                loss.backward()
            optimizer.step()
            return loss

        call = decorate(step)
        for _ in range(4):
            loss = call(torch.randn(6, 4))
            optimizer.param_groups[0]["lr"] *= 0.8
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        return [loss.detach(), *(parameter.detach() for parameter in model.parameters())], call

    expected, _ = trained(lambda step: step)
    seen, compiled = trained(lambda step: tracer.compile(step, backend=backend))
    assert all(map(torch.equal, seen, expected))
    assert tracer.stats(compiled)["compiles"] == 2
