"""Models of `copy.copy` and `copy.deepcopy`. Apart from what is special to tensors, they are traced through."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.functions.python_functions import as_written
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.tensor_copies import MemoVariable, shallow_copy
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_COPY = as_written(copy.copy)
_DEEP_COPY = as_written(copy.deepcopy)


@models.of_plain_tensors(copy.copy)
def _copy(tx: Tracer, value: VariableTracker, /) -> VariableTracker:
    if isinstance(value, TensorVariable) and value.python_type() is torch.Tensor:
        return shallow_copy(tx, value)
    return tx.inline(_COPY, [value], {})


@models.of_plain_tensors(copy.deepcopy)
def _deepcopy(tx: Tracer, value: VariableTracker, memo: VariableTracker = NONE) -> VariableTracker:
    """A graph break inside breaks at the whole call: CPython's memo would not have the storages that the graph copied."""
    return tx.inline(_DEEP_COPY, [value, MemoVariable({}) if memo.is_none() else memo], {})
