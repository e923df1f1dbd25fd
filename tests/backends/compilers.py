"""Backends that tests share."""

from __future__ import annotations

from functorch.compile import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified


def boxed(gm, example_inputs):
    return make_boxed_func(gm.forward)


def aot(gm, example_inputs):
    return aot_module_simplified(gm, example_inputs, fw_compiler=boxed, bw_compiler=boxed)
