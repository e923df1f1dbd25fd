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
from tracer.variables.iteration import SequenceIterator
from tracer.variables.values.constant import FALSE, NamedMethodVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_OF_SETS = frozenset("add discard remove update clear __contains__ __len__ __iter__ __bool__".split())
_OF_DICTS = frozenset(
    """get pop setdefault update clear keys values items __contains__ __len__ __iter__ __bool__ __getitem__ __setitem__
    __delitem__""".split()
)
_LISTED = ("keys", "values", "items", "__iter__")


class WeakIterator(SequenceIterator):
    """Gives what a weak container refers to, which it does not keep alive: it cannot leave the frame before its end."""

    def __init__(self, tx: Tracer, items: list[VariableTracker]) -> None:
        super().__init__(ListVariable(items))
        self._made_at = tx.break_step()

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.sequence is not None:
            unsupported("unsupported-call", break_step=self._made_at, value="an iterator of a weak container")
        super().reconstruct(cg)


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
        return WeakIterator(tx, result.unpack(tx)) if name in _LISTED else result

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
        return self.call_method(tx, "__iter__", [], {})

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
