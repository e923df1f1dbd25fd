"""Marks of the user on functions and tensors: the decorators and `mark_*` write them, the tracer reads them.

Functions are known by identity, never by equality, and are not kept alive. Tensors carry their marks as one attribute.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, Protocol

from tracer import _C


class IdentityMap:
    """A dict with keys compared by identity and held weakly; strongly, if they support no weak references.

    The value of a key is called its note. It must not be None, which means that there is none."""

    def __init__(self) -> None:
        self._notes: dict[int, tuple[Any, Any]] = {}  # id -> (what gives the object or None, the note)

    def set(self, obj: object, note: Any = True) -> None:
        self._notes[id(obj)] = (self._holder(obj), note)

    def setdefault(self, obj: object, note: Any) -> Any:
        """The note of an object, which becomes `note` if it has none. Concurrent calls get the same one."""
        found = self._notes.get(id(obj))
        if found is None:
            found = self._notes.setdefault(id(obj), (self._holder(obj), note))
        if found[0]() is not obj:  # an object that has just died had the same id
            found = self._notes[id(obj)] = self._holder(obj), note
        return found[1]

    def _holder(self, obj: object) -> Any:
        """A weak reference that drops the note when the object dies, or a strong one with the same interface."""
        own, key = weakref.ref(self), id(obj)

        def forget(_: object) -> None:
            notes = own()
            if notes is not None:
                notes._notes.pop(key, None)

        try:
            return weakref.ref(obj, forget)
        except TypeError:  # method descriptors and the like; they live as long as the process
            return _Strong(obj)

    def clear(self) -> None:
        self._notes.clear()

    def discard(self, obj: object) -> None:
        self._notes.pop(id(obj), None)

    def objects(self) -> Iterator[object]:
        """Those that live."""
        return (found for holder, _ in list(self._notes.values()) if (found := holder()) is not None)

    def get(self, obj: object, default: Any = None) -> Any:
        found = self._notes.get(id(obj))
        return found[1] if found is not None and found[0]() is obj else default

    def __contains__(self, obj: object) -> bool:
        return self.get(obj) is not None

    def __len__(self) -> int:
        return len(self._notes)


class _Strong:
    """A strong reference with the interface of a weak one."""

    def __init__(self, obj: object) -> None:
        self._obj = obj

    def __call__(self) -> object:
        return self._obj


@dataclasses.dataclass(frozen=True)
class Disabled:
    """How a function was disabled: with all functions that it calls, or only itself."""

    recursive: bool
    reason: str | None


disabled = IdentityMap()  # function -> Disabled
run_only = IdentityMap()  # wrapper made by `tracer.run` -> True


class Marks(Protocol):
    """Marks on functions that are kept elsewhere than here."""

    def policy(self, function: object) -> str | None:
        """As in `graph_policy`."""
        ...

    def substitute(self, function: object) -> FunctionType | None:
        """The function that is traced in place of this one."""
        ...


class Policies(IdentityMap):
    """The notes of functions; of one without a note, what torch's decorators say while the tracer is installed."""

    elsewhere: Marks | None = None

    def get(self, obj: object, default: Any = None) -> Any:
        own = super().get(obj)
        if own is not None or self.elsewhere is None:
            return default if own is None else own
        return self.elsewhere.policy(obj) or default

    def __bool__(self) -> bool:
        return len(self) > 0 or self.elsewhere is not None


graph_policy = Policies()  # function -> "allow", "disallow" (break the graph) or "forbid" (an error)
constant_result = IdentityMap()  # function -> True
# Attributes by which torch's decorators mark functions, and which libraries set without importing torch.
_TORCHS_CONSTANT, _TORCHS_DISABLED, _TORCHS_ORIGINAL = (
    "_dynamo_marked_constant",
    "_torchdynamo_disable",
    "_torchdynamo_orig_callable",
)


@dataclasses.dataclass(frozen=True, eq=False)
class SizePredicate:
    """A condition on a size: a function of it. Functions that the same line of the program makes, over equal data, are one
    condition."""

    function: Callable[[Any], Any]

    def holds(self, size: int) -> bool:
        return bool(self.function(size))

    def _key(self) -> Any:
        function = self.function
        if type(function) is not FunctionType or function.__kwdefaults__ is not None:
            return id(function)
        try:
            key = function.__code__, function.__defaults__, tuple([cell.cell_contents for cell in function.__closure__ or ()])
            hash(key)
        except (ValueError, TypeError):  # an empty cell; data that is not hashed
            return id(function)
        return key

    def __eq__(self, other: object) -> bool:
        return type(other) is SizePredicate and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)


@dataclasses.dataclass(frozen=True)
class DimMark:
    """The mark on one dim; `kind` is "dynamic", "maybe_dynamic", "static" or "unbacked". `strides`: its stride varies, too.
    `shape_id`: an unbacked dim has the size of all others with this id. `hint`: the size that compilers are to take for the usual
    one. `predicates`: conditions under which the size has code of its own, the first that holds."""

    kind: str
    min: int | None = None
    max: int | None = None
    strides: bool = False
    shape_id: str | None = None
    hint: int | None = None
    predicates: tuple[SizePredicate, ...] = ()

    def asks(self, size: int) -> list[tuple[SizePredicate, bool]]:
        """The conditions up to the first that holds, with whether they do: what decides which code serves this size."""
        found: list[tuple[SizePredicate, bool]] = []
        for each in self.predicates:
            found.append((each, each.holds(size)))
            if found[-1][1]:
                break
        return found

    def has_code_of_its_own(self, size: int) -> bool:
        return any(holds for _, holds in self.asks(size))


class SizesByName:
    """Sizes and ints that are marked by the names of their sources (`L['x']`) or by their values, without a change of the
    program."""

    def __init__(self) -> None:
        self.elsewhere: NamedSizes | None = None

    def dims(self, name: str, rank: int) -> dict[int, DimMark]:
        """The marks on the dims of a tensor."""
        ask = self.elsewhere
        if ask is None:
            return {}
        found = {dim: ask.mark(name, dim) for dim in range(rank)}
        return {dim: DimMark(kind) for dim, kind in found.items() if kind is not None}

    def said(self) -> tuple[str, ...]:
        """All that is marked so, to be compared with what was at another time."""
        return () if self.elsewhere is None else self.elsewhere.said()

    def has_int(self, name: str, value: int) -> bool:
        """Whether the int of a source is marked."""
        return self.elsewhere is not None and (self.elsewhere.mark(name, None) is not None or self.has_value(value))

    def has_value(self, value: int) -> bool:
        """Whether sizes and ints of this value are marked."""
        return self.elsewhere is not None and value in self.elsewhere.values()


class NamedSizes(Protocol):
    """Where sizes are named that `SizesByName` marks."""

    def mark(self, name: str, dim: int | None) -> str | None:
        """The kind of the `DimMark` on a dim of a source, or (`dim=None`) on an int."""
        ...

    def values(self) -> frozenset[int]:
        """The values of sizes and ints that are marked wherever they occur."""
        ...

    def said(self) -> tuple[str, ...]:
        """The names and values as the settings have them."""
        ...


sizes_by_name = SizesByName()
DIMS = "_tracer_dims"  # the attribute of a tensor that holds its marks


changes = _C.Counter()  # counts the calls that set marks in this process; a guard on marks reads tensors only if it has increased
marked = IdentityMap()  # the tensors that were marked


def note_mark(tensor: object) -> None:
    """Called when a mark was set on a tensor."""
    marked.set(tensor)
    changes.note()


def dim_marks(tensor: object) -> dict[int, DimMark]:
    """dim (never negative) -> mark; empty for a tensor without marks. Those of torch._dynamo count like ours, which win."""
    found = getattr(tensor, "__dict__", {})
    own: dict[int, DimMark] = found.get(DIMS) or {}
    return {**marks_of_torch(found, tensor), **own} if _MARKED_BY_TORCH in found else own


# The attributes of a tensor in which torch._dynamo keeps sets of dims; a later one wins.
_MARKED_BY_TORCH = "_has_dynamo_dim_marking"
_KINDS_OF_TORCH = {
    "_dynamo_static_indices": "static",
    "_dynamo_weak_dynamic_indices": "maybe_dynamic",
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_strict_unbacked_indices": "unbacked",
}


def marks_of_torch(attributes: Mapping[str, Any], tensor: Any) -> dict[int, DimMark]:
    """dim -> mark, of the marks that torch._dynamo has set among the `attributes` of a tensor."""
    if not attributes.get(_MARKED_BY_TORCH):
        return {}
    rank = tensor.dim()
    bounds = {"dynamic": {each.dim: (each.min, each.max) for each in attributes.get("_dynamo_dynamic_range", ())}}
    bounds["unbacked"] = attributes.get("_dynamo_unbacked_bounds", {})
    shape_ids, hints = attributes.get("_dynamo_shape_ids", {}), attributes.get("_dynamo_hint_overrides", {})
    predicates = attributes.get("_specialize_on", {})
    found = {}
    for name, kind in _KINDS_OF_TORCH.items():
        for dim in attributes.get(name, ()):
            if -rank <= dim < rank:
                low, high = bounds.get(kind, {}).get(dim, (None, None))
                found[dim % rank] = DimMark(
                    kind,
                    low,
                    high,
                    shape_id=shape_ids.get(dim) if kind == "unbacked" else None,
                    hint=hints.get(dim),
                    predicates=tuple(map(SizePredicate, predicates.get(dim) or ())),
                )
    return found


def set_dim_marks(tensor: object, marks: dict[int, DimMark]) -> None:
    """Adds to the marks of a tensor; a dim marked again takes the new mark."""
    setattr(tensor, DIMS, {**dim_marks(tensor), **marks})
    note_mark(tensor)


@contextlib.contextmanager
def temporarily_marked(tensor: object, marks: dict[int, DimMark]) -> Iterator[None]:
    """Within, dims of a tensor have further marks."""
    before = dim_marks(tensor)
    set_dim_marks(tensor, marks)
    try:
        yield
    finally:
        setattr(tensor, DIMS, before)
        if not before:
            marked.discard(tensor)
        changes.note()


def is_opaque(function: object) -> bool:
    """Whether the user excluded the function from tracing, so that a call of it breaks the graph."""
    return function in disabled or has_constant_result(function) or is_disabled_for_torch(function)


def is_disabled_for_torch(function: object) -> bool:
    """Whether a function was disabled with torch's decorator. What torch disables in its optimizers does not count."""
    if type(function) is not FunctionType or not function.__dict__.get(_TORCHS_DISABLED):
        return False
    module = getattr(function.__dict__.get(_TORCHS_ORIGINAL), "__module__", None) or ""
    return not module.startswith("torch.optim.")


def substitute_of(function: object) -> FunctionType | None:
    """The function that is traced in place of this one."""
    return None if graph_policy.elsewhere is None else graph_policy.elsewhere.substitute(function)


def is_allowed(function: object) -> bool:
    """Whether a call of the function is to be one node of the graph."""
    return bool(graph_policy.get(function) == "allow")


def is_allowed_by_torch(function: object) -> bool:
    """Whether the program or a library has said `torch.compiler.allow_in_graph(function)`. Torch's own notes are read, where the
    module that holds them is loaded."""
    noted = getattr(sys.modules.get("torch._dynamo.trace_rules"), "_allowed_callable_ids", None)
    return noted is not None and id(function) in noted()


def has_constant_result(function: object) -> bool:
    """Whether the function is called while tracing and its result is a constant: marked for the tracer, or for torch.compile."""
    if type(function) is FunctionType and function.__dict__.get(_TORCHS_CONSTANT) is True:
        return True
    return function in constant_result
