"""Models of functions that are methods of tensors: the methods that `torch.Tensor` defines in Python, called through the class
(`torch.Tensor.split(x, 2)`), `torch.narrow` and selection by a mask."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.library.torch_.sizes_by_data import of_constants
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


@models.of_plain_tensors(torch.masked_select)
def _masked_select(tx: Tracer, input: Value, mask: Value, **kwargs: Value) -> Value:
    """For compilers it is indexing with the mask: they differentiate it, and the backward of `masked_select` fixes the sizes. See
    `operators.function_rules` for graphs that run as written, whose results keep the `grad_fn` that they have in CPython."""
    known = of_constants(tx, torch.masked_select, [input, mask], kwargs)
    if known is not None:
        return known
    if (
        tx.output.runs_as_written or kwargs
        or not isinstance(input, TensorVariable) or not isinstance(mask, TensorVariable)
        or mask.fake.dtype is not torch.bool or input.fake.device != mask.fake.device
    ):  # fmt: skip
        return tx.call_in_graph(torch.masked_select, [input, mask], kwargs)
    both = tx.call_in_graph(torch.broadcast_tensors, [input, mask], {}).unpack(tx)
    return both[0].get_item(tx, both[1])


models.of_plain_tensors(torch.narrow)(_method("narrow"))
models.of_plain_tensors(torch.select)(_method("select"))
for _name, _function in vars(torch.Tensor).items():
    if isinstance(_function, types.FunctionType) and models.get(_function) is None:
        models.of_plain_tensors(_function)(_method(_name))
