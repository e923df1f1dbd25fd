"""Launches of Triton kernels that are left to CPython, and what happens where one fails."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import tracer
from tests.support import breaks, check, check_made
from tracer import optimize

triton = pytest.importorskip("triton", reason="triton: pip install triton")

from tests.support import triton_kernels as kernels  # noqa: E402
from tests.support.triton_kernels import add, add_kernel, on_the_cpu, scale_kernel  # noqa: E402

assert on_the_cpu
pytestmark = pytest.mark.usefixtures("on_the_cpu")
X, Y = torch.arange(40.0), torch.linspace(-1, 1, 40)


def breaks_for_compilers(program, *args):
    """The graph breaks at the launch if the backend compiles, and else not."""
    assert breaks(program, *args).break_ids == ["kernel-launch"]
    assert not check_made(program, lambda: (tuple(arg.clone() for arg in args), {}), as_written=True).breaks


def test_two_parts_of_one_tensor_that_are_written_to_break_the_graph_for_compilers():
    def program(x):
        n = x.numel() // 2
        kernels.swap_kernel[(1,)](x[:n], x[n:], n, 128)
        return x * 2

    breaks_for_compilers(program, X)


def test_parts_that_overlap_break_the_graph_for_compilers():
    def program(x):
        x = x + 0
        add_kernel[(1,)](x[1:], x[1:], x[:-1], x.numel() - 1, 128)
        return x * 2

    breaks_for_compilers(program, X)


def test_functions_as_constants_break_the_graph_for_compilers():
    def program(x, y):
        kernels.map_kernel[(1,)](x, y, x.numel(), kernels.square, 128)
        return y + 1

    breaks_for_compilers(program, X, Y)


def test_configurations_that_are_pruned_break_the_graph_for_compilers():
    pruned = triton.autotune(
        kernels.configs(16, 32),
        ["n"],
        prune_configs_by={"early_config_prune": lambda configs, named, **others: configs[1:]},
        do_bench=kernels.timings,
    )(add_kernel)
    breaks_for_compilers(lambda x, y: add(x, y, pruned), X, Y)


def test_the_result_of_a_launch_is_what_triton_compiled():
    def program(x, y):
        out = torch.empty_like(x)
        return out, add_kernel[(3,)](x, y, out, x.numel())

    assert check(program, X, Y).result[1] == "the compiled kernel"
    with pytest.raises(tracer.errors.Unsupported, match="cannot-reconstruct"):
        optimize("eager", fullgraph=True)(program)(X, Y)


@pytest.mark.parametrize("options", [{"num_ctas": 1}, {"maxnreg": 64}])
def test_options_that_compilers_do_not_know_break_the_graph_for_them(options):
    def program(x, y):
        return add(x, y, **options)

    breaks_for_compilers(program, X, Y)


def test_arguments_that_cannot_be_captured_break_the_graph():
    hooked = triton.autotune(kernels.configs(16, pre_hook=lambda args: args["out"].zero_()), [])(add_kernel)
    for program in (
        lambda x, y: add(x, y, hooked),
        lambda x, y: add(x, y.tolist()[0], kernel=None) if x is None else add_kernel[lambda meta: 3](x, y, x, 1) or x,
        lambda x, y: add_kernel[(1,)](x, y) or x,
    ):
        assert "kernel-launch" in breaks(program, X, Y).break_ids


def test_a_kernel_that_does_not_compile_raises_in_the_programs_own_block():
    def program(x):
        try:
            kernels.failing_kernel[(1,)](x, x.numel(), BLOCK=16)
        except Exception as error:
            return x + 1, type(error).__name__
        return x

    assert not check_made(program, lambda: ((X.clone(),), {}), as_written=True).breaks


def test_what_a_kernel_has_written_is_not_written_twice_where_the_graph_fails_behind_it(monkeypatch):
    """Kernels do not count versions of tensors, and tensors of a device are not copied."""
    monkeypatch.setattr("tracer.effects.rollback.SMALL", 0)

    def program(x):
        scale_kernel[(3,)](x, 3.0, x.numel(), 16)
        kernels.failing_kernel[(1,)](x, x.numel(), BLOCK=16)

    traced, x = optimize("eager", fullgraph=True)(program), X.clone()
    with pytest.raises(triton.runtime.errors.InterpreterError):
        traced(x)
    torch.testing.assert_close(x, X * 3)


def test_the_interpreters_kernels_are_left_to_it():
    text = """
import os; os.environ["TRITON_INTERPRET"] = "1"
import torch, tracer
from tests.support.triton_kernels import add, tuned_add
for kernel in (None, tuned_add):
    program = lambda x, y: add(x, y, *([kernel] if kernel else [])) * 2
    torch.testing.assert_close(tracer.optimize("eager")(program)(torch.ones(5), torch.ones(5)), torch.full((5,), 4.0))
print(tracer.explain(lambda x, y: add(x, y))(torch.ones(5), torch.ones(5)))
"""
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "InterpretedFunction" in run.stdout, run.stdout + run.stderr
