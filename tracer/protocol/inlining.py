"""Which Python functions are traced through, and which frames are worth tracing on their own.

Modules with side effects that the tracer could not replay are opaque: calls of their functions are left to CPython.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from tracer import user_marks
from tracer.sources.reading import codes_in
from tracer.sources.roots import BuiltinSource, ModuleGlobalsSource, ObjectSource

if TYPE_CHECKING:
    from tracer.guards.base import Guard

# Modules whose functions are never traced through, as the tracer could not replay their side effects.
_OPAQUE_MODULES = (
    "tracer", "shapes", "torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch._subclasses",
    "torch.distributed", "torch.jit", "torch.onnx", "torch.export", "torch.profiler", "torch.cuda", "torch.mps",
    "torch.utils.data", "torch._logging", "torch.testing", "torch.multiprocessing", "torch.serialization",
    "torch.overrides", "torch.autograd.graph", "torch.package", "torch._guards", "torch.utils.cpp_extension",
    "importlib", "logging", "warnings", "threading", "traceback", "linecache", "asyncio", "unittest",
    "multiprocessing", "subprocess", "socket", "pdb", "bdb", "weakref", "random", "tempfile", "pickle", "json",
    "ctypes", "ast", "dis", "tokenize", "gc", "signal", "selectors", "queue", "concurrent", "numpy", "sympy", "z3",
    "pytest", "_pytest", "rich", "tqdm", "triton.runtime", "triton.compiler", "triton.backends", "triton.knobs", "triton.testing",
)  # fmt: skip


POLYFILLS = "tracer.library.polyfills."


def is_polyfill_module(name: Any) -> bool:
    """Whether a module holds the tracer's own Python versions of library functions."""
    return isinstance(name, str) and name.startswith(POLYFILLS)


def is_own_guard(guard: Guard) -> bool:
    """Whether a guard reads only what polyfills themselves refer to, which does not change."""
    for source in guard.sources():
        while source.base is not None:
            source = source.base
        of_polyfill = isinstance(source, ModuleGlobalsSource) and is_polyfill_module(source.module_name)
        if not (of_polyfill or isinstance(source, (BuiltinSource, ObjectSource))):
            return False
    return True


def transparent(*functions: types.FunctionType) -> None:
    """Declares functions of an opaque module that are traced through nevertheless, with the functions nested in them."""
    for function in functions:
        _transparent_codes.update(codes_in(function.__code__))


_transparent_codes: set[types.CodeType] = set()


_SCRIPTING_WRAPPER = torch.jit._script_if_tracing(lambda: None).__code__
_DISABLING_WRAPPER = torch._disable_dynamo(lambda: None).__code__


def is_disabled_by_torch(function: Any) -> bool:
    """Whether torch excludes a function (its `__wrapped__`) from its own compilers."""
    return isinstance(function, types.FunctionType) and function.__code__ is _DISABLING_WRAPPER


def allows_inlining(function: Any) -> bool:
    """Whether calls of this Python function are traced through."""
    if function.code is _SCRIPTING_WRAPPER:  # only calls its wrapped function, as nothing is scripted here
        return True
    value = getattr(function, "value", None)
    if value is not None and user_marks.is_opaque(value):
        return False
    module = function.globals.get("__name__")
    if function.code in _transparent_codes or (module, function.code.co_qualname) in _CALLERS:
        return True
    return not is_opaque_module(module)


# What torch.compile puts around a function that it would not trace by itself: a frame that only calls it. By name, since the
# module is loaded only where torch.compile was called.
_CALLERS = frozenset((("torch._dynamo.external_utils", "wrap_inline.<locals>.inner"),))


@functools.cache
def is_opaque_module(name: str | None) -> bool:
    """Whether a module is one whose functions are never traced through."""
    if is_polyfill_module(name) or name in _TRANSPARENT:
        return False
    while name:
        if name in _OPAQUE:
            return True
        name = name.rpartition(".")[0]
    return False


def may_be_root(name: str | None) -> bool:
    """Whether a frame of a module is worth tracing on its own when CPython calls it. Frames of the standard library and of
    torch's internals are not."""
    if name is None or is_opaque_module(name):
        return name is None
    package = name.partition(".")[0]
    if package == "torch":
        return name.startswith(_TRACED_PARTS_OF_TORCH) and name not in _NO_ROOTS
    return package not in sys.stdlib_module_names and package != "typing_extensions"


def forbids_tracing_below(name: str | None, code: types.CodeType) -> bool:
    """Whether nothing that a frame calls may be traced on its own. Such a frame runs the output of AOTAutograd (a backward pass,
    say), below which the program has no code, or runs under torch.utils.checkpoint, which runs the same code again later. As
    that matches saved tensors by their order, and may rerun where nothing is compiled, both runs must be eager. Or it is
    of `torch.compiler.disable`, and calls the function that is disabled."""
    if name is None:  # written by torch while it compiles
        return code.co_filename.startswith(_AOT_AUTOGRAD_FILES)
    if (name, code.co_qualname) == _DISABLING:
        return True
    return name.startswith(_AOT_AUTOGRAD) or name == "torch.utils.checkpoint"


def disabled_for_itself(function: types.FunctionType) -> types.FunctionType | None:
    """The function in a wrapper of `torch.compiler.disable(recursive=False)`: it is not to be compiled, unlike what it calls."""
    if function.__globals__.get("__name__") != _NOT_RECURSIVE:
        return None
    wrapped = function.__dict__.get("_torchdynamo_orig_callable") if "_torchdynamo_disable" in function.__dict__ else None
    return wrapped if isinstance(wrapped, types.FunctionType) else None


# By name, as `_CALLERS`.
_DISABLING = ("torch._dynamo.eval_frame", "DisableContext.__call__.<locals>._fn")
_NOT_RECURSIVE = "torch._dynamo.external_utils"
_AOT_AUTOGRAD = "torch._functorch._aot_autograd."
_AOT_AUTOGRAD_FILES = os.path.join(os.path.dirname(torch.__file__), "_functorch", "_aot_autograd", "")
_TRACED_PARTS_OF_TORCH = ("torch.nn.modules", "torch.nn.utils", "torch.optim", "torch.distributions", "torch.ao")
# The code that calls every module, and functions that autograd calls.
_NO_ROOTS = ("torch.nn.modules.module", "torch.nn.modules._functions")
_OPAQUE = frozenset(_OPAQUE_MODULES)
_TRANSPARENT = frozenset(
    (
        "tracer.api.module_proxy",  # wrappers of modules, which traced code may call
        "tracer.api.modules",
        "tracer.api.blocks",
        "torch.cuda.amp.autocast_mode",
        "torch.fx._pytree",  # flattens containers by a spec: exported graphs call it
        "torch.distributed._functional_collectives",
    )
)
