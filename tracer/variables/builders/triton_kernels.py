"""From Triton's kernels, and its functions of constants, to their tracked form. Triton is loaded by the program, if at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.graph.kernel_launches import function_of_kernel
from tracer.guards.identity import IdMatch
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder
from tracer.variables.builders.registry import tracks_later
from tracer.variables.functions.callables import CompiledFunctionVariable
from tracer.variables.objects.triton_kernels import KernelVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@tracks_later("triton.runtime.jit", "JITFunction")
@tracks_later("triton.runtime.autotuner", "Autotuner")
@tracks_later("triton.runtime.autotuner", "Heuristics")
@tracks_later("triton.runtime.interpreter", "InterpretedFunction")
def _kernel(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    _C.never_trace(function_of_kernel(value).__code__)  # which Triton's interpreter runs
    return builder.remember(value, KernelVariable(type(value), value, source))


@tracks_later("triton.runtime.jit", "ConstexprFunction")
def _function_of_constants(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    """A Python function that kernels may call, too, such as `triton.cdiv`: outside of them, its class only calls it."""
    builder.guard(IdMatch(source, value))
    function = tx.wrap(value.fn, GenericAttrSource(source, "fn"))
    return builder.remember(value, CompiledFunctionVariable(value, function, source))
