"""Other people's backends, which hand our graph and inputs to PyTorch's tools: right results at every size of one compile."""

from __future__ import annotations

import types

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

import tracer
from tests.backends.compilers import aot, boxed
from tests.backends.programs import mlp, weight_and_bias

ROWS = (6, 7, 12, 5, 33)
full = pytest.mark.full


def interpreted(gm, example_inputs):
    """A forward or backward compiler that checks that each size is known, and runs the graph node by node."""
    assert all(isinstance(value, (FakeTensor, torch.SymInt, int)) for value in example_inputs)
    assert all("val" in node.meta for node in gm.graph.nodes if node.op == "call_function")
    return make_boxed_func(fx.Interpreter(gm).run)


def aot_with_two_compilers_and_a_partitioner(gm, example_inputs):
    return aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=boxed,
        bw_compiler=interpreted,
        inference_compiler=interpreted,
        partition_fn=min_cut_rematerialization_partition,
    )


def aot_with_decompositions(gm, example_inputs):
    from torch._decomp import core_aten_decompositions

    return aot_module_simplified(
        gm, example_inputs, fw_compiler=interpreted, bw_compiler=interpreted, decompositions=core_aten_decompositions()
    )


def inductor(gm, example_inputs):
    return compile_fx(gm, example_inputs)


def inductor_inside_aot(gm, example_inputs):
    return aot_module_simplified(
        gm, example_inputs, fw_compiler=compile_fx_inner, bw_compiler=boxed, decompositions=select_decomp_table()
    )


def fake_propagation(gm, example_inputs):
    mode = next(value for value in example_inputs if isinstance(value, FakeTensor)).fake_mode
    outputs = FakeTensorProp(gm, mode).propagate(*example_inputs)
    examples = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    assert [tuple(out.shape) for out in outputs] == [tuple(node.meta["example_value"].shape) for node in examples]
    return gm.forward


def shape_propagation(gm, example_inputs):
    ShapeProp(gm).propagate(*example_inputs)
    metas = [node.meta["tensor_meta"] for node in gm.graph.nodes if isinstance(node.meta.get("example_value"), torch.Tensor)]
    assert metas and all(isinstance(meta.shape, torch.Size) for meta in metas)
    return gm.forward


def retraced(gm, example_inputs):
    """An export of sorts: ATen operations with symbolic sizes, without autograd."""
    with torch.no_grad():
        traced = make_fx(gm, tracing_mode="symbolic")(*example_inputs)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    assert all(isinstance(node.target, torch._ops.OpOverload | types.BuiltinFunctionType) for node in calls(traced))
    return gm.forward if torch.is_grad_enabled() else traced


def calls(gm):
    return [node for node in gm.graph.nodes if node.op.startswith("call_")]


def split_and_compiled(gm, example_inputs):
    """Half of the graph in each of two submodules, both compiled from the example values of their inputs."""
    first = set(calls(gm)[: len(calls(gm)) // 2])
    split = split_module(gm, gm, lambda node: int(node not in first), tuple_return=True)
    for name, part in list(split.named_children()):
        inputs = [node.meta["example_value"] for node in part.graph.nodes if node.op == "placeholder"]
        setattr(split, name, Wrapped(aot(part, inputs)))
    return split


class Wrapped(torch.nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


COMPILERS = [
    aot, aot_with_two_compilers_and_a_partitioner, aot_with_decompositions, aot_autograd(fw_compiler=boxed),
    aot_autograd(fw_compiler=boxed, bw_compiler=interpreted), fake_propagation, shape_propagation, retraced,
    split_and_compiled, inductor, inductor_inside_aot,
]  # fmt: skip
SLOW = (inductor, inductor_inside_aot)


def attention(x, weight, bias):
    q = F.linear(x, weight, bias)
    scores = q @ q.transpose(0, 1) / x.shape[0]
    mask = torch.ones(x.shape[0], x.shape[0]).tril() > 0
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x[: x.shape[0]]


def halves(x, weight, bias):
    half = x.shape[0] // 2
    return torch.cat([F.layer_norm(x, x.shape[-1:])[:half] * 2, x[half:].new_zeros(x.shape[0], 3)]), x.t() + weight.sum()


def in_place(x, weight, bias):
    h = x.clone()
    h[: x.shape[0] // 2].add_(weight.sum())
    return h.mul_(2), torch.arange(x.shape[0]) + h[:, 0]


PROGRAMS = [mlp, attention, halves, in_place]
CASES = [
    pytest.param(compiler, program, marks=() if compiler not in SLOW and (compiler is aot or program is attention) else full)
    for compiler in COMPILERS
    for program in PROGRAMS
]


def counting(compiler):
    def backend(gm, example_inputs):
        backend.inputs.append(example_inputs)
        return compiler(gm, example_inputs)

    backend.inputs = []
    return backend


def results(program, x, weights):
    out = program(x, *weights)
    outs = out if isinstance(out, tuple) else (out,)
    if not torch.is_grad_enabled():
        return outs
    return (*outs, *torch.autograd.grad(sum((o / 100).sin().sum() for o in outs), [x, *weights], allow_unused=True))


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("compiler", "program"), CASES, ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_one_compile_is_right_at_every_size(compiler, program, training):
    if (compiler, program) == (split_and_compiled, in_place):
        pytest.skip("AOTAutograd refuses a part whose inputs are a tensor and a view of it that it changes")
    backend, weights = counting(compiler), weight_and_bias()
    fn = tracer.compile(program, backend=backend, dynamic=True)
    with torch.set_grad_enabled(training):
        for rows in ROWS:
            x = torch.randn(rows, 3, requires_grad=True)
            torch.testing.assert_close(results(fn, x, weights), results(program, x, weights), atol=1e-4, rtol=1e-4)
    assert len(backend.inputs) == 1
    assert any(isinstance(value, torch.SymInt) for value in backend.inputs[0])


# -- what a backend decides, and when --------------------------------------------------------------------------------


def plus_one(x):
    return x + 1


def guards_of(fn):
    return [entry.guarded_code.guards_text for entry in tracer.region_of(fn).entries()]


def test_a_decision_on_a_size_becomes_a_guard_of_the_frame():
    def decides(gm, example_inputs):
        if example_inputs[0] * 2 > 10:
            return lambda *args: [2 * out for out in gm.forward(*args)]
        return gm.forward

    fn = tracer.compile(plus_one, backend=decides, dynamic=True)
    for rows in (6, 9, 3, 5, 4):
        x = torch.randn(rows, 11)
        assert torch.equal(fn(x), plus_one(x) * (2 if rows > 5 else 1))
    larger, smaller = sorted(guards_of(fn))[::-1]
    assert "6 <= L['x'].size()[0]" in larger + smaller and "L['x'].size()[0] <= 5" in larger + smaller


def test_a_decision_on_a_tensors_layout_becomes_a_guard_of_the_frame():
    def decides(gm, example_inputs):
        tensor = example_inputs[-1]
        assert tensor.numel() % 2 == 0 and tensor.is_contiguous() and tensor.shape[0] != 8
        return gm.forward

    fn = tracer.compile(plus_one, backend=decides, dynamic=True)
    fn(torch.randn(6, 3))
    fn(torch.randn(10, 5))
    (text,) = guards_of(fn)
    assert "% 2 == 0" in text and "!= 8" in text


def test_decisions_inside_of_a_tool_become_guards():
    def retraces(gm, example_inputs):
        def program(*args):
            (out,) = gm(*args)
            return out * 2 if args[-1].shape[0] > 7 else out

        with torch.no_grad():
            return list_of(make_fx(program, tracing_mode="symbolic")(*example_inputs))

    fn = tracer.compile(plus_one, backend=retraces, dynamic=True)
    with torch.no_grad():
        for rows in (12, 9, 7, 4, 8):
            x = torch.randn(rows, 3)
            assert torch.equal(fn(x), plus_one(x) * (2 if rows > 7 else 1))
    assert len(guards_of(fn)) == 2


def list_of(traced):
    return lambda *args: [traced(*args)]


def test_a_decision_that_comes_too_late_is_an_error_and_the_program_runs():
    seen = []

    def late(gm, example_inputs):
        def run(*args):
            try:
                bool(example_inputs[0] > 5)
            except RuntimeError as error:
                seen.append(str(error))
                raise
            raise AssertionError("the decision was lost")

        return run

    fn = tracer.compile(plus_one, backend=late, dynamic=True)
    x = torch.randn(6, 3)
    assert torch.equal(fn(x), plus_one(x))
    assert "after it returned" in seen[0]


def test_a_compiler_that_waits_for_data_asks_for_real_inputs_and_gets_constant_sizes():
    compiles = []

    def waits(gm, example_inputs):
        assert not any(isinstance(value, FakeTensor | torch.SymInt) for value in example_inputs)
        compiles.append(example_inputs)
        return aot_function(gm.forward, fw_compiler=boxed, bw_compiler=boxed)

    waits.needs_real_inputs = True
    fn, weights = tracer.compile(mlp, backend=waits, dynamic=True), weight_and_bias()
    for rows in ROWS:
        x = torch.randn(rows, 3, requires_grad=True)
        torch.testing.assert_close(results(fn, x, weights), results(mlp, x, weights))
    assert [inputs[0].shape[0] for inputs in compiles] == list(ROWS)


def test_symbols_have_the_names_of_the_graph():
    def looks(gm, example_inputs):
        names = [node.name for node in gm.graph.nodes if isinstance(node.meta.get("example_value"), torch.SymInt)]
        assert names == [str(value) for value in example_inputs if isinstance(value, torch.SymInt)] == ["s0", "s1"]
        return gm.forward

    fn = tracer.compile(plus_one, backend=looks, dynamic=True)
    fn(torch.randn(6, 3))


def test_a_backend_hands_on_what_it_was_given():
    from tracer.backends.registry import lookup_backend

    def outer(gm, example_inputs):
        return lookup_backend("aot_eager")(gm, example_inputs)

    fn, weights = tracer.compile(mlp, backend=outer, dynamic=True), weight_and_bias()
    for rows in ROWS:
        x = torch.randn(rows, 3, requires_grad=True)
        torch.testing.assert_close(results(fn, x, weights), results(mlp, x, weights))


@pytest.mark.parametrize("compiler", [aot, retraced])
def test_values_that_depend_on_data(compiler):
    def program(x, weight, bias):
        n = x.sum().long().item()
        torch._check(n >= 2)
        torch._check(n <= 100)
        return torch.zeros(n, 3) + x[0], x.nonzero() + x.shape[0]

    backend = counting(compiler)
    with torch.no_grad(), tracer.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        fn = tracer.compile(program, backend=backend, dynamic=True, fullgraph=True)
        for rows in ROWS:
            x = torch.ones(rows, 3)
            torch.testing.assert_close(fn(x, None, None), program(x, None, None))
    assert len(backend.inputs) == 1


def test_a_gradient_of_a_gradient_inside_the_graph_passes_through():
    def program(x):
        y = x.sin().exp()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
        return first, second

    x = torch.tensor(1.0, requires_grad=True)
    for traced, expected in zip(tracer.compile(program, backend=aot, fullgraph=True)(x), program(x)):
        torch.testing.assert_close(traced, expected)
