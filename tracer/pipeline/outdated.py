"""Entries that serve one call, because what that call stores contradicts what the entry is guarded by.

`if self.mask is None: self.mask = make_mask()`, a counter, the first step of an optimizer and the first call of many libraries
are such calls. The graph of the entry then runs as it is written, and the compiler waits for the entries behind it, which last.
Where the state comes back after all, as in `model.reset()` before each sequence, the entry gives way at its second call to one
whose graph is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.effects.log import Deleted
from tracer.guards.constants import is_guardable_constant, same_constant
from tracer.guards.demands import Demand, Equal, Is, Keys, Leads, Length, OfType, Tensor
from tracer.guards.references import ObjectRef
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource
from tracer.sources.containers import ItemSource
from tracer.sources.functions import CellContentsSource
from tracer.sources.roots import GlobalSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.sources.base import Source

_GONE = Deleted()


def outdates_itself(trace: Trace, globals_: dict[str, Any]) -> bool:
    """Whether a guard of the trace does not hold any more when its side effects are there. False where that is not certain.
    `globals_`: those of the frame."""
    stored = _Stored(trace, globals_)
    return bool(stored) and any(stored.contradicts(demand) for guard in trace.output.guards for demand in guard.demands())


class _Stored:
    """What the side effects of a trace leave at the places that guards speak of."""

    def __init__(self, trace: Trace, globals_: dict[str, Any]) -> None:
        self._values: dict[Source, VariableTracker | Deleted] = {}
        self._dicts: dict[Source, DictVariable] = {}
        self._lengths: dict[Source, int] = {}
        for target in trace.effects.mutated:
            if target.source is not None:
                self._note(trace, target, target.source)
        for holder, name, value in trace.effects.stored_globals():
            if holder is globals_:
                self._values[GlobalSource(name)] = value

    def _note(self, trace: Trace, target: VariableTracker, source: Source) -> None:
        for name, value in trace.effects.attributes(target).items():
            self._values[AttrSource(source, name)] = value
        if isinstance(target, CellVariable):
            contents = target.contents
            self._values[CellContentsSource(source)] = contents if isinstance(contents, VariableTracker) else _GONE
        elif isinstance(target, DictVariable):
            self._dicts[source] = target
            for key in target.changed:
                pair = _entry(target, key)
                if pair is not None and isinstance(pair[1], VariableTracker) and pair[0].is_constant():
                    self._values[ItemSource(source, pair[0].constant())] = pair[1]
        elif isinstance(target, ListVariable) and target.is_read():
            self._lengths[source] = sum(1 for _ in target.holdings())

    def __bool__(self) -> bool:
        return bool(self._values or self._dicts or self._lengths)

    def contradicts(self, demand: Demand) -> bool:
        match demand:
            case OfType() | Equal() | Is() | Tensor():
                value = self._values.get(demand.source)
                return value is not None and (isinstance(value, Deleted) or _is_another(value, demand))
            case Leads():
                return self._leads(demand.source, demand.key) is (not demand.present)
            case Keys() if demand.source in self._dicts:
                return _has_other_keys(self._dicts[demand.source], demand.keys)
            case Length() if demand.source in self._lengths:
                return not demand.least <= self._lengths[demand.source] <= demand.most
        return False

    def _leads(self, source: Source, key: Any) -> bool | None:
        """Whether there is an attribute, or an item of a dict, of this name; None where nothing has changed."""
        value = self._values.get(AttrSource(source, key)) if isinstance(key, str) else None
        if value is not None:
            return not isinstance(value, Deleted)
        target = self._dicts.get(source)
        if target is None or target.unread is not None and key not in target.unread.met:
            return None
        return _entry(target, key) is not None


def _entry(target: DictVariable, hashed: Any) -> Any:
    entries: Any = target.entries if target.unread is None else target.unread.met
    return entries.get(hashed)


def _is_another(value: VariableTracker, demand: OfType | Equal | Is | Tensor) -> bool:
    if isinstance(value, SymNodeVariable):
        return isinstance(demand, (OfType, Tensor)) and _is_of_another_class(value, demand)
    if isinstance(demand, Equal):
        if value.is_constant():
            return not same_constant(value.constant(), demand.value)
        return value.python_type() is not type(demand.value)
    if isinstance(demand, Is):
        return demand.obj.dead or (value.constant() if value.is_constant() else value.identity()) is not demand.obj.get()
    return _is_of_another_class(value, demand)


def _is_of_another_class(value: VariableTracker, demand: OfType | Tensor) -> bool:
    cls = demand.cls.get() if isinstance(demand, OfType) else demand.spec.cls
    return value.python_type() is not cls


def _has_other_keys(target: DictVariable, keys: tuple[Any, ...]) -> bool:
    """Whether a dict has not as many keys as a guard names, or other plain ones."""
    if target.unread is not None:
        return False
    known = {key for key in keys if type(key) is not ObjectRef}
    return len(target.entries) != len(keys) or any(key not in known for key in target.entries if is_guardable_constant(key))


class UntilItComesAgain:
    """Runs a graph as it is written. A second call, of an entry that was taken to serve only one, calls `again`."""

    def __init__(self, as_written: Callable[..., Any], again: Callable[[], None]) -> None:
        self._as_written = as_written
        self._again = again
        self._was_called = False

    def __call__(self, *args: Any) -> Any:
        if self._was_called:
            self._again()
        self._was_called = True
        return self._as_written(*args)
