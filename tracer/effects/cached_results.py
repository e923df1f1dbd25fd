"""Results of functions with a cache (functools.lru_cache) that the trace has made by tracing through the function.

A cache returns the same object at every call, and the trace makes it anew. The program sees no difference while it only reads
the object. Where it changes it, compares its identity, or lets it leave the frame, the graph breaks at the call instead."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tracer.errors import TraceAnew
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


changed: dict[int, bool] = {}  # by id, the functions whose results traced code has changed: only the cache knows what they are
counted: weakref.WeakSet[Any] = weakref.WeakSet()  # functions of whose cache the program asks how often it was called


class AskedCall(NamedTuple):
    """A call of a cache that the output code makes, too, because its result may be older than what the function read while
    tracing; `names` are those of its keyword arguments, which stand last in `args`."""

    function: VariableTracker
    args: tuple[VariableTracker, ...]
    names: tuple[str, ...]
    result: VariableTracker


class Known(NamedTuple):
    """The result of a call of a cache in this trace, which is also that of every later call with the same key."""

    result: VariableTracker
    reads_state: bool  # whether it may depend on more than the arguments


class Origin(NamedTuple):
    """The call that gave an object."""

    function: Any
    step: int
    is_held: bool  # whether the cache has such an object already
    guards: tuple[Any, ...] = ()  # under which it has, or has none, if that can be told


def _note_changed(function: Any) -> None:
    if id(function) not in changed:
        changed[id(function)] = True
        weakref.finalize(function, changed.pop, id(function), None)


def count_calls(function: Any) -> None:
    """From now on CPython makes the calls of a function with a cache, which counts them; the frame is traced again."""
    if function not in counted:
        counted.add(function)
        raise TraceAnew(takes_cache=id(function))


class CachedResults:
    """What caches have given in one trace."""

    def __init__(self) -> None:
        self.asked: list[AskedCall] = []  # in order
        self.known: dict[Any, Known] = {}  # by function and key
        self._made: dict[VariableTracker, Origin] = {}  # the objects in results
        self._memory: list[tuple[VariableTracker, int, int]] = []  # of those that are tensors: see `keep_tensor`

    def size(self) -> int:
        """A number that grows with whatever is kept here."""
        return len(self.asked) + len(self.known) + len(self._made) + len(self._memory)

    def keep(self, value: VariableTracker, origin: Origin) -> None:
        """`value` belongs to a cache from here on."""
        self._made.setdefault(value, origin)

    def keep_tensor(self, value: VariableTracker, origin: Origin, storage: int, writes: int) -> None:
        """As `keep`, for a tensor with this storage. `writes`: how many writes to storages the trace had made by then."""
        self.keep(value, origin)
        self._memory.append((value, storage, writes))

    def __contains__(self, value: VariableTracker) -> bool:
        return value in self._made

    def refuse_change(self, value: VariableTracker) -> None:
        """Breaks the graph at the call that gave `value`, if one did: every later call gives the changed object."""
        if value in self._made:
            _note_changed(self._made[value].function)
            self._refuse(self._made[value], "change-of-a-cached-result", value=value.describe())

    def refuse_identity(self, value: VariableTracker, other: str) -> None:
        """Breaks the graph at the call that gave `value`, if one did, because its identity is asked for."""
        if value in self._made:
            self._refuse(self._made[value], "identity-of-a-cached-result", left=value.describe(), right=other)

    def refuse_comparison(self, one: VariableTracker, other: VariableTracker) -> None:
        """Breaks the graph where two different tracked values may be the same object, because a cache has one of them."""
        if one is other or one.is_constant() or other.is_constant():
            return
        for left, right in ((one, other), (other, one)):
            if left in self._made and left.python_type() is right.python_type():
                self.refuse_identity(left, right.describe())

    def refuse_escape(self, value: VariableTracker) -> None:
        self.refuse_identity(value, "what leaves the frame")

    def refuse_tensors(self, shown: set[int], writes: list[int]) -> None:
        """Breaks the graph if a tensor that a cache has, or a view of it, has one of the storages `shown`, which leave the graph,
        or is written to after the call. `writes`: the storages that the trace wrote to, in order."""
        for tensor, storage, before in self._memory:
            if storage in writes[before:]:
                self.refuse_change(tensor)
            if storage in shown:
                self.refuse_escape(tensor)

    def _refuse(self, origin: Origin, reason: str, **details: Any) -> NoReturn:
        """Has the object taken from the cache where that has it, and lets CPython fill the cache where it has not."""
        if origin.is_held:
            raise TraceAnew(takes_cache=id(origin.function))
        unsupported(reason, break_step=origin.step, relies_on=origin.guards, **details)
