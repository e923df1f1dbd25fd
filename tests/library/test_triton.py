"""Launches of Triton kernels are operations of the graph. Here Triton's interpreter runs the kernels, on the CPU; what a device
computes, `test_triton_on_a_device` compares."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, captured
from tests.support.regions import dynamic, entries
from tracer import optimize

triton = pytest.importorskip("triton", reason="triton: pip install triton")
tl = pytest.importorskip("triton.language")

from torch.library import triton_op, wrap_triton  # noqa: E402

from tests.support import triton_kernels as kernels  # noqa: E402
from tests.support.triton_kernels import add, add_kernel, on_the_cpu, scale_kernel, tuned_add  # noqa: E402

assert on_the_cpu
pytestmark = pytest.mark.usefixtures("on_the_cpu")
X, Y = torch.arange(40.0), torch.linspace(-1, 1, 40)
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def launch_names(checked: Any) -> list[str]:
    return [name for name in checked.operations if name.startswith("launch_")]


def same_for_sizes(program: Any, backend: str, sizes: tuple[int, ...] = (5, 40, 77), compiled: int = 2) -> None:
    """Runs a program of two tensors in CPython and traced, for each size."""
    traced = optimize(backend, fullgraph=True)(program)
    for size in sizes:
        x, y = torch.randn(size), torch.randn(size)
        same, too = x.clone(), y.clone()
        torch.testing.assert_close(traced(x, y), program(same, too))
        torch.testing.assert_close((x, y), (same, too))
    assert len(entries(traced)) <= compiled


# -- forms of a launch ---------------------------------------------------------------------------------------------------


@BACKENDS
def test_the_grid_is_a_tuple(backend):
    def program(x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 16),)](x, y, out, n, BLOCK=16)
        return out * 2

    same_for_sizes(program, backend)


@BACKENDS
def test_the_grid_is_a_function_of_the_arguments(backend):
    def program(x, y):
        out, n = torch.empty_like(x), x.numel()

        def grid(meta):
            assert list(meta) == ["x", "y", "out", "n", "BLOCK"]
            return triton.cdiv(meta["n"], meta["BLOCK"]), 1

        add_kernel[grid](x, y, out, n)
        return out

    same_for_sizes(program, backend)


@BACKENDS
def test_arguments_are_given_by_name_with_options_of_the_compiler(backend, on_the_cpu):
    def program(x, y):
        out = torch.zeros_like(x)
        add_kernel[triton.cdiv(x.numel(), 32), 1, 1](n=x.numel(), out=out, y=y, x=x, BLOCK=32, num_warps=2, num_stages=1)
        return out

    same_for_sizes(program, backend)
    assert [options["num_warps"] for _, options in on_the_cpu] == [2] * 6


@BACKENDS
def test_a_kernel_launched_by_run_and_a_launcher_that_is_kept(backend):
    def program(x, y):
        out, n = torch.empty_like(x), x.numel()
        launch = add_kernel[(triton.cdiv(n, 16),)]
        launch(x, y, out, n)
        add_kernel.run(out, y, out, n, grid=(triton.cdiv(n, 16),), warmup=False)
        return out

    same_for_sizes(program, backend)


@BACKENDS
def test_a_float_that_varies(backend):
    def program(x, factor):
        out = x.clone()
        scale_kernel[(3,)](out, factor, x.numel(), 16)
        return out

    traced = optimize(backend, fullgraph=True)(program)
    for factor in (0.5, 1.5, 2.5, 4.5):
        torch.testing.assert_close(traced(X, factor), program(X, factor))


@BACKENDS
def test_constants_are_guarded(backend):
    def program(x, bias, to):
        out = torch.empty(x.shape, dtype=torch.float64 if to is tl.float64 else x.dtype)
        kernels.convert_kernel[(3,)](x, bias, out, x.numel(), TO=to, BLOCK=16)
        return out

    traced = optimize(backend, fullgraph=True)(program)
    for given in ((X, Y, tl.float32), (X, None, tl.float32), (X, Y, tl.float64)):
        torch.testing.assert_close(traced(*given), program(*given))
    assert len(entries(traced)) == 3


def test_a_size_that_is_a_constant_of_the_kernel_is_guarded():
    def program(x):
        return add(x, x, BLOCK=x.shape[0])

    traced = dynamic(program)
    for size in (16, 32):
        torch.testing.assert_close(traced(torch.ones(size)), torch.full((size,), 2.0))
    assert len(entries(traced)) == 2


def test_a_block_from_a_size_serves_sizes_up_to_the_next_power_of_2():
    def program(x):
        return add(x, x, BLOCK=triton.next_power_of_2(x.shape[0]))

    traced = dynamic(program)
    for size in (17, 20, 32, 31):
        torch.testing.assert_close(traced(torch.ones(size)), torch.full((size,), 2.0))
    assert len(entries(traced)) == 1
    traced(torch.ones(33))
    assert len(entries(traced)) == 2


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 3, 64, 65, 2**33 + 1])
def test_next_power_of_2_of_numbers_of_any_kind(n):
    captured(lambda x, n: x + triton.next_power_of_2(n) + triton.cdiv(n, 7), X, n)


# -- kernels -------------------------------------------------------------------------------------------------------------


class Holds(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kernels = {"add": add_kernel}
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, y):
        return add(x, y, self.kernels["add"]) * self.weight


def test_kernels_are_globals_closures_and_attributes():
    kernel = add_kernel
    same_for_sizes(lambda x, y: add(x, y, kernel), "eager")
    module = Holds()
    same_for_sizes(lambda x, y: module(x, y).detach(), "eager")


def test_another_kernel_is_another_entry():
    def program(x, y, kernel):
        return add(x, y, kernel)

    traced = optimize("eager", fullgraph=True)(program)
    again = triton.jit(add_kernel.fn)
    for kernel in (add_kernel, again, tuned_add, add_kernel):
        torch.testing.assert_close(traced(X, Y, kernel), X + Y)
    assert len(entries(traced)) == 3


@BACKENDS
def test_an_autotuned_kernel_has_a_grid_for_each_configuration(backend):
    asked = []

    def program(x, y):
        out, n = torch.empty_like(x), x.numel()

        def grid(meta):
            asked.append(meta["BLOCK"])
            return (triton.cdiv(n, meta["BLOCK"]),)

        tuned_add[grid](x, y, out, n)
        return out

    traced = optimize(backend, fullgraph=True)(program)
    torch.testing.assert_close(traced(X, Y), X + Y)
    assert asked == [16, 32]
    same_for_sizes(lambda x, y: add(x, y, tuned_add), backend)


@BACKENDS
def test_heuristics_around_and_inside_an_autotuned_kernel(backend):
    inside = triton.autotune(kernels.configs(16, 32), ["n"], do_bench=kernels.timings)(
        triton.heuristics({"bias": lambda args: None, "TO": lambda args: tl.float32})(kernels.convert_kernel)
    )
    around = triton.heuristics({"TO": lambda args: tl.float32 if args["bias"] is None else tl.float64})(
        triton.autotune(kernels.configs(16, 32), ["n"], do_bench=kernels.timings)(kernels.convert_kernel)
    )

    def program(x, y):
        out, grid = torch.empty_like(x), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)
        around[grid](x, None, out, x.numel())
        around[grid](x, y, out, x.numel())
        inside[grid](out, out=out, n=x.numel())
        return out

    same_for_sizes(program, backend)
    same_for_sizes(lambda x, y: add(x, y, kernels.heuristic_add), backend, compiled=3)


def test_a_configuration_gives_what_the_kernel_takes_as_a_parameter(on_the_cpu):
    @triton.autotune([triton.Config({}, num_warps=2), triton.Config({}, num_warps=8)], ["n"], do_bench=kernels.timings)
    @triton.jit
    def count_warps(out, n, num_warps: tl.constexpr):
        tl.store(out, num_warps)

    def program(x, y):
        count_warps[lambda meta: (meta["num_warps"] // meta["num_warps"],)](x, x.numel())
        return x[:1] + 0

    for backend in ("eager", "aot_eager"):
        same_for_sizes(program, backend)


@triton.jit
def tell_warps(out, num_warps: tl.constexpr):
    tl.store(out, num_warps)


@BACKENDS
def test_an_option_of_the_launch_is_a_parameter_of_the_kernel_too(backend):
    def program(x, y):
        tell_warps[(1,)](x, num_warps=2)
        tell_warps[(1,)](y, 4)
        return x[:1] + y[:1]

    same_for_sizes(program, backend)


# -- what a kernel writes to -----------------------------------------------------------------------------------------------


@BACKENDS
def test_several_launches_write_to_one_tensor(backend):
    def program(x, y):
        out, grid = torch.zeros_like(x), (triton.cdiv(x.numel(), 16),)
        for turn in range(3):
            add_kernel[grid](out, y, out, x.numel())
            scale_kernel[grid](out, 0.5 + turn, x.numel(), 16)
        before = out.clone()
        scale_kernel[grid](out, 2.0, x.numel(), 16)
        return before, out, out.sum()

    same_for_sizes(program, backend)


@BACKENDS
def test_a_launch_writes_to_an_input_and_to_a_part_of_a_tensor(backend):
    def program(x, y):
        both, n = torch.empty(2, x.numel()), x.numel()
        grid = (triton.cdiv(n, 16),)
        scale_kernel[grid](x, 3.0, n, 16)
        add_kernel[grid](x, y, both[0], n)
        add_kernel[grid](x, both[0], both[1], n)
        return both, both.sum(0)

    same_for_sizes(program, backend)


@BACKENDS
def test_a_launch_without_results_that_are_used(backend):
    def program(x, y):
        scale_kernel[(triton.cdiv(x.numel(), 16),)](x, 3.0, x.numel(), 16)

    same_for_sizes(program, backend)


@BACKENDS
def test_a_part_of_the_tensor_that_is_written_to_is_read(backend):
    def program(x, y):
        packed = torch.stack((x, y, x), dim=1)
        add_kernel[(1,)](packed[:, 0].contiguous(), y, packed.view(-1)[: x.numel()], x.numel(), 128)
        rows = torch.stack((x, y, x))
        add_kernel[(1,)](rows[0], rows[1], rows[2], x.numel(), 128)
        return packed, rows, rows[2] + 1

    same_for_sizes(program, backend)


def test_data_that_are_known_are_not_known_behind_a_launch():
    def program(x):
        known = torch.tensor([2.0])
        scale_kernel[(1,)](known, 3.0, 1, 16)
        return x * known.item()

    breaks(program, X)


def test_rows_are_not_proved_independent_where_a_kernel_is_launched():
    def program(x):
        out = x * 1.5
        scale_kernel[(1,)](out, 2.0, x.numel(), 512)
        return out

    made = optimize("eager")(program)
    tracer.precompile(made, "x: B, _; B in 2..64", torch.ones(4, 5))
    (region,) = made.contract().data["regions"]
    assert "triton_kernel_wrapper_mutation" in region["rows"]["B"]


def test_inputs_that_only_kernels_read_do_not_count_as_written_to(on_the_cpu):
    graphs = captured(lambda x, y: add(x, y), X, Y).graphs
    (launch,) = [node.target for node in graphs[0].graph.nodes if node.name.startswith("launch")]
    assert launch.written == {"out"}


# -- gradients -------------------------------------------------------------------------------------------------------------


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return add(x, y)

    @staticmethod
    def backward(ctx, gradient):
        return add(gradient, gradient), add(gradient, gradient, tuned_add)


@BACKENDS
def test_forward_and_backward_of_an_autograd_function(backend):
    program = lambda x, y: Add.apply(x * 3, y).sin().sum()
    traced = optimize(backend, fullgraph=True)(program)
    for size in (5, 40, 77):
        runs = []
        for run in (program, traced):
            x, y = torch.linspace(0, 1, size, requires_grad=True), torch.ones(size, requires_grad=True)
            run(x, y).backward()
            runs.append((x.grad, y.grad))
        torch.testing.assert_close(*runs)
    assert len(entries(traced)) == 2


class Scale(torch.autograd.Function):
    """Its backward writes to the gradient and to what it has saved."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        scale_kernel[(3,)](gradient, 2.0, gradient.numel(), 16)
        scale_kernel[(3,)](y, 5.0, y.numel(), 16)
        return gradient, y


@BACKENDS
def test_kernels_write_to_the_gradient_and_to_saved_tensors_in_backward(backend):
    program = lambda x, y: Scale.apply(x.cos(), y * 2).sin().sum()
    runs = []
    for run in (program, optimize(backend, fullgraph=True)(program)):
        x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
        run(x, y).backward()
        runs.append((x.grad, y.grad, x.detach(), y.detach()))
    torch.testing.assert_close(*runs)


def test_backward_writes_to_an_input_only_where_the_graph_is_not_compiled():
    program = lambda x, y: Scale.apply(x, y).sin().sum()
    runs = []
    for run in (program, optimize("eager", fullgraph=True)(program), optimize("aot_eager")(program)):
        x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
        run(x, y).backward()
        runs.append((x.grad, y.grad, x.detach(), y.detach()))
    torch.testing.assert_close(runs[1], runs[0])
    torch.testing.assert_close(runs[2], runs[0])
    with pytest.raises(tracer.errors.Unsupported, match="effect-in-subgraph"):
        optimize("aot_eager", fullgraph=True)(program)(X.clone().requires_grad_(), Y.clone().requires_grad_())


@BACKENDS
def test_a_launch_leaves_no_trace_in_autograd(backend):
    def program(x, y):
        out = x * 2
        scale_kernel[(3,)](out, 3.0, x.numel(), 16)
        return add(x, y), out

    traced = optimize(backend, fullgraph=True)(program)
    runs = []
    for run in (program, traced):
        x = X.clone().requires_grad_()
        new, out = run(x, Y)
        out.sum().backward()
        runs.append((new, new.requires_grad, out.detach(), x.grad))
    torch.testing.assert_close(*runs)


# -- torch's own wrappers --------------------------------------------------------------------------------------------------


@triton_op("shapetracer_tests::launched_add", mutates_args={})
def launched_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out, n = torch.empty_like(x), x.numel()
    wrap_triton(add_kernel)[(triton.cdiv(n, 16),)](x, y, out, n, BLOCK=16)
    return out


@triton_op("shapetracer_tests::launched_scale", mutates_args={"x"})
def launched_scale(x: torch.Tensor, factor: float) -> None:
    wrap_triton(scale_kernel)[(triton.cdiv(x.numel(), 16),)](x, factor, x.numel(), BLOCK=16)


@BACKENDS
def test_operators_that_launch_kernels(backend):
    def program(x, y):
        out = launched_add(x, y)
        launched_scale(out, 2.0)
        launched_scale(x, 3.0)
        return out + x

    same_for_sizes(program, backend)


@BACKENDS
def test_a_wrapped_kernel_in_a_traced_program(backend):
    same_for_sizes(lambda x, y: add(x, y, wrap_triton(add_kernel), BLOCK=16), backend)


def test_the_table_of_kernels_may_be_emptied():
    traced = optimize("eager", fullgraph=True)(lambda x, y: add(x, y) * 2)
    traced(X, Y)
    kernel_wrap = pytest.importorskip("torch._higher_order_ops.triton_kernel_wrap")
    kernel_wrap.kernel_side_table.reset_table()
    torch.testing.assert_close(traced(X, Y), (X + Y) * 2)
    assert tracer.region_of(traced)
