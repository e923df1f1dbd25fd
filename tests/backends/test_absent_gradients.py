"""Inputs of which the results that a backward pass begins at do not depend get no gradient, as in eager mode."""

from __future__ import annotations

import pytest
import torch

import tracer

BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)]


def apart(x, y):
    return x * 2, y * 3, x + y


def through_memory(x, y):
    made = torch.zeros(2, 3)
    made[0] = y[0]
    made[1].add_(x[1])
    return made, x * 2


def through_a_view(x, y):
    made = torch.zeros(2, 3)
    row = made[0]
    row += y[0]
    return made, x * 2


def into_out(x, y):
    made = torch.zeros(2, 3)
    view = made.view(6)
    with torch.no_grad():
        torch.add(x.view(6), 1, out=view)
    view.mul_(y.view(6))
    return made, x * 2


def through_foreach(x, y):
    made = [torch.zeros(2, 3), torch.zeros(2, 3)]
    torch._foreach_add_(made, [x, y])
    return made[0], made[1], made[1].view(3, 2) * 2


def beside_a_write(x, y):
    with torch.no_grad():
        y[:, 2:].sub_(x[:, :1])
    return x * 2, y.sum(), (y * x).sum()


PROGRAMS = [apart, through_memory, through_a_view, into_out, beside_a_write]


def gradients(run, begun):
    torch.manual_seed(0)
    x, y = torch.randn(2, 3).requires_grad_() * 1, torch.randn(2, 3).requires_grad_()
    x.retain_grad()
    results = run(x, y)
    sum(results[i].sum() for i in begun).backward(retain_graph=True)
    return x.grad, y.grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_inputs_of_other_results_have_no_gradient(program, backend):
    compiled = tracer.compile(program, backend=backend)
    for begun in ((0,), (1,), (0, 1), (-1,)):
        for seen, expected in zip(gradients(compiled, begun), gradients(program, begun), strict=True):
            assert (seen is None) == (expected is None), begun
            if expected is not None:
                torch.testing.assert_close(seen, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_a_list_of_tensors_lose_no_gradient(backend):
    compiled = tracer.compile(through_foreach, backend=backend)
    for begun in ((0,), (1,), (2,)):
        for seen, expected in zip(gradients(compiled, begun), gradients(through_foreach, begun), strict=True):
            torch.testing.assert_close(
                seen, torch.zeros(2, 3) if expected is None else expected
            )  # zeros, where it may be reached


def nested_input():
    return torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged).requires_grad_()


def sparse_input():
    return torch.randn(6, 3).to_sparse().requires_grad_()


def values_of_nested(n, y):
    made = torch.zeros(6, 3)
    made.add_(n.values())
    return made, y * 3


def dense_of_sparse(s, y):
    return s.to_dense() * 2, y * 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("program", "make"),
    [(values_of_nested, nested_input), (dense_of_sparse, sparse_input)],
    ids=["values_of_nested", "dense_of_sparse"],
)
def test_nested_and_sparse_inputs_lose_no_gradient(program, make, backend):
    compiled = tracer.compile(program, backend=backend)
    for begun in (0, 1, -1):
        found = []
        for run in (compiled, program):
            torch.manual_seed(0)
            args = make(), torch.randn(2, 3).requires_grad_()
            run(*args)[begun].sum().backward()
            found.append([arg.grad for arg in args])
        for seen, expected in zip(*found, strict=True):
            if expected is not None:
                assert seen is not None, begun
                same = [tensor.values() if tensor.is_nested else tensor.to_dense() for tensor in (seen, expected)]
                torch.testing.assert_close(*same)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_that_the_loss_does_not_use_is_not_decayed(backend):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.first(x), self.second(x)

    torch.manual_seed(0)
    model = Two()
    compiled = tracer.compile(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    before = model.second.weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        compiled(torch.randn(4, 3))[0].sum().backward()
        optimizer.step()
    assert torch.equal(model.second.weight, before) and model.second.weight.grad is None
