"""Models of what modules of torch.nn do besides computing: they make parameters and buffers, check whether weights have changed,
and are initialised by their first call if they are lazy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.rnn import RNNBase

from tracer.errors import NotNow
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.tensors.created_leaves import no_leaf_can_be_made
from tracer.variables.tensors.parameters import make_parameter
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, TRUE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_WEIGHTS_HAVE_CHANGED = as_written(RNNBase._weights_have_changed)


@models.of_plain_tensors(torch.nn.Parameter)
def _parameter(tx: Tracer, data: Value = NONE, requires_grad: Value = TRUE) -> Value:
    return make_parameter(tx, _plain_data(tx, torch.nn.Parameter, data), requires_grad.truth(tx))


@models.of_plain_tensors(torch.nn.Buffer)
def _buffer(tx: Tracer, data: Value = NONE, *, persistent: Value = TRUE) -> Value:
    plain = _plain_data(tx, torch.nn.Buffer, data)
    if plain.fake.requires_grad:
        unsupported("tensor-subclass", cls="Buffer", source="data that require a gradient")
    made = tx.output.call_method("detach", (plain.node,), {})
    tx.effects.store_attribute(made, "persistent", persistent)
    tx.effects.store_attribute(made, "_is_buffer", TRUE)
    return made


def _plain_data(tx: Tracer, cls: type, data: Value) -> TensorVariable:
    """The tensor that a parameter or buffer is made of."""
    if data.is_none():
        data = tx.call_library(CallableVariable(torch.empty), [ConstantVariable(0)], {})
    special = no_leaf_can_be_made(tx) or tx.trace.overrides.active
    if special or not isinstance(data, TensorVariable) or data.cls not in (torch.Tensor, torch.nn.Parameter):
        unsupported("tensor-subclass", cls=cls.__qualname__, source="a constructor call")
    return data


@models.of_plain_tensors(RNNBase._weights_have_changed)
def _weights_have_changed(tx: Tracer, module: Value) -> Value:
    """Tests whether the flat weights are the parameters themselves. For a module that existed before, guards then require the
    same of every call."""
    if module.source is None:
        return tx.inline(_WEIGHTS_HAVE_CHANGED, [module], {})
    names = module.get_attr(tx, "_flat_weights_names").unpack(tx)
    weights = module.get_attr(tx, "_flat_weights").unpack(tx)
    if len(names) != len(weights):
        return boolean(True)
    for name, weight in zip(names, weights):
        if not tx.is_same(weight, _get(tx, module, name)):
            return boolean(True)
    return boolean(False)


@models.of_plain_tensors(LazyModuleMixin._infer_parameters)
def _infer_parameters(tx: Tracer, module: Value, *args: Value, **kwargs: Value) -> Value:
    """The first call of a lazy module changes the module itself, so it is traced at the next call."""
    raise NotNow("a lazy module is initialised by its first call: call it once before")


def _get(tx: Tracer, module: Value, name: Value) -> Value:
    model: Any = models.get(getattr)
    result: Value = model(tx, module, name, ConstantVariable(None))
    return result


def _is_strided(fake: torch.Tensor) -> bool:
    return fake.layout is torch.strided and fake.device.type in ("cpu", "cuda")


@models.of_plain_tensors(torch._has_compatible_shallow_copy_type)
def _has_compatible_shallow_copy_type(tx: Tracer, tensor: Value, other: Value) -> Value:
    """Whether `tensor.data = other` is possible."""
    for each in (tensor, other):
        plain = isinstance(each, TensorVariable) and each.cls in (torch.Tensor, torch.nn.Parameter) and _is_strided(each.fake)
        if not plain:
            unsupported("call-arguments", error=f"_has_compatible_shallow_copy_type of {each.describe()}")
    return TRUE


@models.of_plain_tensors(torch.distributed.is_available)
def _is_available(tx: Tracer) -> Value:
    return boolean(torch.distributed.is_available())
