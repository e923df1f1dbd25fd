"""`WeakSet`, `WeakKeyDictionary` and `WeakValueDictionary` that the trace makes. They hold what is alive: each use of one breaks
the graph unless all that it refers to is certainly alive, so that it is used like a set or a dict."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import type_name
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.variables.builders.weak_references import WeakHolderVariable, is_held, reference_to, takes_references
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.values.constant import FALSE, NamedMethodVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_OF_SETS = frozenset("add discard remove update clear __contains__ __len__ __iter__ __bool__".split())
_OF_DICTS = frozenset(
    """get pop setdefault update clear keys values items __contains__ __len__ __iter__ __bool__ __getitem__ __setitem__
    __delitem__""".split()
)
_LISTED = ("keys", "values", "items")


class WeakContainerVariable(WeakHolderVariable):
    """`content` is the set or dict that it is used like."""

    def __init__(self, cls: type, content: VariableTracker) -> None:
        self.cls = cls
        self.content = content

    def python_type(self) -> type:
        return self.cls

    def hash_key(self, tx: Tracer) -> Any:
        if self.cls is weakref.WeakSet:
            tx.raise_error(TypeError, f"unhashable type: {type_name(self.cls)!r}")
        return super().hash_key(tx)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        known = _OF_SETS if self.cls is weakref.WeakSet else _OF_DICTS
        return NamedMethodVariable(self, name) if name in known else super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name not in (_OF_SETS if self.cls is weakref.WeakSet else _OF_DICTS):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name == "__contains__" and self.cls is not weakref.WeakValueDictionary and not takes_references(args[0].python_type()):
            return FALSE
        self._check(tx)
        try:
            result = self.content.call_method(tx, name, args, kwargs)
        except ObservedException as raised:
            if self.cls is weakref.WeakValueDictionary or not is_exception(raised.value, KeyError):
                raise
            missed = reference_to(tx, weakref.ReferenceType, args[0])  # by which it looks
            tx.raise_value(tx.new_exception(KeyError, missed))
        self._check_kinds(tx)
        return ListVariable(result.unpack(tx)).iterate(tx) if name in _LISTED else result

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self.call_method(tx, "__getitem__", [key], {})

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.call_method(tx, "__setitem__", [key, value], {})

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        self.call_method(tx, "__delitem__", [key], {})

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return self.call_method(tx, "__contains__", [item], {})

    def length(self, tx: Tracer) -> VariableTracker:
        return self.call_method(tx, "__len__", [], {})

    def truth(self, tx: Tracer) -> bool:
        return self.length(tx).truth(tx)

    def iterate(self, tx: Tracer) -> VariableTracker:
        self._check(tx)
        return self.content.iterate(tx)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        """CPython compares what they hold; that is left to it."""
        unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())

    def _referred(self, tx: Tracer) -> list[VariableTracker]:
        if not isinstance(self.content, DictVariable):
            return self.content.iterate(tx).unpack(tx)
        pairs = self.content.pairs(tx)
        return [value if self.cls is weakref.WeakValueDictionary else key for key, value in pairs]

    def _check(self, tx: Tracer) -> None:
        for target in self._referred(tx):
            existed = isinstance(target, ClassVariable) and id(target.value) not in tx.trace.findings.made
            if not existed and not is_held(tx, target):
                unsupported("unsupported-call", value=f"a {self.cls.__name__} of what the frame may have dropped")

    def _check_kinds(self, tx: Tracer) -> None:
        for target in self._referred(tx):
            if not takes_references(target.python_type()):
                unsupported("unsupported-call", value=f"a {self.cls.__name__} with {target.describe()}")

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.cls, functools.partial(cg.load, self.content))
