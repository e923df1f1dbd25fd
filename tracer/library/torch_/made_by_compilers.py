"""Calls of what torch's older compilers made of Python code: functions of TorchScript, and graph modules of FX."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import graph_module

from tracer.graph_breaks import unsupported
from tracer.protocol.inlining import transparent
from tracer.protocol.models import instance_models
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ObjectSource

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.functions.callables import CallableVariable

Value = VariableTracker


@instance_models.of_plain_tensors(torch._C.ScriptFunction)
def _scripted(tx: Tracer, callee: CallableVariable, *args: Value, **kwargs: Value) -> Value:
    """A function that torch.jit.script compiled is traced through as it was written, one that torch.jit.trace recorded is called
    in the graph."""
    written = getattr(callee.value, "_torchdynamo_inline", None)  # torch notes it for compilers
    if isinstance(written, types.FunctionType):
        name = f"the function that {callee.value.name} was compiled from"
        return tx.wrap(written, ObjectSource(written, name)).call(tx, list(args), kwargs)
    if not tx.output.runs_as_written:
        unsupported("unsupported-builtin", function=f"{callee.value.name}, a graph of TorchScript")
    return tx.call_in_graph(callee.value, list(args), kwargs)


def _nested(function: types.FunctionType, name: str) -> types.FunctionType:
    """The function of this name that a function makes, for its code."""
    codes: list[Any] = [code for code in function.__code__.co_consts if isinstance(code, types.CodeType)]
    return types.FunctionType(next(code for code in codes if code.co_name == name), {})


transparent(
    _nested(torch.fx.GraphModule.recompile, "call_wrapped"),
    vars(graph_module._WrappedCall)["__call__"],
    torch.fx.ProxyableClassMeta.__call__,
)
