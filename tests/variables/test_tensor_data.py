"""`tensor.data = other` in the graph: values, memory, autograd history, and assignments that CPython refuses."""

from __future__ import annotations

import pytest
import torch

from tests.support import breaks, captured, check
from tests.support.comparing import Comparison
from tracer import optimize

X = torch.arange(6.0).reshape(2, 3)


def simple(x, y):
    x.data = y
    return x * 2


def computed(x, y):
    x.data = x.data.sign() + y
    return x * x, x.is_leaf, x.requires_grad, x.grad_fn


def exchanged(x, y):
    before = x.data
    x.data = y.data
    y.data = before
    return x - y, x.data is y, x


def with_views(x, y):
    view = x.data.view(-1)
    x.data = y
    x.data.add_(1)
    view.mul_(2)
    return view, x.data, x, y


def twice(x, y):
    x.data = y
    z = x * 2
    x.data = z.detach()
    return x * z


def written_in_no_grad(x, y):
    x.data = y * 1
    with torch.no_grad():
        x.add_(1)
        x[0] = 5
    return x * y


def of_a_result(x, y):
    z = x * 2
    z.data = y
    return z * z, z


PROGRAMS = [simple, computed, exchanged, with_views, twice, written_in_no_grad, of_a_result]


@pytest.mark.parametrize("program", PROGRAMS)
def test_data_are_exchanged_in_the_graph(program):
    captured(program, X.clone(), X.flip(0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_go_to_the_tensor_itself(program, backend):
    traced = optimize(backend, fullgraph=True)(program)
    for size in (2, 3):
        outcomes = []
        for run in (program, traced):
            x = torch.arange(3.0 * size).reshape(size, 3).requires_grad_()
            result = run(x, torch.ones(size, 3) * 3)
            first = result[0] if isinstance(result, tuple) else result
            if first.requires_grad:
                first.sum().backward()
            outcomes.append((x, result))
        Comparison().same(*outcomes, f"size {size}")


def test_data_of_another_size_and_layout():
    def program(x, y):
        x.data = y
        return x.shape, x.stride(), x.sum(0)

    captured(program, X.clone(), torch.ones(4, 5).t())
    captured(program, X.clone(), torch.ones(3, 1).expand(3, 4))
    breaks(program, X.clone().requires_grad_(), torch.ones(4, 5))  # gradients would have two sizes


@pytest.mark.parametrize("write", [torch.Tensor.zero_, lambda x: x.view(-1)[1:].zero_(), lambda x: torch._foreach_add_([x], 1.0)])
def test_a_leaf_is_written_to_as_little_as_before(write):
    def program(x, y):
        x.data = y
        write(x)
        return x * 2

    assert check(program, X.clone().requires_grad_(), X + 1).error is not None


def test_a_parameter_of_a_module_is_given_other_data_step_by_step():
    layer = torch.nn.Linear(3, 2)

    def program(x):
        y = layer(x)
        for parameter in layer.parameters():
            parameter.data = parameter.data - 0.1 * parameter.data.sin()
        return y, layer(x)

    start, outcomes = {name: value.clone() for name, value in layer.state_dict().items()}, []
    for run in (program, optimize("eager", fullgraph=True)(program)):
        layer.load_state_dict(start)
        for _ in range(3):
            layer.zero_grad()
            first, second = run(X)
            (first * second).sum().backward()
        left = [(parameter.detach().clone(), parameter.grad.clone()) for parameter in layer.parameters()]
        outcomes.append((first.detach(), second.detach(), left))
    Comparison().same(*outcomes, "outcome")


def written_later(x, y):
    x.data = y
    return (x * x).sum()


def written_inside(x, y):
    x.data = y * 2
    with torch.no_grad():
        x.mul_(3)
    return (x * x).sum()


def multiplied(x, w):
    x.data = x * 2
    return (x * w).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [written_later, multiplied])
def test_writes_to_a_tensor_whose_data_were_exchanged_are_noticed_by_autograd(program, backend):
    for run in (program, optimize(backend)(program)):
        x, y = torch.ones(3), torch.full((3,), 2.0)
        (y if program is multiplied else x).requires_grad_()
        result = run(x, y)
        with torch.no_grad():
            x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()


@pytest.mark.parametrize("written_before", [0, 3])
@pytest.mark.parametrize("program", [written_later, written_inside])
def test_versions_of_a_tensor_whose_data_were_exchanged(program, written_before):
    outcomes = []
    for run in (program, optimize("eager", fullgraph=True)(program)):
        x, y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        with torch.no_grad():
            for _ in range(written_before):
                x.add_(1)
        kept = (x * x).sum()
        loss = run(x, y)
        versions = x._version, y._version
        loss.backward()
        if program is written_later:
            y.add_(1)
            kept.backward()
        outcomes.append([*versions, x._version, x.grad, x.detach()])
    assert str(outcomes[0]) == str(outcomes[1])


def test_what_was_kept_before_the_data_were_exchanged_is_differentiated_as_before_under_another_backend():
    for run in (written_later, optimize("aot_eager")(written_later)):
        x = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            x.add_(1)
        kept = (x * x).sum()
        run(x, torch.full((3,), 3.0)).backward()
        kept.backward()
        assert torch.equal(x.grad, torch.full((3,), 12.0))


def returned_by_what_returns_its_argument(x, y):
    x.data = y * 2
    same = x.contiguous()
    return same, same is x, x.add_(1)


def test_an_operation_that_returns_its_argument_returns_the_tensor_whose_data_were_exchanged():
    captured(returned_by_what_returns_its_argument, torch.ones(3), torch.ones(3))


def written_with_history(x, y):
    x.data = y * 1
    x.mul_(3)
    return x


def made_differentiable_and_written(x, y):
    x += y
    x.data = y * 1
    x[:2].mul_(3)
    return x


@pytest.mark.parametrize("fn", [written_with_history, made_differentiable_and_written])
def test_a_write_behind_an_exchange_of_data_is_in_the_history_of_the_input(fn):
    def gradients(function):
        leaves = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
        result = function(leaves[0] * 1, leaves[1])
        (result * torch.arange(1.0, 4.0)).sum().backward()
        return [leaf.grad for leaf in leaves]

    Comparison().same(gradients(fn), gradients(optimize("eager")(fn)), "gradients")


def replaced_and_emptied(x, y):
    x.data = y
    y.data = torch.zeros([0])
    return x, y.shape, y.requires_grad, y.is_leaf


def emptied_and_returned(x, y):
    y.data = torch.zeros([0])
    return y, x * 2


@pytest.mark.parametrize("program", [replaced_and_emptied, emptied_and_returned])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_leaf_with_a_gradient_is_given_data_of_another_size(program, backend):
    compiled = optimize(backend, fullgraph=True)(program)
    for _ in range(3):
        outcomes = []
        for function in (program, compiled):
            x, y = (torch.full((6,), value, requires_grad=True) for value in (1.0, 2.0))
            first, *rest = function(x, y)
            x.backward(torch.ones(6))
            outcomes.append((first, rest, x, y, x.grad, y.grad))
        Comparison().same(*outcomes, backend)


def test_operations_on_a_leaf_of_which_the_size_changes_break_the_graph():
    def before(x):
        y = x * 2
        x.data = torch.ones(4)
        return y

    def after(x):
        x.data = torch.ones(4)
        return x * 2

    def twice(x):
        x.data = torch.ones(4)
        x.data = torch.ones(4, 2)
        return x

    for program in (before, after, twice):
        breaks(program, torch.ones(3, requires_grad=True))
