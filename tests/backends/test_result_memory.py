"""The memory of results of compiled graphs: views of inputs that are written to, and results of their own."""

from __future__ import annotations

import pytest
import torch

import tracer


def flattened(x):
    return x.flatten().mul_(2)


def written_behind_the_view(x):
    view = x.reshape(x.shape[1], x.shape[0])
    x.mul_(2)
    return view


def one_of_the_chunks(x):
    part = x.chunk(2, 1)[1]
    x.add_(1)
    return part, part + 1, part


def as_another(x):
    return x.view_as(x).add_(1)


def of_a_view(x):
    view = x.t()[1:]
    view.add_(1)
    return view.unsqueeze(0), x


def of_a_changed_view(x):
    view = x.unsqueeze(0)
    view.add_(1)
    view.transpose_(0, 1)
    return view, x.sum()


def parts_of(whole):
    return {"behind an offset": whole[2:8].view(2, 3), "a block": whole.view(4, 6)[1:3, 2:5], "whole": whole[:6].view(2, 3)}


def described(results, whole):
    results = results if isinstance(results, tuple) else (results,)
    shared = [each.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr() for each in results]
    lies = [(each.shape, each.stride(), each.storage_offset()) for each in results]
    return [each.tolist() for each in results], lies, shared, whole.tolist()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "program",
    [flattened, written_behind_the_view, one_of_the_chunks, as_another, of_a_view, of_a_changed_view],
    ids=lambda program: program.__name__,
)
def test_views_of_inputs_that_are_written_to_lie_where_the_program_has_them(program, dynamic):
    compiled = tracer.compile(program, backend="aot_eager", dynamic=dynamic)
    for name in parts_of(torch.arange(24.0)):
        own, other = torch.arange(24.0), torch.arange(24.0)
        seen, expected = compiled(parts_of(own)[name]), program(parts_of(other)[name])
        assert described(seen, own) == described(expected, other), name


def test_a_gradient_flows_through_a_view_of_an_input_that_is_written_to():
    compiled = tracer.compile(flattened, backend="aot_eager", dynamic=True)
    gradients = []
    for fn in (compiled, flattened):
        leaf = torch.arange(10.0, requires_grad=True)
        (fn((leaf * 3)[2:8].view(2, 3)) * torch.arange(6.0)).sum().backward()
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize(
    "program", [lambda x: x + torch.zeros_like(x), lambda x: x * torch.ones(3), lambda x: (y := x.exp(), y - torch.zeros(3))]
)
def test_a_result_of_its_own_shares_no_memory_with_inputs_and_other_results(program):
    compiled = tracer.compile(program, backend="inductor")
    for _ in range(2):
        x = torch.randn(3)
        before = x.clone()
        results = compiled(x)
        results = results if isinstance(results, tuple) else (results,)
        for each in results:
            each.add_(1)
        expected = program(before)
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert torch.equal(x, before)
        for each, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(each, wanted + 1)


@pytest.mark.parametrize("program", [lambda x: (y := x + 1, y.detach(), y[:]), lambda x: (y := x + 1, y.view(3, 1)[:, 0])])
def test_views_of_a_result_are_objects_of_their_own(program):
    compiled = tracer.compile(program, backend="inductor")
    for _ in range(2):
        first, *views = compiled(torch.ones(3))
        for view in views:
            view.requires_grad_()
            assert not first.requires_grad
            assert view.data_ptr() == first.data_ptr()


def data_written_to(x, y):
    data = x.data
    data.add_(1)
    return data, y * 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_the_data_of_an_input_lie_where_the_program_has_them_beside_another_view_of_its_base(dynamic):
    compiled = tracer.compile(data_written_to, backend="aot_eager", dynamic=dynamic)
    for columns in (6, 7):
        (own, own_base), (other, other_base) = ((base[:, 2], base) for base in (torch.ones(1, columns), torch.ones(1, columns)))
        seen, expected = compiled(own, own.t().t()), data_written_to(other, other.t().t())
        assert described(seen, own_base) == described(expected, other_base)


def data_exchanged(a, b):
    a.data = b
    b.data = torch.zeros_like(b)
    return a + b


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_result_is_kept_from_data_that_are_exchanged_behind_the_graph(backend):
    a, b = torch.ones(3), torch.full((3,), 2.0)
    assert tracer.compile(data_exchanged, backend=backend)(a, b).tolist() == [2.0, 2.0, 2.0]
    assert a.tolist() == [2.0, 2.0, 2.0] and b.tolist() == [0.0, 0.0, 0.0]


def data_of_a_written_input(x, y):
    y.mul_(2)
    z = x * y
    z.data = y
    return z, z[0]


def data_written_through_the_result(x, y):
    z = x * y
    z.data = y
    z.sigmoid_()
    return z, z[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("program", [data_of_a_written_input, data_written_through_the_result])
def test_a_result_lies_in_the_data_that_it_was_given_though_the_graph_writes_to_them(program, gradients, backend):
    def run(function):
        torch.manual_seed(0)
        x, y = torch.randn(3, 2).requires_grad_(gradients), torch.randn(3, 4)[:, ::2]
        z, row = function(x, y)
        if gradients:
            (z * torch.tensor([1.0, 2.0]) + row).sum().backward()
        y.add_(1)
        return z.detach(), row.detach(), z.stride(), z.requires_grad, x.grad

    expected, seen = run(program), run(tracer.compile(program, backend=backend))
    assert expected[2:4] == seen[2:4]
    torch.testing.assert_close((*seen[:2], seen[4]), (*expected[:2], expected[4]), rtol=0, atol=0)


def test_inputs_in_one_memory_may_be_written_to_beside_parameters():
    layer = torch.nn.BatchNorm1d(3)

    def program(x, y):
        y.zero_()
        return layer(x)

    with pytest.warns(UserWarning, match="runs as it is"):
        compiled = tracer.compile(program, backend="aot_eager")
        for n in (3, 5, 4):
            x = torch.randn(n, 3)
            assert torch.equal(compiled(x, x.view_as(x)), layer(torch.zeros(n, 3)))
            assert not x.any()
