"""Backward passes that begin at some results of a compiled graph: absent gradients, hooks, and what other results need."""

from __future__ import annotations

import types

import pytest
import torch

import tracer
from tracer.backends.backward_passes import _compiled_nodes

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


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_that_no_result_depends_on_has_no_gradient(backend):
    def run(x, y):
        made = y * y
        x.sigmoid_()
        return x.flip(0), made.shape[0]

    compiled = tracer.compile(run, backend=backend)
    for function in (compiled, run):
        x, y = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
        function(x * 1, y)[0].sum().backward()
        assert x.grad is not None and y.grad is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pass_that_begins_at_a_written_input_leaves_out_others(backend):
    def run(x, y):
        made = y * y
        x.sigmoid_()
        return made, 1

    compiled = tracer.compile(run, backend=backend)
    for function in (compiled, run):
        x, y = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
        written = x * 1
        function(written, y)
        written.sum().backward()
        assert x.grad is not None and y.grad is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_hooks_of_inputs_are_never_called_without_a_gradient(backend, is_leaf):
    compiled = tracer.compile(lambda x, y: (x * 2, y * 3), backend=backend)
    seen = []

    def hook(gradient):
        seen.append(gradient)
        return gradient * 2

    leaf = torch.randn(2, 3, requires_grad=True)
    x = leaf if is_leaf else leaf * 1
    first, second = compiled(x, torch.randn(2, 3, requires_grad=True))
    x.register_hook(hook)
    del x
    second.sum().backward(retain_graph=True)
    first.sum().backward()
    assert all(each is not None for each in seen)
    torch.testing.assert_close(leaf.grad, torch.full((2, 3), 4.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pass_keeps_what_other_results_need(backend):
    def run(x, y):
        return (x * x).exp(), (y * y).exp()

    compiled = tracer.compile(run, backend=backend)
    for order in ((0, 1), (1, 0)):
        found = []
        for function in (compiled, run):
            torch.manual_seed(0)
            leaves = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
            results = function(*leaves)
            for i in order:
                results[i].sum().backward()
                with torch.no_grad():
                    leaves[i].add_(1)  # as an optimizer does: what the other result needs is unchanged
            found.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_kept_and_changed_since_is_refused(backend):
    compiled = tracer.compile(lambda x, y: ((x * x).exp(), (y * y).exp()), backend=backend)
    x, y = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    first, second = compiled(x, y)
    first.sum().backward()
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        second.sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_with_operations_in_common_are_differentiated_once(backend):
    def run(x):
        common = x.exp()
        return common * common, common.sin()

    for function in (tracer.compile(run, backend=backend), run):
        first, second = function(torch.randn(2, 3, requires_grad=True))
        first.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            second.sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_networks_train_in_turns_behind_a_break(backend):
    """As generator and discriminator do, whose losses are computed before the first backward pass."""

    def step(first, second, optimizers, x):
        made = first(x)
        loss = second(made.detach()).square().mean()
        tracer.graph_break()
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        loss = second(made).mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()
        return loss.detach()

    found = []
    for function in (tracer.compile(step, backend=backend), step):
        torch.manual_seed(0)
        first = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
        second = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (first, second)]
        found.append([function(first, second, optimizers, torch.randn(5, 3)) for _ in range(3)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loss_over_an_empty_batch_has_gradients(backend):
    parameter = torch.ones(3, requires_grad=True)
    compiled = tracer.compile(lambda x: torch.nn.functional.mse_loss(x * parameter, x), backend=backend)
    with pytest.warns(UserWarning, match="runs as it is, without the backend"):
        compiled(torch.ones(0, 3)).backward()
    assert parameter.grad.tolist() == [0.0, 0.0, 0.0]
    compiled(torch.full((2, 3), 2.0)).backward()
    assert parameter.grad.tolist() == [0.0, 0.0, 0.0]


class Counted:
    """A node of autograd's, which counts how often its edges are looked at."""

    looks = 0

    def __init__(self, *before: Counted) -> None:
        self._before = before

    @property
    def next_functions(self) -> list[tuple[Counted, int]]:
        Counted.looks += 1
        return [(node, 0) for node in self._before]

    def name(self) -> str:
        return "AddBackward0"

    def _sequence_nr(self) -> int:
        return 5


def test_a_call_looks_at_each_operation_of_a_history_once():
    """A residual network has two paths past each block, so 2**n paths past n blocks."""
    node = Counted()
    for _ in range(20):
        node = Counted(node, Counted(node))
    result = types.SimpleNamespace(grad_fn=node, output_nr=0)
    Counted.looks = 0
    assert list(_compiled_nodes(result, 0)) == []
    assert Counted.looks == 41
