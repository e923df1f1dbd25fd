"""aot_eager and inductor through the bridge: right numbers forward and backward, and the guards that they add."""

from __future__ import annotations

import functools
import logging
import operator

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import tracer
from shapes.constraints import DimConstraint
from shapes.guards import Why
from shapes.policy import DimPolicy
from shapes.symbols import Kind
from tracer.backends.calling import resolve_backend
from tracer.backends.torch_bridge import Bridge, compile_with
from tracer.exc import BackendCompilerFailed
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.sources.roots import LocalSource


def graph_and_fakes(fn, *inputs):
    """The graph of `fn`, which returns a tuple, and fakes of its inputs in a mode that the compilers don't know."""
    mode = FakeTensorMode()
    return torch.fx.symbolic_trace(fn), [mode.from_tensor(t) if isinstance(t, torch.Tensor) else t for t in inputs]


def layer(x, weight, bias):
    return (torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias)).softmax(-1),)


def parameters():
    torch.manual_seed(0)
    return torch.randn(5, 3), nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_forward_and_backward_are_bitwise_eager(backend):
    x, weight, bias = parameters()
    compiled = resolve_backend(backend)(*graph_and_fakes(layer, x, weight, bias))
    (expected,) = layer(x, weight, bias)
    assert torch.equal(compiled(x, weight, bias)[0], expected)
    got = torch.autograd.grad(compiled(x, weight, bias)[0][:, 0].sum(), [weight, bias])
    wanted = torch.autograd.grad(expected[:, 0].sum(), [weight, bias])
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_inductor_forward_and_backward_are_close():
    x, weight, bias = parameters()
    compiled = resolve_backend("inductor")(*graph_and_fakes(layer, x, weight, bias))
    (expected,) = layer(x, weight, bias)
    torch.testing.assert_close(compiled(x, weight, bias)[0], expected)
    got = torch.autograd.grad(compiled(x, weight, bias)[0][:, 0].sum(), [weight, bias])
    wanted = torch.autograd.grad(expected[:, 0].sum(), [weight, bias])
    torch.testing.assert_close(got, wanted)


def test_real_inputs_serve_as_well():
    x, weight, bias = parameters()
    compiled = resolve_backend("aot_eager")(torch.fx.symbolic_trace(layer), [x, weight, bias])
    assert torch.equal(compiled(x, weight, bias)[0], layer(x, weight, bias)[0])


def test_mutated_inputs_are_mutated():
    def bump(x, y):
        x.add_(y)
        return (x * 2,)

    a, b = torch.ones(3), torch.arange(3.0)
    compiled = resolve_backend("aot_eager")(*graph_and_fakes(bump, a, b))
    (out,) = compiled(a, b)
    assert torch.equal(a, 1 + torch.arange(3.0)) and torch.equal(out, a * 2)


def test_views_of_one_storage_stay_views_of_one_storage():
    def bump(x, y):
        x.add_(1)
        return (y * 2,)

    def run(fn):
        base = torch.zeros(4)
        return fn(base[:3], base[1:])[0], base

    mode = FakeTensorMode()
    base = mode.from_tensor(torch.zeros(4))
    with mode:
        inputs = [base[:3], base[1:]]
    compiled = resolve_backend("aot_eager")(torch.fx.symbolic_trace(bump), inputs)
    (got, got_base), (wanted, wanted_base) = run(compiled), run(bump)
    assert torch.equal(got, wanted) and torch.equal(got_base, wanted_base)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4),
        lambda: torch.randn(4, 3).t(),
        lambda: torch.randn(3, 1, 5).expand(3, 4, 5),
        lambda: torch.randn(10)[3:7],
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.randn(2, 3).to_sparse(),
        lambda: nn.Parameter(torch.randn(3)),
        lambda: torch.randn(3, requires_grad=True) * 2,
        lambda: torch.tensor(3),
        lambda: torch.empty(0, 4),
    ],
)
def test_inputs_keep_their_metadata(make):
    real = make()
    with torch.no_grad():
        own = FakeTensorMode().from_tensor(real)
    (fake,) = Bridge([own]).inputs()
    for name in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf"):
        assert getattr(fake, name) == getattr(real, name), name
    assert fake.is_conj() == real.is_conj() and isinstance(fake, nn.Parameter) == isinstance(real, nn.Parameter)
    if real.layout == torch.strided:
        assert fake.stride() == real.stride() and fake.storage_offset() == real.storage_offset()


def test_unknown_options_are_refused():
    with pytest.raises(BackendCompilerFailed, match="takes no options="):
        resolve_backend("aot_eager", options={"x": 1})(*graph_and_fakes(layer, *parameters()))


# -- symbolic sizes ------------------------------------------------------------------------------------------------


def captured_dynamic(fn, *inputs, **options):
    """As `graph_and_fakes`, over symbolic dims, their SymInt placeholders first; gives the world and a caller too."""
    world = FakeWorld(**options)
    fakes = [world.fakify(t, LocalSource(f"x{i}")) for i, t in enumerate(inputs)]
    symbols = [symbol for symbol in world.env.symbols() if symbol.kind is Kind.SIZE]
    gm = torch.fx.symbolic_trace(fn)
    first = next(iter(gm.graph.nodes))
    for symbol in symbols:
        with gm.graph.inserting_before(first):
            gm.graph.placeholder(symbol.name)
    gm.recompile()

    def run(compiled, *args):
        sizes = [symbol.label for symbol in symbols]
        values = [args[int(label.base.name[4:-2])].size(label.dim) for label in sizes]
        return compiled(*values, *args)

    return gm, [*map(world.symbol, symbols), *fakes], world, run


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_one_compile_serves_other_sizes(backend):
    x, weight, bias = parameters()
    gm, fakes, world, run = captured_dynamic(layer, x, weight, bias)
    compiled = resolve_backend(backend)(gm, fakes)
    assert backend == "inductor" or world.env.guards == []
    for rows in (5, 7, 2):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(run(compiled, x, weight, bias)[0], layer(x, weight, bias)[0])
        got = torch.autograd.grad(run(compiled, x, weight, bias)[0][:, 0].sum(), [weight, bias])
        wanted = torch.autograd.grad(layer(x, weight, bias)[0][:, 0].sum(), [weight, bias])
        torch.testing.assert_close(got, wanted)


def decides(gm, inputs):
    """A compiler of torch's that looks at sizes."""
    size = next(value for value in inputs if isinstance(value, torch.SymInt))
    assert size * 2 > 6 and size % 4 != 1
    return gm.forward


def test_what_the_compiler_decides_becomes_a_guard_of_the_frame():
    gm, fakes, world, run = captured_dynamic(lambda x: (x + 1,), torch.ones(6))
    compile_with(decides, gm, fakes)
    assert [(str(guard.sympy), guard.why) for guard in world.env.guards] == [
        ("s0 >= 4", Why.BACKEND),
        ("Ne((s0 % 4), 1)", Why.BACKEND),
    ]


def test_what_is_guarded_already_is_not_guarded_again():
    gm, fakes, world, run = captured_dynamic(lambda x: (x + 1,), torch.ones(6))
    assert fakes[0] >= 5 and fakes[0] % 4 == 2
    before = list(world.env.guards)
    compile_with(decides, gm, fakes)
    assert world.env.guards == before


def test_equalities_and_disjunctions_are_carried_over():
    gm, fakes, world, run = captured_dynamic(lambda x, y: (x + y,), torch.ones(6, 3), torch.ones(6, 3), duck_shape=False)
    assert fakes[0] == fakes[2] and bool(fakes[1] * 2 == fakes[0])
    bridge = Bridge(fakes)
    numbers = bridge.inputs()
    assert bridge.shape_env.guards and bool(numbers[2] == numbers[0])
    assert len(bridge.shape_env.guards) == bridge._known_guards
    assert bridge.inputs()[4].shape == numbers[4].shape


def test_a_disjunction_of_many_conjunctions_is_kept_from_torch_which_would_multiply_it_out():
    gm, fakes, world, run = captured_dynamic(lambda x, y: (x + y,), torch.ones(6, 7), torch.ones(6, 7), duck_shape=False)
    pairs = [(fakes[0] == n) & (fakes[1] == n + 1) for n in range(2, 26)]  # 2**24 clauses
    assert functools.reduce(operator.or_, pairs) and (fakes[0] > 4) & (fakes[2] < 9)
    bridge = Bridge(fakes)
    numbers = bridge.inputs()
    assert bool(numbers[0] > 4) and bool(numbers[2] < 9)
    assert len(bridge.shape_env.guards) == bridge._known_guards


def test_bounds_of_a_symbol_are_known_to_the_compiler():
    world = FakeWorld()
    n = world.symint(-3, LocalSource("n"))
    size = world.fakify(torch.ones(8), LocalSource("x"), [DimPolicy.DYNAMIC], [DimConstraint(min=4, max=16)])
    bridge = Bridge([n, size])
    theirs, fake = bridge.inputs()
    assert theirs.node.hint == -3 and bool(fake.size(0) <= 16) and bool(fake.size(0) >= 4)
    assert bridge.shape_env.guards == []


def test_an_empty_view_that_begins_late_has_a_storage():
    x = torch.ones(4, 5)[:0, 1:2]
    compiled = tracer.compile(lambda x: x * 2, backend=lambda gm, inputs: gm.forward)
    assert compiled(x).shape == (0, 1) and x.storage_offset() == 1


def test_a_backward_pass_that_is_compiled_at_its_first_use_warns_of_no_cache(caplog):
    @tracer.optimize("inductor")
    def fn(x):
        return torch.layer_norm(x.sin(), x.shape[-1:])

    fn(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("columns", [slice(3, 4), 3])
def test_a_view_beside_its_base_keeps_its_strides_behind_a_graph_break(columns, caplog):
    def program(x):
        y = x[:]
        tracer.graph_break()
        return x, torch.relu(y)

    x = torch.randn(2, 5)[:, columns].requires_grad_()
    result = tracer.compile(program, backend="inductor", dynamic=False)(x)
    torch.testing.assert_close(result, program(x))
    assert (
        "AssertionError" not in caplog.text
    )  # Inductor's code checks the strides of its inputs, and CPython runs the program where they differ
