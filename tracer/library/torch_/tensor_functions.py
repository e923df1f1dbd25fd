"""Models of functions that are methods of tensors: the methods that `torch.Tensor` defines in Python, called through the class
(`torch.Tensor.split(x, 2)`), and `torch.narrow`."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _method(name: str) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        if not args or not isinstance(args[0], TensorVariable):
            unsupported("unsupported-method", value="something else than a plain tensor", name=name)
        return args[0].call_method(tx, name, list(args[1:]), kwargs)

    return model


models.of_plain_tensors(torch.narrow)(_method("narrow"))
models.of_plain_tensors(torch.select)(_method("select"))
for _name, _function in vars(torch.Tensor).items():
    if isinstance(_function, types.FunctionType) and models.get(_function) is None:
        models.of_plain_tensors(_function)(_method(_name))
