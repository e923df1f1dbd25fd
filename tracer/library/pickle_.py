"""Models of `pickle`: dumps of plain values that are known while tracing. Everything else is left to CPython."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_WITHOUT_MEMO = (int, float, bool, type(None))


class _Copied:
    """A plain value as CPython's objects. A pickle refers back to an object that it has written: equal texts are written twice or
    once, as they are two objects or one. A trace does not know that, and refuses them. It knows one container from another."""

    def __init__(self, tx: Tracer) -> None:
        self._tx = tx
        self._texts: set[Any] = set()
        self._copies: dict[VariableTracker, Any] = {}

    def copy(self, value: VariableTracker) -> Any:
        if type(value) is ConstantVariable and type(value.value) in (*_WITHOUT_MEMO, str, bytes):
            return self._constant(value.value)
        if value not in self._copies:
            self._copies[value] = self._container(value)
        return self._copies[value]

    def _constant(self, value: Any) -> Any:
        if type(value) not in _WITHOUT_MEMO:
            if value in self._texts:
                unsupported("unsupported-builtin", function="pickle.dumps of a value that has equal texts")
            self._texts.add(value)
        return value

    def _container(self, value: VariableTracker) -> Any:
        self._copies[value] = _UNFINISHED
        if type(value) in (ListVariable, TupleVariable):
            copied = [self.copy(item) for item in value.unpack(self._tx)]
        elif isinstance(value, DictVariable) and value.cls is dict:
            copied = [(self.copy(key), self.copy(item)) for key, item in value.pairs(self._tx)]
        else:
            unsupported("unsupported-builtin", function=f"pickle.dumps of {value.describe()}")
        if any(part is _UNFINISHED or (type(part) is tuple and _UNFINISHED in part) for part in copied):
            unsupported("unsupported-builtin", function="pickle.dumps of a value that holds itself")
        return copied if type(value) is ListVariable else tuple(copied) if type(value) is TupleVariable else dict(copied)


_UNFINISHED = object()


@models(pickle.dumps)
def _dumps(tx: Tracer, value: VariableTracker, /, protocol: VariableTracker | None = None) -> VariableTracker:
    if protocol is not None and not protocol.is_constant():
        unsupported("unsupported-builtin", function="pickle.dumps with this protocol")
    chosen: int | None = None if protocol is None else protocol.constant()
    try:
        return ConstantVariable(pickle.dumps(_Copied(tx).copy(value), chosen))
    except (TypeError, ValueError):  # CPython raises it instead
        unsupported("unsupported-builtin", function="pickle.dumps, which fails,")
