"""Tensors whose class has a `__torch_dispatch__` of its own: wrappers around other tensors.

They keep their class in the graph, and an operation on one is one node. The result of the operation is found by tracing the
`__torch_dispatch__` (`interpreter.wrapper_dispatch`).
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fakes.wrapper_fakes import WrapperFake, has_plain_metadata, overridden_methods
from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import MISSING, is_data_descriptor, lookup
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource
from tracer.sources.reading import is_a, raw_attr
from tracer.variables.containers.lists import SequenceVariable
from tracer.variables.tensors.overrides import TensorSubclassVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.tensor_methods import tensor_method
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

# Queries of metadata, and methods that become operations of the graph. Other methods that have a model break the graph.
_METHODS = frozenset(
    "size stride storage_offset dim ndimension numel nelement is_contiguous is_floating_point is_complex is_signed element_size "
    "get_device is_neg is_conj is_same_size type new __len__ __getitem__ __setitem__ __iter__ narrow requires_grad_".split()
)


def is_wrapper_class(cls: type) -> bool:
    """Whether tensors of a class may be captured as they are. Besides a `__torch_dispatch__`, the class may define names that
    torch.Tensor lacks, and override methods that only calls by name reach."""
    if not issubclass(cls, torch.Tensor) or type(cls) not in (type(torch.Tensor), type(torch.nn.Parameter)):
        return False
    static = lookup(cls, "__torch_dispatch__")[1]
    if not is_a(static, classmethod) or not is_a(static.__func__, types.FunctionType):
        return False
    return all(_is_named_method(name, lookup(cls, name)[1]) for name in overridden_methods(cls))


def _is_named_method(name: str, static: Any) -> bool:
    """Whether an attribute is a method that only a call by this name reaches, and no operator or builtin."""
    return not name.startswith("__") and is_a(static, (types.FunctionType, classmethod, staticmethod))


def is_wrapper(value: torch.Tensor) -> bool:
    return is_wrapper_class(type(value)) and has_plain_metadata(value)


def refuse_wrappers(tx: Tracer, name: str, values: Iterable[VariableTracker]) -> None:
    """Breaks the graph for wrappers among the arguments of function `name`, whose model supports plain tensors only."""
    for value in values:
        if isinstance(value, WrapperVariable):
            unsupported("tensor-subclass", cls=value.cls.__qualname__, source=name)
        if isinstance(value, SequenceVariable):
            refuse_wrappers(tx, name, value.items(tx))


class WrapperVariable(TensorSubclassVariable):
    """A wrapper. `parts` are the attributes of one that an operation of the graph makes; tensors in them are only fakes."""

    def __init__(
        self, node: fx.Node, fake: torch.Tensor, source: Source | None, cls: type, parts: dict[str, VariableTracker] | None = None
    ) -> None:
        super().__init__(node, fake, source, cls)
        self.parts = parts or {}
        self._read: dict[str, VariableTracker] = {}

    def describe(self) -> str:
        return f"WrapperVariable({self.cls.__qualname__}, {self.node.name})"

    def reconstruct(self, cg: ValueCodegen) -> None:
        TensorVariable.reconstruct(self, cg)

    # -- attributes ------------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if self._shadows(tx, name):
            return self._instance_attr(tx, name)
        return super().get_attr(tx, name)

    def _shadows(self, tx: Tracer, name: str) -> bool:
        """Whether the tensor itself has an attribute of this name, such as `inner`, that takes precedence over the class's."""
        if tx.effects.attribute(self, name) is not None or not self._holds(tx, name):
            return False
        static = lookup(self.cls, name)[1]
        return static is MISSING or _is_slot(static) or not is_data_descriptor(static)

    def _holds(self, tx: Tracer, name: str) -> bool:
        if tx.effects.is_deleted(self, name):
            return False
        made = self.fake.flattened if isinstance(self.fake, WrapperFake) else None
        if tx.output.traces_wrapper and made is not None and name in made.lost:
            unsupported(
                "tensor-subclass", cls=self.cls.__qualname__, source=f"its .{name}, which __tensor_unflatten__ does not make"
            )
        if self.source is None:
            return name in self.parts
        try:
            raw_attr(self.real(tx), name)
        except AttributeError:
            return False
        return True

    def _is_in_instance(self, tx: Tracer, name: str) -> bool:
        return self._holds(tx, name) if self.source is None else super()._is_in_instance(tx, name)

    def _instance_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name not in self.parts:
            if self.source is None or not self._holds(tx, name):
                return super()._instance_attr(tx, name)
            return tx.wrap(raw_attr(self.real(tx), name), AttrSource(self.source, name))
        if name in self._read:
            return self._read[name]
        part = self._part(tx, self.parts[name], getattr, (self.node, name))
        if not tx.output.traces_wrapper:  # else the node that reads it will be dropped
            self._read[name] = part
        return part

    def _part(self, tx: Tracer, known: VariableTracker, read: Any, args: tuple[Any, ...]) -> VariableTracker:
        """The tracked form of an attribute's value, or of an item of it, which a node of the graph reads."""
        if known.is_constant() or known.source is not None:
            return known
        if isinstance(known, (TensorVariable, SymNodeVariable)):
            example = known.fake if isinstance(known, TensorVariable) else known.example
            return tx.output.wrap(tx.output.create_node("call_function", read, args, {}, example, pure=True), example)
        if known in tx.effects.handed_over:
            return known
        kinds = (tuple, torch.Size) if tx.output.traces_wrapper else (tuple, torch.Size, list)
        if isinstance(known, SequenceVariable) and known.cls in kinds:
            node = tx.output.create_node("call_function", read, args, {}, None, pure=True)
            copied = type(known)([self._part(tx, item, _item, (node, index)) for index, item in enumerate(known.items(tx))])
            if known.cls is list:
                tx.effects.handed_over.keep(copied, self.cls.__qualname__, tx.break_step())
            return copied
        unsupported("tensor-subclass", cls=self.cls.__qualname__, source=f"an attribute that holds {known.describe()}")

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if self.source is None and not tx.output.traces_wrapper or name == "data":
            unsupported("tensor-subclass", cls=self.cls.__qualname__, source=f"a store to .{name}")
        static = lookup(self.cls, name)[1]
        if static is MISSING or _is_slot(static) or not is_data_descriptor(static):
            tx.effects.store_attribute(self, name, value)
        else:
            super().set_attr(tx, name, value)

    # -- methods ---------------------------------------------------------------------------------------------------------

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if tx.effects.attribute(self, name) is not None or self._shadows(tx, name):
            return self.get_attr(tx, name).call(tx, args, kwargs)
        if self.own(name) is None:
            self.refuse_model_of(name)
        return super().call_method(tx, name, args, kwargs)

    def refuse_model_of(self, name: str) -> None:
        if tensor_method(name) is not None and name not in _METHODS:
            unsupported("tensor-subclass", cls=self.cls.__qualname__, source=name)


def _is_slot(static: Any) -> bool:
    return is_a(static, types.MemberDescriptorType)


def _item(items: tuple[Any, ...], index: int) -> Any:
    return items[index]
