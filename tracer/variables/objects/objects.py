"""Objects of user classes: calls, operators, iteration and so on call the special methods of the class.

`instances` defines how those methods and other attributes are looked up.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import lookup, storage_base
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.sources.reading import is_a, is_heap_type
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.marked_calls import heed_marks
from tracer.variables.objects.instances import InstanceVariable
from tracer.variables.slots import UNARY_DUNDER
from tracer.variables.text import form
from tracer.variables.values.constant import ConstantVariable, boolean
from tracer.variables.values.special_results import checked_iterator, checked_length, checked_truth, contains_by_iteration

if TYPE_CHECKING:
    from tracer.protocol.tracer import Load, Tracer, ValueCodegen


class UserObjectVariable(InstanceVariable):
    def describe(self) -> str:
        return f"UserObjectVariable({self.cls.__qualname__})"

    def graph_arg(self) -> Any:
        """The plain value, for an instance of a subclass of a number or string class."""
        return self.storage.graph_arg() if isinstance(self.storage, ConstantVariable) else super().graph_arg()

    # -- calls and operators -------------------------------------------------------------------------------------

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        heed_marks(tx, self.value, f"an object of class {self.cls.__qualname__}")
        short = tx.module_call(self)
        if short is not None:
            return short.resolve_call(tx, args, kwargs)
        method = self.special(tx, "__call__")
        if method is None:
            tx.raise_error(TypeError, f"{self.cls.__name__!r} object is not callable")
        return method.resolve_call(tx, args, kwargs)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        target, args, kwargs = self.resolve_call(tx, args, kwargs)
        return target.call(tx, args, kwargs)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """A call as C code makes it: special methods are looked up on the class."""
        method = self.special(tx, name) if name.startswith("__") and name.endswith("__") else None
        return super().call_method(tx, name, args, kwargs) if method is None else method.call(tx, args, kwargs)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        return self._operator(tx, tx.dunder(op, "r" if reflected else ""), other)

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return self._operator(tx, tx.dunder(op, "i"), other)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        result = self._operator(tx, tx.dunder(op), other)
        if result is None and op == "!=" and lookup(self.cls, "__ne__")[0] is object:
            equal = self._operator(tx, "__eq__", other)
            return None if equal is None else boolean(not equal.truth(tx))
        return result

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return self.call_special(tx, UNARY_DUNDER[op])

    def _operator(self, tx: Tracer, name: str, other: VariableTracker) -> VariableTracker | None:
        result = self.call_special(tx, name, other)
        if result is None or (result.is_constant() and result.constant() is NotImplemented):
            return None
        return result

    # -- text ----------------------------------------------------------------------------------------------------

    def text(self, tx: Tracer, kind: str) -> str:
        for name in ("__str__", "__repr__") if kind == "str" else ("__repr__",):
            owner, static = lookup(self.cls, name)
            if owner is object:  # object.__str__ calls __repr__
                continue
            if is_a(static, types.FunctionType):
                text = self._call_class_function(tx, name, [])
                if text.is_constant() and isinstance(text.constant(), str):
                    constant: str = text.constant()
                    return constant
                break
            if owner in (list, dict, tuple) and self.storage is not None:
                return repr(form(tx, self.storage))
            if isinstance(self.storage, ConstantVariable) and is_a(static, types.WrapperDescriptorType):
                found: str = static(self.storage.value)
                return found
            if owner is types.SimpleNamespace:
                return self._namespace_text(tx)
            break
        return super().text(tx, kind)  # this includes the default repr, which shows an address

    def _namespace_text(self, tx: Tracer) -> str:
        pairs = tx.instance_dict(self, self.value).snapshot(tx).pairs(tx)
        name = "namespace" if self.cls is types.SimpleNamespace else self.cls.__name__
        return f"{name}({', '.join(f'{key.constant()}={form(tx, value)!r}' for key, value in pairs)})"

    def format(self, tx: Tracer, spec: str) -> str:
        _, static = lookup(self.cls, "__format__")
        if not is_a(static, types.FunctionType):
            if isinstance(self.storage, ConstantVariable) and type(self.storage.value).__format__ is static:
                if not spec:
                    return self.text(tx, "str")
                return format(self.storage.value, spec)
            return super().format(tx, spec)
        text = self._call_class_function(tx, "__format__", [ConstantVariable(spec)])
        found: str = text.constant()
        return found

    def truth(self, tx: Tracer) -> bool:
        result = self.call_special(tx, "__bool__")
        if result is not None:
            return checked_truth(tx, result)
        length = self.call_special(tx, "__len__")
        return True if length is None else checked_length(tx, length).truth(tx)

    def length(self, tx: Tracer) -> VariableTracker:
        result = self.call_special(tx, "__len__")
        if result is None:
            tx.raise_error(TypeError, f"object of type {self.cls.__name__!r} has no len()")
        return checked_length(tx, result)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        result = self.call_special(tx, "__getitem__", key)
        if result is None:
            tx.raise_error(TypeError, f"{self.cls.__name__!r} object is not subscriptable")
        return result

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        if self.call_special(tx, "__setitem__", key, value) is None:
            tx.raise_error(TypeError, f"{self.cls.__name__!r} object does not support item assignment")

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        if self.call_special(tx, "__delitem__", key) is None:
            tx.raise_error(TypeError, f"{self.cls.__name__!r} object doesn't support item deletion")

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        result = self.call_special(tx, "__contains__", item)
        if result is not None:
            return boolean(result.truth(tx))
        return contains_by_iteration(tx, self, item)

    def iterate(self, tx: Tracer) -> VariableTracker:
        result = self.call_special(tx, "__iter__")
        if result is not None:
            return checked_iterator(tx, result)
        if self.special(tx, "__getitem__") is not None:
            return tx.getitem_iterator(self)
        tx.raise_error(TypeError, f"{self.cls.__name__!r} object is not iterable")

    def measured(self, tx: Tracer) -> VariableTracker:
        iterator = self.iterate(tx)
        try:
            length = self.call_special(tx, "__len__")
            if length is not None:
                checked_length(tx, length)
                return iterator
        except ObservedException as raised:
            if not is_exception(raised.value, TypeError):
                raise
        if self.special(tx, "__length_hint__") is not None:
            unsupported("unsupported-iteration", value=f"{self.describe()}, which has __length_hint__")
        return iterator

    def collect(self, tx: Tracer) -> list[VariableTracker]:
        return self.measured(tx).drain(tx)

    def next(self, tx: Tracer) -> VariableTracker | None:
        try:
            result = self.call_special(tx, "__next__")
        except ObservedException as raised:
            if is_exception(raised.value, StopIteration):
                return None
            raise
        if result is None:
            tx.raise_error(TypeError, f"{self.cls.__name__!r} object is not an iterator")
        return result

    def hash_key(self, tx: Tracer) -> Any:
        owner, static = lookup(self.cls, "__hash__")
        if static is None:
            tx.raise_error(TypeError, f"unhashable type: {self.cls.__name__!r}")
        if owner in (object, torch.nn.Module) and lookup(self.cls, "__eq__")[0] is object:
            tx.effects.cached.refuse_identity(self, "a key")
            return tx.trace.hashed.by_identity(self)
        builtin = isinstance(lookup(self.cls, "__eq__")[1], types.WrapperDescriptorType)
        if self.storage is not None and builtin and is_a(static, types.WrapperDescriptorType):
            return self.storage.hash_key(tx)
        if is_a(static, types.FunctionType):
            return tx.trace.hashed.hash(tx, self)
        unsupported("unhashable-in-trace", value=self.describe())

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        if isinstance(self.storage, VariableTracker) and issubclass(self.cls, tuple):
            cg.call_object(tuple.__new__, lambda: cg.load_class(self.cls), functools.partial(cg.load, self.storage))
        else:
            solid = next(base for base in self.cls.__mro__ if not is_heap_type(base))  # the base whose __new__ CPython accepts
            loads: list[Load] = [lambda: cg.load_class(self.cls)]
            if isinstance(self.storage, ConstantVariable):
                loads.append(functools.partial(cg.load, self.storage))
            cg.call_object(solid.__new__, *loads)

    def hashed(self) -> Iterable[VariableTracker]:
        return () if self.storage is None else self.storage.hashed()

    def fill(self, cg: ValueCodegen) -> None:
        if self.storage is not None and not isinstance(self.storage, (ConstantVariable, TupleVariable)):
            cg.fill_storage(self, storage_base(self.cls))
        cg.store_attributes(self)

    def replay(self, cg: ValueCodegen) -> None:
        cg.store_attributes(self)
