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
    """A plain value as CPython's objects. A pickle refers back to an object that it has written: equal texts, or containers, are
    written twice or once, as they are two objects or one. A trace does not know that, and refuses them."""

    def __init__(self, tx: Tracer) -> None:
        self._tx = tx
        self._seen: list[Any] = []

    def copy(self, value: VariableTracker) -> Any:
        if type(value) is ConstantVariable and type(value.value) in (*_WITHOUT_MEMO, str, bytes):
            if type(value.value) not in _WITHOUT_MEMO:
                self._note(value.value)
            return value.value
        if type(value) in (ListVariable, TupleVariable):
            items = value.unpack(self._tx)
            if items or type(value) is ListVariable:
                self._note(value)
            copied = [self.copy(item) for item in items]
            return copied if type(value) is ListVariable else tuple(copied)
        if isinstance(value, DictVariable) and value.cls is dict:
            self._note(value)
            return {self.copy(key): self.copy(item) for key, item in value.pairs(self._tx)}
        unsupported("unsupported-builtin", function=f"pickle.dumps of {value.describe()}")

    def _note(self, part: Any) -> None:
        if any(type(part) is type(other) and part == other for other in self._seen):
            unsupported("unsupported-builtin", function="pickle.dumps of a value that has equal parts")
        self._seen.append(part)


@models(pickle.dumps)
def _dumps(tx: Tracer, value: VariableTracker, /, protocol: VariableTracker | None = None) -> VariableTracker:
    if protocol is not None and not protocol.is_constant():
        unsupported("unsupported-builtin", function="pickle.dumps with this protocol")
    chosen: int | None = None if protocol is None else protocol.constant()
    try:
        return ConstantVariable(pickle.dumps(_Copied(tx).copy(value), chosen))
    except (TypeError, ValueError):  # CPython raises it instead
        unsupported("unsupported-builtin", function="pickle.dumps, which fails,")
