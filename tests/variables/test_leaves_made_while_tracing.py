"""Leaves that require gradients and that a traced function makes: in the graph, and where they leave it, gradients arrive."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tracer
from tests.support import breaks, captured, check

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def by_attribute(x):
    y = torch.zeros(3)
    y.requires_grad = True
    return y


def twice(x):
    return torch.ones(3, requires_grad=True).requires_grad_()


MADE = {
    "requires_grad_": lambda x: torch.zeros(3).requires_grad_(),
    "an attribute": by_attribute,
    "twice": twice,
    "ones": lambda x: torch.ones(3, requires_grad=True),
    "a number": lambda x: torch.tensor(2.0, requires_grad=True),
    "a list": lambda x: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "another's sizes": lambda x: torch.zeros_like(x, requires_grad=True),
    "random numbers": lambda x: torch.randn(3, requires_grad=True),
    "a detached tensor": lambda x: x.detach().requires_grad_(),
    "what was computed": lambda x: (x * 2).detach().requires_grad_(),
    "complex numbers": lambda x: torch.ones(3, dtype=torch.complex64, requires_grad=True),
}


def differentiated(program, *arguments, backend):
    """What the program gives, and the gradients of the leaves among it and among the arguments, after a backward pass."""
    outcomes = []
    for run in (program, tracer.optimize(backend, fullgraph=True)(program)):
        for _ in range(2):
            torch.manual_seed(0)
            inputs = [each.detach().clone().requires_grad_(each.requires_grad) for each in arguments]
            results = run(*inputs)
            losses = [each.abs().sum() * (n + 2) for n, each in enumerate(results) if each.requires_grad]
            sum(losses).backward()
            leaves = [each for each in (*results, *inputs) if each.is_leaf]
            outcomes.append([results, len(leaves), [each.grad for each in leaves]])
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MADE)
def test_gradients_arrive_at_a_leaf_that_was_returned(name, backend):
    make = MADE[name]

    def returned(x):
        y = make(x)
        return y, y * x

    def behind(x):
        return (x * make(x) * 2,)

    for program in (returned, behind, lambda x: (make(x),)):
        for requires_grad in (False, True):
            differentiated(program, X.clone().requires_grad_(requires_grad), backend=backend)


@pytest.mark.parametrize("name", MADE)
def test_a_leaf_is_one_in_the_graph_as_well(name):
    make = MADE[name]

    def described(x):
        y = make(x)
        before = y.requires_grad, y.is_leaf, y.grad, y.grad_fn, type(y), y.retains_grad
        (x * y).abs().sum().backward()
        return before, y.grad, x.grad

    def returned(x):
        y = make(x)
        (x * y).abs().sum().backward()
        return y, (x * y).abs().sum()

    captured(described, X)
    captured(described, X.clone().requires_grad_())
    captured(returned, X)


def descended(x):
    w = torch.zeros(3, requires_grad=True)
    for _ in range(3):
        loss = ((x @ w).sum() - 1) ** 2
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad.zero_()
    return w, loss.detach()


def in_a_loop(x):
    leaves = [torch.full((3,), float(n), requires_grad=True) for n in range(3)]
    return leaves, sum(leaf * x for leaf in leaves)


def held_twice_with_an_attribute(x):
    y = torch.ones(3, requires_grad=True)
    y.tag = "own"
    return [y, y], {"y": y}, y.tag, y * x


def written_to_without_grad_mode(x):
    y = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        y.add_(x[0])
        y[0] = 5
        z = y * x
    return y, y * x, z.requires_grad


@pytest.mark.parametrize("program", [descended, in_a_loop, held_twice_with_an_attribute, written_to_without_grad_mode])
def test_what_is_done_with_leaves(program):
    captured(program, X)


def with_a_view_made_before(x):
    y = torch.zeros(3)
    view = y.view(3, 1)
    y.requires_grad_()
    return y, view * 2


def that_requires_none_in_the_end(x):
    y = torch.ones(3, requires_grad=True)
    z = y * x[0]
    return y.requires_grad_(False), z


def changed_in_place(x):
    y = torch.ones(3, requires_grad=True)
    try:
        y.add_(1)
    except RuntimeError as error:
        return y, str(error)


def of_whole_numbers(x):
    try:
        torch.ones(3, dtype=torch.int32).requires_grad_()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("program", [with_a_view_made_before, that_requires_none_in_the_end, changed_in_place, of_whole_numbers])
def test_what_is_left_to_torch(program):
    breaks(program, X)


def test_a_write_after_a_leaf_was_read_is_noticed_by_autograd():
    def program(x):
        y = torch.ones(3, requires_grad=True)
        z = y * x
        with torch.no_grad():
            y.add_(1)
        return y, z

    for backend in ("eager", "aot_eager"):
        _, z = tracer.optimize(backend)(program)(X.clone().requires_grad_())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def beside_its_views(x):
    y = torch.zeros(3).requires_grad_()
    return y, y.view(3, 1), y[1:] * 2


def a_parameter_beside_its_view(x):
    y = nn.Parameter(torch.zeros(3))
    return y, y.view(3, 1)


def a_view_of_a_parameter_of_an_argument(x):
    return (nn.Parameter(x).view(3, 4),)


def a_view_of_a_leaf_whose_data_were_exchanged(x):
    x = x.clone().detach().requires_grad_() if not x.requires_grad else x
    x.data = torch.ones(4, 3)
    return x.view(3, 4), x * 2


VIEWS = [
    beside_its_views,
    a_parameter_beside_its_view,
    a_view_of_a_parameter_of_an_argument,
    a_view_of_a_leaf_whose_data_were_exchanged,
]


@pytest.mark.parametrize("program", VIEWS, ids=lambda program: program.__name__)
def test_gradients_pass_through_views_of_leaves(program):
    outcomes = []
    for run in (program, tracer.optimize("eager")(program), tracer.optimize("aot_eager")(program)):
        x = X.clone().requires_grad_()
        results = run(x)
        sum(each.sum() * (n + 2) for n, each in enumerate(results)).backward()
        outcomes.append([[each.detach() for each in results], [each.grad for each in (*results, x) if each.is_leaf]])
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_leaves_have_sizes_that_are_computed_of_those_of_inputs(backend):
    def program(x):
        y = torch.ones(2 * x.shape[0] - 1, 1, requires_grad=True)
        return y, y * x[0]

    traced = tracer.optimize(backend, dynamic=True, fullgraph=True)(program)
    for rows in (3, 5):
        y, z = traced(torch.ones(rows, 2))
        z.sum().backward()
        assert y.is_leaf and torch.equal(y.grad, torch.full((2 * rows - 1, 1), 2.0))


def test_a_leaf_that_is_alive_behind_a_break():
    def program(x):
        y = torch.ones(3, requires_grad=True)
        z = y * x
        tracer.graph_break()
        (z * y).sum().backward()
        return y

    assert check(program, X).break_ids[0] == "explicit-graph-break"


VIEWS = {
    "rows": lambda p, x: (p[:2], x @ p.T),
    "a chain": lambda p, x: p.unsqueeze(0).unsqueeze(1).expand(1, 3, -1, -1),
    "beside its base": lambda p, x: (p, p.T, p.reshape(-1)),
}


@pytest.mark.parametrize("backend", ["aot_eager", lambda gm, inputs: gm.forward], ids=["aot_eager", "custom"])
@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("fn", VIEWS.values(), ids=VIEWS)
def test_a_view_of_a_parameter_that_is_made_without_gradients_is_returned(fn, without_gradients, backend):
    parameter = nn.Parameter(torch.randn(4, 3))
    compiled = tracer.optimize(backend, fullgraph=True)(fn)
    with without_gradients():
        results = [pytree.tree_leaves(each(parameter, X)) for each in (compiled, fn)]
    for got, expected in zip(*results, strict=True):
        assert torch.equal(got, expected)
        assert (got.requires_grad, got.is_leaf, got._is_view()) == (expected.requires_grad, expected.is_leaf, expected._is_view())
        assert (got is parameter) == (expected is parameter) and (got._base is parameter) == (expected._base is parameter)
        assert got.data_ptr() == expected.data_ptr() or not expected.requires_grad
    errors = (
        [str(pytest.raises(RuntimeError, each[-1].mul_, 2).value) for each in results] if expected.requires_grad else ["", ""]
    )
    assert errors[0] == errors[1]


def test_a_view_that_only_a_part_of_the_program_makes_without_gradients_breaks_the_graph_for_a_compiler():
    def fn(p, x):
        with torch.no_grad():
            view = p[:2]
        return view, p * x

    arguments = nn.Parameter(torch.randn(4, 3)), X
    assert tracer.optimize("eager", fullgraph=True)(fn)(*arguments)[0].is_leaf
    with pytest.raises(tracer.exc.Unsupported, match="a leaf that requires a gradient"):
        tracer.optimize("aot_eager", fullgraph=True)(fn)(*arguments)
