"""Models of `copy.copy` and `copy.deepcopy`. Apart from tensors and objects that C makes, they are traced through."""

from __future__ import annotations

import copy
import enum
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.guards.constants import LIBRARY_VALUES
from tracer.library.polyfills import copy_ as polyfills
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.ranges import SliceVariable
from tracer.variables.containers.sets import FrozenSetVariable
from tracer.variables.containers.tuples import SizeVariable
from tracer.variables.functions.callables import PartialVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.tensor_copies import MemoVariable, shallow_copy
from tracer.variables.values.constant import NONE, ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_COPY = as_written(copy.copy)
_DEEP_COPY = as_written(copy.deepcopy)
_REMEMBERED = as_written(polyfills.remembered)
_PARTIAL = as_written(polyfills.copied_partial)
_DEEP_PARTIAL = as_written(polyfills.deeply_copied_partial)
_COPIED_BY_C = (*LIBRARY_VALUES, torch.device)


@models.of_plain_tensors(copy.copy)
def _copy(tx: Tracer, value: VariableTracker, /) -> VariableTracker:
    if isinstance(value, TensorVariable) and value.python_type() is torch.Tensor:
        return shallow_copy(tx, value)
    if _is_plain_partial(tx, value):
        return tx.inline(_PARTIAL, [value], {})
    return _constant_copy(tx, copy.copy, value) or tx.inline(_COPY, [value], {})


@models.of_plain_tensors(copy.deepcopy)
def _deepcopy(tx: Tracer, value: VariableTracker, memo: VariableTracker = NONE) -> VariableTracker:
    """A graph break inside breaks at the whole call: CPython's memo would not have the storages that the graph copied."""
    if memo.is_none():
        memo = MemoVariable()
    if _is_plain_partial(tx, value):
        return tx.inline(_REMEMBERED, [value, memo, _DEEP_PARTIAL, memo], {})
    known = memo.of_values.get(value) if isinstance(memo, MemoVariable) else None
    made = known or _constant_copy(tx, copy.deepcopy, value)
    if made is None:
        return tx.inline(_DEEP_COPY, [value, memo], {})
    if isinstance(memo, MemoVariable):
        memo.of_values[value] = made
    return made


def _is_plain_partial(tx: Tracer, value: VariableTracker) -> bool:
    """Whether a partial object has no attributes of its own, which its copy would have to have as well."""
    if not isinstance(value, PartialVariable) or value.cls is not functools.partial or tx.effects.attributes(value):
        return False
    return value.value is None or not tx.instance_dict(value, value.value).truth(tx)


def _constant_copy(tx: Tracer, copier: Callable[[Any], Any], value: VariableTracker) -> VariableTracker | None:
    """The copy, which is another object, of a value that C copies and that holds none of the program's; None for other values."""
    if isinstance(value, ConstantVariable) and isinstance(value.value, (*_COPIED_BY_C, np.generic)):
        return None if isinstance(value.value, enum.Enum) else tx.literal(copier(value.value))
    if copier is copy.deepcopy and _is_of_numbers(value):
        return SliceVariable(*value.parts) if isinstance(value, SliceVariable) else SizeVariable(value.unpack(tx))
    if isinstance(value, FrozenSetVariable) and copier is copy.deepcopy and value.is_constant() and value.truth(tx):
        return tx.literal(copier(value.constant()))
    return None


def _is_of_numbers(value: VariableTracker) -> bool:
    """Whether it is a slice or a torch.Size of numbers, some of which may be symbolic."""
    of_numbers = isinstance(value, (SliceVariable, SizeVariable))
    return of_numbers and all(part.is_constant() or isinstance(part, SymNodeVariable) for part in value.children())
