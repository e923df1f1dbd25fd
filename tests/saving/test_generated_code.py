"""Inductor's code without its compiler, where the compiler is not needed; with all that the code reads, where it is."""

from __future__ import annotations

import ast
import types

from torch._inductor.async_compile import AsyncCompile

from tracer.saving.generated_code import _without_compiler

HEAD = """
import torch
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
"""
# As for a GPU: kernels are compiled where the module runs, or are found in the bundle that is saved beside it.
ON_A_GPU = """
kernel = async_compile.triton('kernel', 'source', device_str='cuda')
async_compile.wait(globals())
del async_compile
def call(args):
    return kernel.run(torch.empty_like(args[0]))
"""
WITHOUT_KERNELS = """
async_compile.wait(globals())
del async_compile
def call(args):
    return torch.empty_like(args[0])
"""


def without_compiler(source):
    return _without_compiler(ast.parse(HEAD + source), {"AsyncCompile": AsyncCompile})


def test_code_that_compiles_its_kernels_imports_the_compiler():
    source, libraries = without_compiler(ON_A_GPU)
    assert not libraries
    namespace = types.SimpleNamespace(triton=lambda *_, **__: "compiled", wait=lambda scope: scope.update(waited=True))
    ran = {}
    exec(source.replace("AsyncCompile()", "given(AsyncCompile)"), ran | {"given": lambda _: namespace}, ran)
    assert ran["kernel"] == "compiled" and ran["AsyncCompile"] is AsyncCompile


def test_code_without_such_kernels_does_not():
    source, _ = without_compiler(WITHOUT_KERNELS)
    assert "compile" not in source
