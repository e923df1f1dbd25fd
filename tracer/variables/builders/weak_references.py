"""Weak references. Their targets are read, and guarded, through them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.identity import TypeMatch, WeakrefAlive
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import type_name
from tracer.protocol.variable import VariableTracker, whole
from tracer.sources.attributes import ProxyTargetSource, WeakTargetSource
from tracer.sources.base import Source
from tracer.sources.roots import BuiltinSource, GlobalSource, ModuleGlobalsSource, ModuleSource
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.effects.log import Effects
    from tracer.protocol.tracer import Tracer, ValueCodegen


class WeakHolderVariable(VariableTracker):
    """Something whose parts it does not keep alive."""


class WeakReferenceVariable(WeakHolderVariable):
    """A weakref.ref that existed before the frame ran, or that the trace makes (one for each object). Calling it breaks the
    graph unless its target is certainly alive."""

    make: ClassVar[Callable[..., Any]] = weakref.ref

    def __init__(
        self, value: Any, source: Source | None, target: VariableTracker | None = None, made_at: int | None = None
    ) -> None:
        self.value = value
        self.source = source
        self.target = target
        self.made_at = made_at

    def python_type(self) -> type:
        return weakref.ReferenceType

    def identity(self) -> Any:
        return self if self.value is None else self.value

    def is_one(self, tx: Tracer, other: WeakReferenceVariable) -> bool:
        """`self is other`, where the trace made at least one of the two."""
        if self.source is None and other.source is None:
            assert self.target is not None and other.target is not None
            return tx.is_same(self.target, other.target)
        made = self if self.source is None else other
        assert made.target is not None
        if made.target.source is not None:  # weakref.ref returns an existing reference again
            unsupported("identity-of-a-value", left=self.describe(), right=other.describe())
        return False

    def children(self) -> Iterable[VariableTracker]:
        return () if self.target is None else (self.target,)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        if args or kwargs:
            unsupported("call-arguments", error="a weak reference takes no arguments")
        if self.target is None:
            assert self.source is not None
            target = self.value()
            if target is None:
                tx.guard(WeakrefAlive(self.source, False))
                return NONE
            self.target = tx.wrap(target, WeakTargetSource(self.source))
        return self._held_target(tx)

    def _held_target(self, tx: Tracer) -> VariableTracker:
        assert self.target is not None
        if not is_held(tx, self.target):
            unsupported("unsupported-call", value="a weak reference to what the frame may have dropped")
        return self.target

    def reconstruct(self, cg: ValueCodegen) -> None:
        assert self.target is not None
        cg.call_object(self.make, functools.partial(cg.load_weakly, self.target, self.made_at))


class WeakProxyVariable(WeakReferenceVariable):
    """A weak proxy, called or not: what is done with it is done with its target, except for `type`, `is`, `repr` and `hash`."""

    make: ClassVar[Callable[..., Any]] = weakref.proxy

    def __init__(self, cls: type, value: Any, source: Source | None, target: Any = None, made_at: int | None = None) -> None:
        super().__init__(value, source, target, made_at)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def proxied(self, tx: Tracer) -> VariableTracker:
        """The target. Breaks the graph where it may be gone."""
        if self.target is None:
            assert self.source is not None
            try:
                target = _C.proxy_target(self.value)
            except ReferenceError:
                unsupported("unsupported-call", value="a weak proxy of what is gone")
            self.target = tx.wrap(target, ProxyTargetSource(self.source))
        return self._held_target(tx)

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: {type_name(self.cls)!r}")

    def text(self, tx: Tracer, kind: str) -> str:
        return self.proxied(tx).text(tx, kind) if kind == "str" else super().text(tx, kind)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return tx.read_attribute(self.proxied(tx), name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        self.proxied(tx).set_attr(tx, name, value)

    def del_attr(self, tx: Tracer, name: str) -> None:
        tx.delete_attribute(self.proxied(tx), name)

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        if self.cls is weakref.ProxyType:
            tx.raise_error(TypeError, f"{type_name(self.cls)!r} object is not callable")
        return self.proxied(tx).resolve_call(tx, args, kwargs)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        target, args, kwargs = self.resolve_call(tx, args, kwargs)
        return target.call(tx, args, kwargs)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        pair = (self.proxied(tx), _unproxied(tx, other))
        return tx.binary(op, *(pair[::-1] if reflected else pair))

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return tx.inplace(op, self.proxied(tx), _unproxied(tx, other))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return tx.compare(op, self.proxied(tx), _unproxied(tx, other))

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return tx.unary(op, self.proxied(tx))

    def truth(self, tx: Tracer) -> bool:
        return self.proxied(tx).truth(tx)

    def length(self, tx: Tracer) -> VariableTracker:
        return self.proxied(tx).length(tx)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self.proxied(tx).get_item(tx, key)

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.proxied(tx).set_item(tx, key, value)

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        self.proxied(tx).del_item(tx, key)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return self.proxied(tx).contains(tx, item)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return self.proxied(tx).iterate(tx)


def takes_references(cls: type) -> bool:
    """Whether there can be weak references to the instances of a class."""
    return bool(type.__dict__["__weakrefoffset__"].__get__(cls))


def reference_to(tx: Tracer, kind: type, target: VariableTracker) -> WeakReferenceVariable:
    """The weak reference, or weak proxy, of an object. It has one of each without a callback: every call returns the same."""
    made: dict[type, Any] = tx.trace.weak_references.setdefault(target, {})
    if kind in made:
        known: WeakReferenceVariable = made[kind]
        return known
    cls = target.python_type()
    if not takes_references(cls):
        tx.raise_error(TypeError, f"cannot create weak reference to {type_name(cls)!r} object")
    args = None, None, target, tx.break_step()
    new = WeakReferenceVariable(*args) if kind is weakref.ReferenceType else WeakProxyVariable(kind, *args)
    made[kind] = new
    return new


def _unproxied(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return value.proxied(tx) if isinstance(value, WeakProxyVariable) else value


def leads_to(effects: Effects, values: Iterable[Any], targets: Container[VariableTracker]) -> bool:
    """Whether tracked values hold one of the targets, directly or indirectly, by strong references."""
    todo, seen = list(values), set()
    while todo:
        value = todo.pop()
        if value in targets:
            return True
        if isinstance(value, VariableTracker) and value not in seen and not isinstance(value, WeakHolderVariable):
            seen.add(value)
            todo.extend(effects.held_by(value))
    return False


def is_held(tx: Tracer, target: VariableTracker) -> bool:
    """Whether a target is certainly alive. Objects that the trace made, arguments of the frame and, once existing ones may have
    dropped something, all others need a variable, an operand of an open frame or a global that leads to them."""
    is_input = target.source is not None
    obj = target.real(tx) if is_input and isinstance(target, TensorVariable) else target.identity()
    stored = [value for _, _, value in tx.effects.stored_globals()]
    if is_input and not tx.effects.may_release() and not any(argument is obj for argument in tx.trace.builder.arguments):
        return True
    held = [*stored, *_in_frames(tx)]
    if any(isinstance(value, Unwrapped) and value.value is obj for value in held) or leads_to(tx.effects, held, (target,)):
        return True
    return is_input and _is_where_it_was(tx, target)


def _is_where_it_was(tx: Tracer, target: VariableTracker) -> bool:
    """Whether an object is still held by what held it before the frame ran: the trace has changed nothing on the way to it, which
    starts at a global, a module, or a variable of an open frame."""
    in_frames = {value.source for value in _in_frames(tx) if isinstance(value, (VariableTracker, Unwrapped))}
    source, way = target.source, []
    assert source is not None
    while source.is_kept and source not in in_frames:
        assert source.base is not None
        source = source.base
        way.append(source)
    builder = tx.trace.builder
    found = {variable.source: value for value, variable in builder.met()}
    if source not in found or not (source in in_frames or _is_kept_root(tx, source)):
        return False
    changed = {whole(value) for value in tx.effects.mutated}
    changed_places = {value.source for value in changed}
    holder = None
    for place in reversed(way):
        if place in found:
            holder = found[place]
        else:
            for step, key in place.steps():
                holder = step.function(holder, key) if step.keyed else step.function(holder)
        if place in changed_places or builder.known(holder) in changed or builder.known(_C.instance_dict(holder)) in changed:
            return False
    return True


def _is_kept_root(tx: Tracer, root: Source) -> bool:
    """Whether it is a module, or a global that the trace has not stored."""
    if isinstance(root, (GlobalSource, ModuleGlobalsSource)):
        return all(name != root.global_name for _, name, _ in tx.effects.stored_globals())
    return isinstance(root, (ModuleSource, BuiltinSource))


def _in_frames(tx: Tracer) -> list[Any]:
    """The values on the stacks and in the variables of the open frames."""
    values: list[Any] = []
    for frame in tx.frames():
        values += (*frame.stack, *frame.locals.values(), *(cell.contents for cell in frame.cells.values()))
    return values


@tracks(weakref.ReferenceType)
def _weak_reference(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, weakref.ReferenceType))
    return builder.remember(value, WeakReferenceVariable(value, source))


@tracks(weakref.ProxyType, weakref.CallableProxyType)
def _weak_proxy(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, WeakProxyVariable(type(value), value, source))
