"""Models of `pickle`, for plain values that are known while tracing. Everything else is left to CPython."""

from __future__ import annotations

import io
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


class _OfPlainValues(pickle.Unpickler):
    """Makes no objects of other classes, which would run their code."""

    def find_class(self, module: str, name: str, /) -> Any:
        unsupported("unsupported-builtin", function=f"pickle.loads of a {module}.{name}")


@models(pickle.loads)
def _loads(tx: Tracer, data: VariableTracker, /) -> VariableTracker:
    if not data.is_constant() or type(data.constant()) is not bytes:
        unsupported("unsupported-builtin", function=f"pickle.loads of {data.describe()}")
    try:
        value = _OfPlainValues(io.BytesIO(data.constant())).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError, TypeError):
        unsupported("unsupported-builtin", function="pickle.loads, which fails,")  # CPython raises it instead
    _refuse_shared(value, set())
    return tx.literal(value)


def _refuse_shared(value: Any, met: set[int]) -> None:
    """A container that is held twice would become two."""
    if type(value) not in (list, dict, tuple, set, bytearray):
        return
    if id(value) in met and value != ():
        unsupported("unsupported-builtin", function="pickle.loads of a value that holds one container twice")
    met.add(id(value))
    for part in value.values() if type(value) is dict else value:
        _refuse_shared(part, met)
