"""`copy.copy` and `copy.deepcopy` of tensors, where an operation of the graph has the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph_breaks import unsupported
from tracer.guards.memory import FillsStorage, MemoryApart, fills_storage
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.values.identities import IdVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.tensor import TensorVariable

_PARAMETER_COPY = as_written(torch.nn.Parameter.__deepcopy__)


class MemoVariable(DictVariable):
    """The memo of one `copy.deepcopy`, which nothing else fills. `of_values`: copies of values without an identity."""

    def __init__(self) -> None:
        super().__init__({})
        self.of_values: dict[VariableTracker, VariableTracker] = {}


def shallow_copy(tx: Tracer, tensor: TensorVariable) -> VariableTracker:
    """Another tensor over the same memory."""
    _refuse_what_is_more_than_data(tx, tensor, "__copy__")
    return tx.output.call_method("detach", (tensor.node,), {})


def deep_copy(tx: Tracer, tensor: TensorVariable, memo: VariableTracker) -> VariableTracker:
    """Copies a tensor as clone() does. Copies of tensors that share memory would have to share memory as well, so those break
    the graph. A parameter's copy has its own memory in any case."""
    if tensor.cls is torch.nn.Parameter:
        return tx.inline(_PARAMETER_COPY, [tensor, memo], {})
    if not isinstance(memo, DictVariable) or (memo.entries and not isinstance(memo, MemoVariable)):
        unsupported("data-dependent-method", value=tensor.describe(), name="__deepcopy__")
    if not tensor.fake.is_contiguous() or not _fills_its_storage(tx, tensor):
        unsupported("data-dependent-method", value=tensor.describe(), name="__deepcopy__")
    _refuse_what_is_more_than_data(tx, tensor, "__deepcopy__")
    for key, _ in memo.pairs(tx):
        other: Any = key.value if isinstance(key, IdVariable) else None
        if hasattr(other, "fake"):
            _rely_on_own_memory(tx, tensor, other)
    return tx.output.call_method("clone", (tensor.node,), {})


def _fills_its_storage(tx: Tracer, tensor: TensorVariable) -> bool:
    """Whether the tensor fills its storage, guarded for inputs. deepcopy copies the whole storage, a clone only the tensor."""
    fake = tensor.fake
    storage = storage_of(fake)
    inputs = [item for item in tx.output.inputs.values() if isinstance(item.fake, torch.Tensor)]
    holders = [item for item in inputs if storage_of(item.fake) == storage]
    if not holders:
        return bool(fake.storage_offset() == 0) and bool(fake.untyped_storage().nbytes() == fake.numel() * fake.itemsize)
    for item in holders:
        if fills_storage(item.real) and bool(item.fake.numel() == fake.numel()):
            tx.guard(FillsStorage(item.source))
            return True
    return False


def _refuse_what_is_more_than_data(tx: Tracer, tensor: TensorVariable, name: str) -> None:
    """Breaks the graph for a tensor with a gradient, attributes of its own, or lazy conjugation."""
    fake = tensor.fake
    plain = tensor.cls is torch.Tensor and not (fake.requires_grad or fake.is_conj() or fake.is_neg())
    if not plain or tx.effects.attributes(tensor) or not tensor.get_attr(tx, "grad").is_none():
        unsupported("data-dependent-method", value=tensor.describe(), name=name)
    if tensor.source is not None:
        attributes = tx.wrap(tensor.real(tx).__dict__, GenericAttrSource(tensor.source, "__dict__"))
        if attributes.truth(tx):
            unsupported("data-dependent-method", value=f"{tensor.describe()}, which has attributes of its own", name=name)


def _rely_on_own_memory(tx: Tracer, tensor: TensorVariable, other: TensorVariable) -> None:
    """Breaks the graph if the two share a storage; if both are in the memory of inputs, guards that they do not."""
    mine, others = storage_of(tensor.fake), storage_of(other.fake)
    if mine == others:
        beside = f"{tensor.describe()}, beside one that shares its memory,"
        unsupported("data-dependent-method", value=beside, name="__deepcopy__")
    inputs = [item for item in tx.output.inputs.values() if isinstance(item.fake, torch.Tensor)]
    found = [next((item.source for item in inputs if storage_of(item.fake) == each), None) for each in (mine, others)]
    sources = tuple([source for source in found if source is not None])
    if len(sources) == len(found):
        tx.guard(MemoryApart(sources, (1,), True))
