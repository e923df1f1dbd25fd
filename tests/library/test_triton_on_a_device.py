"""Kernels launched by graphs on a device compute what the program computes, under each backend."""

from __future__ import annotations

import pytest
import torch

from tests.support.regions import entries
from tracer import optimize

triton = pytest.importorskip("triton", reason="triton: pip install triton")
if not torch.cuda.is_available():
    pytest.skip("a CUDA device, and torch built for it", allow_module_level=True)

from tests.library.test_triton import Add, launched_add, launched_scale  # noqa: E402
from tests.support import triton_kernels as kernels  # noqa: E402
from tests.support.triton_kernels import add, add_kernel, scale_kernel  # noqa: E402

tuned = triton.autotune(kernels.configs(16, 32), ["n"])(add_kernel)
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])


def written_in_place(x, y):
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, 3.0, x.numel(), 64)
    return add(x, y, BLOCK=64) * 2


def several_launches(x, y):
    out = torch.zeros_like(x)
    for turn in range(3):
        add(out, y)
        scale_kernel[(triton.cdiv(x.numel(), 64),)](out, 0.5 + turn, x.numel(), 64)
        add_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](out, y, out, x.numel())
    return out, out.sum()


def parts(x, y):
    rows = torch.stack((x, y, x))
    add_kernel[(1,)](rows[0], rows[1], rows[2], x.numel(), 1024)
    return rows


def operators(x, y):
    out = launched_add(x, y)
    launched_scale(out, 2.0)
    return out + 1


PROGRAMS = {
    "plain": lambda x, y: add(x, y, BLOCK=64) + 1,
    "options": lambda x, y: add(x, y, BLOCK=64, num_warps=2, num_stages=2),
    "autotuned": lambda x, y: add(x, y, tuned) * 2,
    "written in place": written_in_place,
    "several launches": several_launches,
    "parts of a packed tensor": parts,
    "operators": operators,
    "gradients": lambda x, y: Add.apply(x * 2, y).sin().sum(),
}


@BACKENDS
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_launches(name, backend):
    program = PROGRAMS[name]
    traced = optimize(backend, fullgraph=True)(program)
    for size in (100, 301, 517):
        outcomes = []
        for run in (program, traced):
            torch.manual_seed(size)
            x, y = (torch.randn(size, device="cuda", requires_grad=name == "gradients") for _ in range(2))
            result = run(x, y)
            if name == "gradients":
                result.backward()
            outcomes.append((result, x, y, x.grad, y.grad))
        torch.testing.assert_close(*outcomes)
    assert len(entries(traced)) <= 2
