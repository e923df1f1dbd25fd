"""Triton kernels, and how they run on the CPU. Imported where Triton is installed only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver, jit
from triton.runtime.interpreter import InterpretedFunction

from tracer import _C

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def timings(run: Any, quantiles: Any = None) -> list[float]:
    """Runs one configuration of an autotuned kernel. All take equally long."""
    run()
    return [1.0, 1.0, 1.0]


class Device:
    """What Triton asks of a driver to compile for a device, which need not be there."""

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_benchmarker(self) -> Any:
        return timings


def interpreted(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    """In the place of `JITFunction.run`: Triton's interpreter runs the kernel."""
    launched.append((self.__name__, {key: value for key, value in kwargs.items() if key in _OPTIONS}))
    kwargs = {key: value for key, value in kwargs.items() if key not in _OPTIONS or key in self.arg_names}
    plain = {key: getattr(value, "fn", value) for key, value in kwargs.items()}
    InterpretedFunction(self.fn).run(*(getattr(arg, "fn", arg) for arg in args), grid=grid, warmup=warmup, **plain)
    return "the compiled kernel"


_C.never_trace(interpreted.__code__)
launched: list[tuple[str, dict[str, Any]]] = []  # the kernels that have run, with the options of the launches


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Kernels run on tensors of the CPU. Gives `launched`."""
    monkeypatch.setattr(jit.JITFunction, "run", interpreted)
    monkeypatch.setattr(driver, "_active", Device())
    launched.clear()
    return launched


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def scale_kernel(x, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def convert_kernel(x, bias, out, n, TO: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    if bias is not None:
        value += tl.load(bias + i, mask=i < n)
    tl.store(out + i, value.to(TO), mask=i < n)


@triton.jit
def swap_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(x + i, b, mask=i < n)
    tl.store(y + i, a, mask=i < n)


@triton.jit
def square(x):
    return x * x


@triton.jit
def map_kernel(x, out, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, FUNCTION(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def failing_kernel(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 1000)
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 0.0, mask=i < n)


def configs(*blocks: int, **settings: Any) -> list[Any]:
    return [triton.Config({"BLOCK": block}, **settings) for block in blocks]


tuned_add = triton.autotune(configs(16, 32), ["n"], do_bench=timings)(add_kernel)
heuristic_add = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(add_kernel)


def add(x: torch.Tensor, y: Any, kernel: Any = add_kernel, **options: Any) -> torch.Tensor:
    out, n = torch.empty_like(x), x.numel()
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, **options)
    return out
