"""Models of what modules of torch.nn do beside computing: weak references to weights, first calls."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.rnn import RNNBase

from tracer.errors import NotNow
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.constant import ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker


@models(RNNBase._weights_have_changed)
def _weights_have_changed(tx: Tracer, module: Value) -> Value:
    """The flat weights are the parameters themselves, which the guards then demand of every call."""
    names = module.get_attr(tx, "_flat_weights_names").unpack(tx)
    weights = module.get_attr(tx, "_flat_weights").unpack(tx)
    if len(names) != len(weights):
        return boolean(True)
    for name, weight in zip(names, weights):
        if not tx.is_same(weight, _get(tx, module, name)):
            return boolean(True)
    return boolean(False)


@models(LazyModuleMixin._infer_parameters)
def _infer_parameters(tx: Tracer, module: Value, *args: Value, **kwargs: Value) -> Value:
    """The first call of a lazy module makes it another one, which is traced when the next call comes."""
    raise NotNow("a lazy module is initialised by its first call: call it once before")


def _get(tx: Tracer, module: Value, name: Value) -> Value:
    model: Any = models.get(getattr)
    return model(tx, module, name, ConstantVariable(None))  # type: ignore[no-any-return]


@models(torch.distributed.is_available)
def _is_available(tx: Tracer) -> Value:
    return boolean(torch.distributed.is_available())
