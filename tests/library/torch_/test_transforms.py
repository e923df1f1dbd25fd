"""`torch.func`: a transform is one node of the graph, the function under it a graph of its own; results are eager's."""

from __future__ import annotations

import pytest
import torch
from torch import func, vmap

import tracer
from tests.support import breaks, captured, check
from tests.support.graphs import Graphs

X = torch.linspace(-2, 2, 12).reshape(4, 3)
W = torch.linspace(0.5, 1.5, 9).reshape(3, 3)
layer = torch.nn.Linear(3, 3)
batched = vmap(lambda row: row.sin() * W)
sloped = func.grad(lambda x, y: (x * y).sum(), argnums=1)


def _sum_of_sines(x):
    return x.sin().sum()


def _two(x, y):
    return x * y, {"sum": x + y}


TRANSFORMED = {
    "vmap": lambda x: vmap(lambda row: row.sin() + 1)(x),
    "vmap over some": lambda x: vmap(_two, in_dims=(0, None), out_dims=1)(x, x[0]),
    "vmap of a function of torch": lambda x: vmap(torch.dot)(x, x),
    "vmap in vmap": lambda x: vmap(lambda a: vmap(lambda b: b * a)(x))(x),
    "vmap with chosen randomness": lambda x: vmap(lambda a: torch.rand(3) * a, randomness="different")(x),
    "vmap with the same randomness": lambda x: vmap(lambda a: torch.rand(3) * a, randomness="same")(x),
    "vmap of what makes tensors": lambda x: vmap(lambda a: torch.zeros(3).add(a).mul_(2))(x),
    "vmap reads around it": lambda x: vmap(lambda a: layer(a) * x)(x),
    "a function made before": lambda x: batched(x[:, 0]) + 1,
    "a gradient made before": lambda x: sloped(x, x + 1),
    "grad": lambda x: func.grad(_sum_of_sines)(x),
    "grad of a dict": lambda x: func.grad(lambda p, k: (p["a"] * p["b"] * k).sum())({"a": x, "b": x + 1}, 3),
    "grad in grad": lambda x: func.grad(lambda b: func.grad(lambda a: (a**3).sum())(b).sum())(x),
    "grad without grad mode": torch.no_grad()(lambda x: func.grad(lambda a: (a * a.detach()).sum())(x)),
    "grad_and_value": lambda x: func.grad_and_value(lambda a: ((a * 2).sum(), a + 1), has_aux=True)(x),
    "gradients per sample": lambda x: vmap(func.grad(lambda a: layer(a).sum()))(x),
    "jacrev": lambda x: func.jacrev(lambda a, b: a * b, argnums=(0, 1))(x[0], x[1]),
    "jacfwd": lambda x: func.jacfwd(lambda a, b: a * b, argnums=1)(x[0], x[1]),
    "hessian": lambda x: func.hessian(_sum_of_sines)(x[0]),
    "forward over reverse": lambda x: func.jvp(func.grad(_sum_of_sines), (x,), (x + 1,)),
    "jvp": lambda x: func.jvp(lambda a: (a.sin(), a), (x,), (x,), has_aux=True),
    "jvp of batch norm": lambda x: func.jvp(
        lambda a: torch.nn.functional.batch_norm(a, None, None, x[0], None, True), (x,), (x + 1,)
    ),
    "vjp": lambda x: func.vjp(torch.sin, x)[1](x + 1),
}


def _doubled_in_place(x):
    return x.mul_(2)[0] + 1


def test_a_functionalized_function_changes_its_argument_as_the_function_does():
    captured(lambda x: func.functionalize(_doubled_in_place)(x) * 3, X)
    breaks(lambda x: func.functionalize(_doubled_in_place, remove="mutations_and_views")(x), X)


def test_the_state_of_several_modules_is_stacked():
    models = [torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)]

    def ensemble(x):
        state = func.stack_module_state(models)
        return vmap(lambda *each: func.functional_call(models[0], each, (x,)))(*state)

    captured(ensemble, X)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_transform_is_captured(name):
    assert "call_transformed" in captured(TRANSFORMED[name], X).operations


def test_what_vjp_gives_is_called_in_the_graph():
    def program(x):
        (out, other), pull, aux = func.vjp(lambda a: ((a.sin(), a.cos()), a + 1), x, has_aux=True)
        return out, aux, pull((x, other)), pull((other, x))

    assert captured(program, X).operations.count("call_vjp") == 2


def test_sizes_stay_dynamic_under_a_transform():
    graphs = Graphs()
    program = tracer.optimize(graphs.backend, dynamic=True)(
        lambda x: vmap(lambda a: (a * a.shape[0]).sum())(x) + func.grad(_sum_of_sines)(x).sum(1)
    )
    for rows, columns in ((4, 3), (5, 6), (7, 2)):
        x = torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)
        assert torch.equal(program(x), vmap(lambda a: (a * a.shape[0]).sum())(x) + x.cos().sum(1))
    assert len(graphs) == 1


def test_parameters_are_exchanged_for_a_call():
    def program(x, w):
        return func.functional_call(layer, {"weight": w, "bias": w[0]}, (x,)), layer.weight is w

    assert captured(program, X, W).operations == ["getitem", "linear"]


def test_gradients_per_sample_of_a_module():
    def program(x):
        parameters = {name: value.detach() for name, value in layer.named_parameters()}

        def loss(parameters, row):
            return func.functional_call(layer, parameters, (row,)).pow(2).sum()

        return vmap(func.grad(loss), in_dims=(None, 0))(parameters, x)

    captured(program, X)


def test_backward_passes_through_a_transform():
    def program(x, w):
        return vmap(lambda a: (a @ w).sin())(x).sum()

    graphs = Graphs()
    traced = tracer.optimize(graphs.backend)(program)
    gradients = []
    for run in (program, traced):
        x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
        run(x, w).backward()
        gradients.append((x.grad, w.grad))
    assert all(map(torch.equal, *gradients))
    assert len(graphs) == 1


SEEN: list[torch.Tensor] = []
SHARED = torch.zeros(3)


def _noting(a):
    SEEN.append(a)
    return a * 2


EFFECTS = {
    "a change of an object": (lambda x: vmap(_noting)(x).sum(), "effect-in-subgraph"),
    "a write to a tensor around it": (lambda x: vmap(lambda a: a + SHARED.fill_(2))(x), "effect-in-subgraph"),
    "randomness that was not chosen": (lambda x: vmap(lambda a: torch.rand(3) * a)(x), "operator-failed-in-trace"),
    "a number out of a tensor": (lambda x: vmap(lambda a: a.sum().item())(x), "tensor-item"),
    "a wrong dim": (lambda x: vmap(lambda a: a.sum(), in_dims=3)(x), "operator-failed-in-trace"),
    "a result that is no scalar": (lambda x: func.grad(lambda a: a)(x), "operator-failed-in-trace"),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_what_cannot_be_a_graph_under_a_transform_breaks(name):
    program, reason = EFFECTS[name]
    assert breaks(program, X).break_ids[0] == reason
    SEEN.clear()


def _sets_an_item(a):
    a[0] = 5.0
    return a.sum()


def _writes_to_two(a, b):
    a.mul_(2)
    b.add_(a.sum())
    return a + 1


WRITES = {
    "an argument": lambda x: (vmap(lambda a: a.add_(1))(x), x),
    "a method of tensors": lambda x: (vmap(torch.Tensor.acos_)(x), x),
    "what the program made": lambda x: (lambda y: (vmap(lambda a: a.add_(1))(y), y))(x * 2),
    "two arguments": lambda x: (lambda y: (vmap(_writes_to_two)(x, y), x, y))(x.clone()),
    "an item": lambda x: (vmap(_sets_an_item)(x), x),
    "columns": lambda x: (vmap(lambda a: a.mul_(2), in_dims=1, out_dims=1)(x), x),
    "one argument, given twice": lambda x: (vmap(lambda a, b: a.add_(b))(x, x), x),
    "vmap in vmap": lambda x: (vmap(vmap(lambda a: a.add_(1)))(x), x),
    "chunks": lambda x: (vmap(lambda a: a.add_(1), chunk_size=2)(x), x),
    "the result, which is the argument": lambda x: vmap(lambda a: a.add_(1))(x).add_(10) + x,
}


@pytest.mark.parametrize("name", WRITES)
def test_a_function_under_vmap_writes_to_what_it_is_given(name):
    captured(WRITES[name], X)
    compiled = tracer.compile(WRITES[name], backend="aot_eager", fullgraph=True)
    ours, eagers = X.clone(), X.clone()
    for a, b in zip(torch.utils._pytree.tree_leaves(compiled(ours)), torch.utils._pytree.tree_leaves(WRITES[name](eagers))):
        assert torch.equal(a.nan_to_num(), b.nan_to_num())
    assert torch.equal(ours.nan_to_num(), eagers.nan_to_num())


def test_the_function_given_by_vjp_leaves_no_region():
    def program(x):
        return func.vjp(torch.sin, x)[1]

    assert torch.equal(tracer.optimize("eager")(program)(X)(X)[0], X.cos() * X)


def test_a_failing_transform_leaves_torch_as_it_was():
    check(lambda x: vmap(lambda a: a.sum(), in_dims=3)(x), X)
    assert torch.equal(func.jvp(torch.sin, (X,), (X,))[1], X.cos() * X)


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_chunks_of_vmap_are_one_graph(rows):
    def fn(x, w):
        scaled = vmap(lambda a, b: ((a @ w).sin() + b, a.sum()), chunk_size=2)(x, x * 2)
        random = vmap(lambda a: a + torch.rand(3), chunk_size=3, randomness="different")(x)
        return scaled, random, func.jacrev(lambda a: (a * w).sum(1), chunk_size=2)(x[0])

    captured(fn, torch.randn(rows, 3), torch.randn(3, 3))


def test_chunks_of_vmap_follow_the_number_of_rows():
    def fn(x):
        return vmap(lambda a: a.sin().sum(), chunk_size=3)(x)

    traced = tracer.optimize("eager", fullgraph=True)(fn)
    for rows in (2, 5, 6, 7, 10, 3):
        x = torch.randn(rows, 3)
        assert torch.equal(traced(x), fn(x))


def test_gradients_flow_through_chunks_of_vmap():
    def fn(x):
        return vmap(lambda a: a.sin().sum(), chunk_size=2)(x).prod()

    x = torch.randn(5, 3)
    gradients = []
    for each in (fn, tracer.optimize("eager", fullgraph=True)(fn), tracer.optimize("aot_eager", fullgraph=True)(fn)):
        leaf = x.clone().requires_grad_()
        each(leaf).backward()
        gradients.append(leaf.grad)
    assert torch.equal(gradients[0], gradients[1])
    torch.testing.assert_close(gradients[0], gradients[2])


def _by_wrapping(x):
    asked = torch._C._functorch
    level = asked.maybe_current_level() or 5
    return (x + 1 if asked.is_batchedtensor(x) else x - 1) * (2 if asked.is_gradtrackingtensor(x) else 3) + level


def test_a_program_asks_which_transforms_it_is_in():
    slope = func.grad(lambda x: _by_wrapping(x).sum())
    captured(lambda x: (_by_wrapping(x), vmap(_by_wrapping)(x), slope(x), vmap(slope)(x)), X)
