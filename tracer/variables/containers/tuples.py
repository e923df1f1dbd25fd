"""tuple, torch.Size and named tuples."""

from __future__ import annotations

import collections
import copyreg
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import C_METHOD_TYPES, has_from_python, lookup
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import field_index, is_a
from tracer.sources.roots import ModuleGlobalsSource
from tracer.variables.containers.sequence_base import Item, SequenceVariable
from tracer.variables.slots import OPERATORS, UNARY_DUNDER
from tracer.variables.text import Rendered, form
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source


class TupleVariable(SequenceVariable):
    cls = tuple
    methods = Models("tuple method", SequenceVariable.methods)
    operands = (tuple,)

    def is_constant(self) -> bool:
        return all(isinstance(item, VariableTracker) and item.is_constant() for item in self._items)

    def constant(self) -> Any:
        return tuple(item.constant() for item in self._realized())

    def form(self, tx: Tracer) -> Any:
        return tuple(form(tx, item) for item in self.items(tx))

    def hash_key(self, tx: Tracer) -> Any:
        return tuple(item.hash_key(tx) for item in self.items(tx))

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        """As in CPython, a slice that holds all items is the same tuple object."""
        whole = len(items) == len(self._items) and all(map(_is, items, self._items))
        return self if whole and type(self) is TupleVariable else type(self)(items)

    def joined(self, items: list[VariableTracker]) -> VariableTracker:
        return TupleVariable(items)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "+" and not reflected and isinstance(other, SizeVariable) and not isinstance(self, SizeVariable):
            return None  # the reflected method of the subclass comes first
        return super().binary(tx, op, other, reflected)

    def concatenated(self, tx: Tracer, other: SequenceVariable) -> VariableTracker:
        """As in CPython, adding an empty tuple gives the other tuple object itself."""
        if type(self) is TupleVariable and not other._items:
            return self
        return other if type(other) is TupleVariable and not self._items else super().concatenated(tx, other)

    def multiplied(self, tx: Tracer, times: int) -> VariableTracker:
        return self if type(self) is TupleVariable and times == 1 else super().multiplied(tx, times)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.build_sequence("BUILD_TUPLE", self._items)


def _is(left: object, right: object) -> bool:
    return left is right


class SizeVariable(TupleVariable):
    """torch.Size"""

    cls = torch.Size
    methods = Models("torch.Size method", TupleVariable.methods)

    def constant(self) -> Any:
        return torch.Size(super().constant())

    def form(self, tx: Tracer) -> Any:
        return torch.Size(super().form(tx))

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        return SizeVariable(items)

    def joined(self, items: list[VariableTracker]) -> VariableTracker:
        if any(item.python_type() is not int for item in items):
            unsupported("call-arguments", error="a torch.Size of other things than ints")
        return SizeVariable(items)

    def concatenated(self, tx: Tracer, other: SequenceVariable) -> VariableTracker:
        return self.joined(self.items(tx) + other.items(tx))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        """Adding a tuple and a torch.Size gives a torch.Size, in either order."""
        if op == "+" and reflected and isinstance(other, TupleVariable):
            return self.joined(other.items(tx) + self.items(tx))
        return super().binary(tx, op, other, reflected)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(torch.Size, lambda: cg.build_sequence("BUILD_TUPLE", self._items))


@SizeVariable.methods("numel")
def _numel(tx: Tracer, self: SizeVariable, /) -> VariableTracker:
    product: VariableTracker = ConstantVariable(1)
    for item in self.items(tx):
        product = tx.binary("*", product, item)
    return product


@SizeVariable.methods("__reduce__", "__reduce_ex__")
def _reduce_size(tx: Tracer, self: SizeVariable, /, *protocol: VariableTracker) -> VariableTracker:
    return TupleVariable([tx.class_variable(torch.Size), TupleVariable([TupleVariable(self.items(tx))])])


_MODELLED = ("_replace", "_asdict")
_SPECIAL = (
    "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__init__", "__len__", "__length_hint__", "__bool__",
    "__iter__", "__reversed__", "__contains__", "__getitem__", "__setitem__", "__delitem__", "__hash__", "__call__", "__index__",
    "__int__", "__float__", "__complex__", "__abs__", "__round__", "__enter__", "__exit__", "__format__",
    *sorted(OPERATORS), *UNARY_DUNDER.values(), *(name.replace("__", "__i", 1) for name in sorted(OPERATORS)),
)  # fmt: skip


def acts_as_tuple(cls: type) -> bool:
    """Whether a named tuple class keeps the operators and other special methods that `collections.namedtuple` gave it."""
    return not any(has_from_python(cls, name) for name in _SPECIAL)


def is_named_tuple(cls: type) -> bool:
    """Whether instances of a tuple class are made of `collections.namedtuple` or are struct sequences."""
    return hasattr(cls, "_fields") or hasattr(cls, "n_sequence_fields")


def is_generated(static: Any) -> bool:
    """Whether `static` is a function that `collections.namedtuple` generated for a class."""
    return is_a(static, types.FunctionType) and static.__globals__ is vars(collections)


class NamedTupleVariable(TupleVariable):
    """An instance of a struct sequence (as torch.return_types.max) or of a `collections.namedtuple` class that acts as a tuple.
    Instances of other named tuple classes are tracked as objects that hold a tuple, and so are those from outside whose class
    has a dict (a subclass without `__slots__`). The dict of one that the trace makes is empty."""

    methods = Models("named tuple method", TupleVariable.methods)

    def __init__(self, items: Iterable[Item], cls: type, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.cls = cls  # type: ignore[assignment]  # narrower in the base

    def is_constant(self) -> bool:
        return False

    @property
    def fields(self) -> Sequence[str]:
        names = getattr(self.cls, "_fields", None)
        if names is None:  # a structseq, such as torch.return_types.max
            names = list(self.cls.__match_args__)  # type: ignore[attr-defined]  # every structseq has it
        return names

    def form(self, tx: Tracer) -> Any:
        """A real instance, which CPython can format and unpack, unless its formatting runs code of the program."""
        items = super().form(tx)
        if not hasattr(self.cls, "_fields"):
            return self.cls(items)
        if not is_generated(lookup(self.cls, "__repr__")[1]) or has_from_python(self.cls, "__str__"):
            return Rendered(tx, self)
        return tuple.__new__(self.cls, items)  # type: ignore[arg-type]  # a tuple class

    def text(self, tx: Tracer, kind: str) -> str:
        name = "__str__" if kind == "str" and has_from_python(self.cls, "__str__") else "__repr__"
        text: str = self.get_attr(tx, name).call(tx, [], {}).constant()
        return text

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        return TupleVariable(items)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        static = lookup(self.cls, name)[1]
        index = field_index(static)
        if index is not None:
            return self.item(tx, index)
        if name in self.fields and is_a(static, types.MemberDescriptorType):  # a field of a structseq
            return self.item(tx, list(self.fields).index(name))
        if name == "__class__":
            return tx.class_variable(self.cls, self)
        if name == "__dict__" and self.cls.__dictoffset__:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return tx.named_tuple_attr(self, name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name in self.fields:
            tx.raise_error(AttributeError, "can't set attribute")
        if self.cls.__dictoffset__:
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        super().set_attr(tx, name, value)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        static = lookup(self.cls, name)[1]
        if not isinstance(static, C_METHOD_TYPES) and not (name in _MODELLED and is_generated(static)):
            return self.get_attr(tx, name).call(tx, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if hasattr(self.cls, "_make"):
            items = self._items
            cg.call_object(tuple.__new__, lambda: cg.load_class(self.cls), lambda: cg.build_sequence("BUILD_TUPLE", items))
        else:
            cg.call_object(self.cls, lambda: cg.build_sequence("BUILD_TUPLE", self._items))


@NamedTupleVariable.methods("_replace")
def _replace(tx: Tracer, self: NamedTupleVariable, /, **kwargs: VariableTracker) -> VariableTracker:
    unknown = [name for name in kwargs if name not in self.fields]
    if unknown:
        tx.raise_error(ValueError, f"Got unexpected field names: {unknown!r}")
    items = [kwargs.get(name) or item for name, item in zip(self.fields, self.items(tx))]
    return NamedTupleVariable(items, self.cls)


@NamedTupleVariable.methods("_asdict")
def _asdict(tx: Tracer, self: NamedTupleVariable, /) -> VariableTracker:
    return tx.new_dict(dict(zip(self.fields, self.items(tx))))


@NamedTupleVariable.methods("__reduce__", "__reduce_ex__")
def _reduce(tx: Tracer, self: NamedTupleVariable, /, *protocol: VariableTracker) -> VariableTracker:
    if not hasattr(self.cls, "_fields"):
        unsupported("unsupported-method", value=self.describe(), name="__reduce_ex__")
    new = tx.wrap(copyreg.__newobj__, ModuleGlobalsSource("copyreg", "__newobj__"))  # type: ignore[attr-defined]  # typeshed lacks it
    return TupleVariable([new, TupleVariable([tx.class_variable(self.cls, self), *self.items(tx)])])
