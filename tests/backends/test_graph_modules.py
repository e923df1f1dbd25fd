"""What a backend may do with the graph module that it is given, and that all of it goes when the entry does."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import io
import operator
import pickle
import weakref

import pytest
import torch
from torch import fx, nn

import tracer
from tests.backends.compilers import aot
from tracer.exc import BackendCompilerFailed

SHIFT = 3.0


def program(x, y):
    h = torch.relu(x + y)
    return h.view(-1) * SHIFT, h.sum(0)  # two results


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.linear(x)) * x.shape[0]


def kept(fn, *args, dynamic=None):
    """The graph modules and inputs that a backend is given when `fn` is called."""
    given = []

    def keep(gm, example_inputs):
        given.append((gm, example_inputs))
        return gm.forward

    tracer.compile(fn, backend=keep, dynamic=dynamic)(*args)
    return given


X, Y = torch.randn(6, 4), torch.randn(6, 4)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda gm: pickle.loads(pickle.dumps(gm))])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_graph_modules_are_copied_and_pickled(duplicate, dynamic, train):
    model = Model().train(train)
    ((gm, inputs),) = kept(model, X, dynamic=dynamic)
    twin = duplicate(gm)
    assert [(n.op, n.name) for n in twin.graph.nodes] == [(n.op, n.name) for n in gm.graph.nodes]
    reals = {"x": X, "s0": 6, "s1": 4}
    tensors = {name.replace(".", "_"): value for name, value in model.state_dict(keep_vars=True).items()}
    args = [value_of(tensors | reals, node.name) for node in gm.graph.find_nodes(op="placeholder")]
    before = copy.deepcopy(model.state_dict())
    (expected,) = gm(*args)
    model.load_state_dict(before)
    (seen,) = twin(*args)
    torch.testing.assert_close(seen, expected)


def value_of(values, name):
    """`l_self_modules_linear_parameters_weight_` is `linear.weight`, `l_x_` is x, s0 is itself."""
    words = [word for word in name.split("_") if word not in ("modules", "parameters", "buffers", "l", "self", "")]
    return values["_".join(words)]


def test_every_operation_names_the_users_line():
    ((gm, _),) = kept(program, X, Y)
    first = program.__code__.co_firstlineno
    lines = [node.stack_trace for node in gm.graph.nodes if node.op.startswith("call_")]
    assert all(f'File "{__file__}", line {first + 1}, in program\n' in line for line in lines[:2])
    assert all(f'File "{__file__}", line {first + 2}, in program\n' in line for line in lines[2:])
    text = gm.print_readable(print_output=False)
    assert "h = torch.relu(x + y)" in text and f"{__file__}:{first + 1} in program" in text
    assert text.count("class GraphModule(torch.nn.Module)") == 1


def test_what_prints_a_graph_prints_it():
    ((gm, _),) = kept(program, X, Y, dynamic=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        gm.print_readable(include_stride=True, include_device=True)
        print(gm, gm.code)
    assert "def forward" in out.getvalue() and '"f32[s0, s1][s1, 1]cpu"' in out.getvalue()


def test_nodes_say_what_their_values_are():
    ((gm, inputs),) = kept(program, X, Y, dynamic=True)
    nodes = list(gm.graph.nodes)
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True):
        assert node.meta["example_value"] is value
    for node in nodes:
        if node.op.startswith("call_") and node.target is not operator.getitem:
            assert isinstance(node.meta["example_value"], (torch.Tensor, torch.SymInt))
    modes = {value.fake_mode for node in nodes if isinstance(value := node.meta.get("example_value"), torch.Tensor)}
    assert len(modes) == 1 and modes.pop().shape_env is inputs[0].node.shape_env
    outputs = nodes[-1].args[0]
    assert [tuple(map(str, node.meta["example_value"].shape)) for node in outputs] == [("s0*s1",), ("s1",)]


def test_values_of_nodes_share_storage_as_they_do_in_the_program():
    ((gm, _),) = kept(program, X, Y)
    by_name = {node.name: node.meta.get("example_value") for node in gm.graph.nodes}
    storages = [by_name[name].untyped_storage()._cdata for name in ("relu", "view", "mul")]
    assert storages[0] == storages[1] != storages[2]


def test_a_backend_may_change_the_graph_that_it_is_given():
    def changes(gm, example_inputs):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.sigmoid
        gm.graph.lint()
        gm.recompile()
        return gm

    fn = tracer.compile(program, backend=changes)
    expected = torch.sigmoid(X + Y)
    torch.testing.assert_close(fn(X, Y), (expected.view(-1) * SHIFT, expected.sum(0)))
    entry = tracer.region_of(fn).entries()[0]
    assert any(node.target is torch.relu for node in entry.guarded_code.graph.graph.nodes)


def test_a_backend_that_empties_the_graph_breaks_nothing_of_ours():
    def empties(gm, example_inputs):
        forward = fx.GraphModule(gm, copy.deepcopy(gm.graph)).forward
        for node in reversed(list(gm.graph.nodes)):
            gm.graph.erase_node(node)
        return forward

    def writes(x, y):
        x.add_(y)
        return torch.nn.functional.dropout(x, 0.5)

    ours, theirs = X.clone(), X.clone()
    torch.manual_seed(0)
    seen = tracer.compile(writes, backend=empties)(ours, Y)
    torch.manual_seed(0)
    expected = writes(theirs, Y)
    assert torch.equal(seen, expected) and torch.equal(ours, theirs)


def test_a_backend_that_traces_and_compiles_itself():
    """Decorated code inside of a backend is traced on its own, while the backend's own inputs stay what they are."""
    inner = tracer.compile(lambda x: (x * 3).sum(), backend=aot, dynamic=True)

    def backend(gm, example_inputs):
        for rows in (3, 5):
            assert inner(torch.ones(rows, 2)) == 6 * rows
        return aot(gm, example_inputs)

    fn = tracer.compile(program, backend=backend, dynamic=True)
    for rows in (6, 3, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(fn(x, x), program(x, x))
    assert len(tracer.region_of(inner).entries()) == 1


def test_a_partial_of_a_function_that_wants_real_inputs_wants_them_too():
    given = []

    def wants(gm, example_inputs, level):
        given.append((example_inputs, level))
        return gm.forward

    wants.needs_real_inputs = True
    tracer.compile(program, backend=functools.partial(wants, level=3))(X, Y)
    assert given[0][0][0] is X and given[0][1] == 3


# -- verify_correctness --------------------------------------------------------------------------------------------------


def forgets_to_write(gm, example_inputs):
    return lambda *args: gm.forward(*[arg.clone() for arg in args])


def fails(gm, example_inputs):
    def run(*args):
        raise ZeroDivisionError("at run time")

    return run


def writes_and_draws(x, y):
    x.mul_(2)
    return x + y, torch.rand(3) + x.sum()


def overlapping():
    base = torch.arange(12.0)
    return base[:6], base[3:9]


@pytest.mark.parametrize("backend", [lambda gm, inputs: gm.forward, "aot_eager", aot])
def test_what_is_right_is_verified(backend):
    fn = tracer.compile(writes_and_draws, backend=backend)
    for make in (lambda: (X[0].clone(), Y[0].clone()), overlapping):
        ours, theirs = make(), make()
        with tracer.config.patch(verify_correctness=True):
            torch.manual_seed(1)
            seen = fn(*ours)
        torch.manual_seed(1)
        torch.testing.assert_close(seen, writes_and_draws(*theirs))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("backend", "words"), [(forgets_to_write, "differs"), (fails, "ZeroDivisionError: at run time")])
def test_what_is_wrong_is_found(backend, words):
    x = X[0].clone()
    fn = tracer.compile(writes_and_draws, backend=backend)
    with tracer.config.patch(verify_correctness=True), pytest.raises(BackendCompilerFailed, match=words):
        fn(x, Y[0])
    assert torch.equal(x, X[0]) and tracer.region_of(fn).entries() == []


def test_a_program_that_raises_is_not_a_wrong_backend():
    def raises(x, index):
        return x[index]

    fn = tracer.compile(raises, backend=aot)
    with tracer.config.patch(verify_correctness=True), pytest.raises(IndexError):
        fn(X, torch.tensor([100]))


# -- lifetimes -----------------------------------------------------------------------------------------------------------


class Compiled:
    def __init__(self, run, gm, example_inputs):
        self.run, self.gm, self.example_inputs = run, gm, example_inputs

    def __call__(self, *args):
        return self.run(*args)


@pytest.mark.parametrize("compiler", [lambda gm, inputs: gm.forward, aot])
@pytest.mark.parametrize("end", ["reset", "deleted", "model deleted"])
def test_what_a_backend_made_goes_with_the_entry(compiler, end):
    watched = []

    def backend(gm, example_inputs):
        made = Compiled(compiler(gm, example_inputs), gm, example_inputs)
        tensor = next(value for value in example_inputs if isinstance(value, torch.Tensor))
        watched.extend(map(weakref.ref, (made, gm, tensor)))
        return made

    model = Model()
    fn = tracer.compile(model, backend=backend, dynamic=True)
    fn(X).sum().backward()
    assert all(reference() is not None for reference in watched)
    if end == "reset":
        tracer.reset()
    elif end == "deleted":
        del fn
    else:
        del fn, model
    gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)


def test_shape_envs_do_not_gather():
    envs = []

    def backend(gm, example_inputs):
        envs.append(weakref.ref(example_inputs[0].node.shape_env))
        return aot(gm, example_inputs)

    fn = tracer.compile(program, backend=backend, dynamic=True)
    for _ in range(6):
        fn(X, Y)
        tracer.reset()
    for _ in range(3):  # tensors and symbolic sizes hold each other through C++, out of sight of one collection
        gc.collect()
    assert len(envs) == 6 and sum(env() is not None for env in envs) <= 2  # what was asked after the compile
