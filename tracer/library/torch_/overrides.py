"""Models of `torch.overrides`: plain tensors have no `__torch_function__`; whatever has one breaks the graph."""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.overrides import is_tensor_like

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.constant import boolean
from tracer.variables.objects import UserObjectVariable
from tracer.variables.opaque import OpaqueVariable
from tracer.variables.sequences import SequenceVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@models(
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
def _has_torch_function(tx: Tracer, *args: Value) -> Value:
    for arg in args:
        for value in arg.items(tx) if isinstance(arg, SequenceVariable) else (arg,):
            refuse_overrides(value)
    return boolean(False)


@models(is_tensor_like)
def _is_tensor_like(tx: Tracer, value: Value) -> Value:
    kind = value.python_type()
    return boolean(issubclass(kind, torch.Tensor) or hasattr(kind, "__torch_function__"))


def refuse_overrides(value: Value) -> None:
    """Breaks the graph for a value whose class overrides torch's functions."""
    if isinstance(value, (UserObjectVariable, OpaqueVariable)):
        kind = value.python_type()
        if kind not in _PLAIN and hasattr(kind, "__torch_function__"):
            unsupported("tensor-subclass", cls=kind.__qualname__, source=value.describe())
