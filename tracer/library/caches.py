"""Functions with a cache (functools.lru_cache, functools.cache).

A call is a call of the wrapped function, which is traced through: the program cannot see whether a result is remembered or
computed again, as long as it only reads it. Where it could see that, CPython makes the call: the function has a side effect
or draws random numbers, or it reads what the program has changed before. `effects.cached_results` watches what becomes of the
result.

Where a constant was computed from more than the arguments, the output code asks the cache, whose result may be older."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from tracer import config
from tracer.effects.cached_results import AskedCall, Known, Origin, changed, counted
from tracer.effects.log import Effects
from tracer.effects.torch_state import preserve_global_state
from tracer.errors import TraceAnew, Unsupported
from tracer.graph.fakes.fake_tensors import expr_of, storage_of, storages_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.guards.base import shown
from tracer.guards.caches import CacheMatch
from tracer.guards.constants import is_guardable_constant, same_constant
from tracer.guards.containers import DictContains
from tracer.guards.identity import IdMatch
from tracer.guards.references import is_class
from tracer.library.cache_tables import Place, place_of
from tracer.protocol.lookups import lookup, rely_on_process
from tracer.protocol.models import instance_models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.roots import ObjectSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.tuples import SizeVariable, TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, SCALARS, TORCH_CONSTANTS, is_nan
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_CODE = frozenset(
    (
        types.FunctionType,
        types.BuiltinFunctionType,
        types.ModuleType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        functools._lru_cache_wrapper,
        *TORCH_CONSTANTS,
    )
)

_OTHERS = "a cache whose result others have changed, or which is out of date"


@instance_models(functools._lru_cache_wrapper)
def _cached_call(tx: Tracer, callee: Value, *args: Value, **kwargs: Value) -> Value:
    assert isinstance(callee, CallableVariable)
    if config.skip_messages and args and issubclass(args[0].python_type(), logging.Logger):
        return NONE
    if callee.source is None:
        unsupported("unsupported-call", value=callee.describe())
    if callee.value in counted:
        _refuse(callee, "whose cache_info() the program reads")
    key = _key(tx, callee, args, kwargs)
    known = tx.effects.cached.known.get(key)
    if known is None:
        _refuse_small(tx, callee)
        known = _result(tx, callee, args, kwargs)
        tx.effects.cached.known[key] = known
    elif known.reads_state:
        tx.trace.builder.collect(known, known.result)
    return known.result


def _refuse(callee: Value, reason: str) -> NoReturn:
    unsupported("unsupported-call", value=f"{callee.describe()}, {reason},")


def _refuse_small(tx: Tracer, callee: CallableVariable) -> None:
    """Refuses a cache that cannot hold every result that this trace asks for: it would return a new object the next time."""
    room = callee.value.cache_parameters()["maxsize"]
    if room is not None and sum(function == id(callee.value) for function, *_ in tx.effects.cached.known) >= room:
        _refuse(callee, "whose cache is too small for the calls of this trace")


def _result(tx: Tracer, callee: CallableVariable, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Known:
    """What a call gives that the trace makes for the first time."""
    place = _place(callee, args, kwargs)
    held = [] if place is None else place.results()
    is_changed = id(callee.value) in changed
    takes = is_changed or id(callee.value) in tx.output.options.caches_taken
    objects = [value for value in (*args, *kwargs.values()) if not value.is_constant()]
    if place is None or objects:
        if place is not None and held and takes:
            for value in objects:
                assert value.source is not None
                tx.guard(IdMatch(value.source, value.identity()))
            return _taken(tx, callee, place, held[0])
        if is_changed:
            _refuse(callee, _OTHERS)
        try:
            known = _traced_through(tx, callee, args, kwargs, Origin(callee.value, tx.break_step(), False))
        except Unsupported as error:
            _take_what_is_held(callee, place, error)
            raise
        if held and not _agrees(tx, known.result, held[0]):
            _refuse(callee, _OTHERS)
        return known
    if held and (takes or not (args or kwargs or is_guardable_constant(held[0]))):
        return _taken(tx, callee, place, held[0])
    try:
        if is_changed:
            _refuse(callee, _OTHERS)
        origin = Origin(callee.value, tx.break_step(), bool(held), (_guard(callee, place),))
        known = _traced_through(tx, callee, args, kwargs, origin)
    except Unsupported as error:
        _take_what_is_held(callee, place, error)
        raise
    if held and _agrees(tx, known.result, held[0]) and not _varies_unasked(known.result):
        return known
    if not held and not (args or kwargs) and known.result in tx.effects.cached and not tx.effects.changes_what_existed():
        _fill(callee.value)
        raise TraceAnew(takes_cache=id(callee.value))  # the frame goes through fewer steps now: a break is found by their number
    return _taken(tx, callee, place, held[0]) if held else known


def _take_what_is_held(callee: CallableVariable, place: Place | None, error: Unsupported) -> None:
    """After a call that cannot be traced through: the trace starts anew and takes what the cache has. If it has nothing, the
    graph breaks until the cache has been filled."""
    if place is None:
        return
    if place.results():
        raise TraceAnew(takes_cache=id(callee.value)) from None
    error.relies_on = (*error.relies_on, _guard(callee, place))


def _traced_through(
    tx: Tracer, callee: CallableVariable, args: tuple[Value, ...], kwargs: dict[str, Value], origin: Origin
) -> Known:
    """What the wrapped function gives, and whether it depends on more than the arguments."""
    assert callee.source is not None
    wrapped = tx.wrap(callee.value.__wrapped__, GenericAttrSource(callee.source, "__wrapped__"))
    cached, given = tx.effects.cached, (*args, *kwargs.values())
    asked, body = len(cached.asked), _Body(tx)
    try:
        with body.traced(callee):
            result = wrapped.call(tx, list(args), kwargs)
    except Unsupported as error:
        error.at(tx.trace.user_stack())
        assert tx.trace.frame is not None
        # CPython calls the cache, not the function behind it
        tx.trace.go_back_to(next(frame for frame in tx.trace.frame.frames() if frame is tx))
        raise
    reads_state = body.reads_state(given)
    if reads_state and body.reads_changes(given):
        _refuse(callee, "which reads what the program has changed, so that a cached result may be older than the change")
    makes_object = _keep(tx, callee, given, result, origin)
    if makes_object:
        tx.guard(DictContains(ObjectSource(changed, "caches whose results are changed"), id(callee.value), present=False))
    elif reads_state and all(map(_is_plain, (*given, result))):
        del cached.asked[asked:]  # those that it asks in turn are filled when it is called
        cached.asked.append(AskedCall(callee, given, tuple(kwargs), result))
    return Known(result, reads_state)


# -- what a cache has --------------------------------------------------------------------------------------------------


def _place(callee: CallableVariable, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Place | None:
    """Where the cache keeps the result of a call with these arguments, where that is found without code of the program."""
    if not all(map(_is_found, (*args, *kwargs.values()))):
        return None
    given = [arg.constant() if arg.is_constant() else arg.identity() for arg in (*args, *kwargs.values())]
    return place_of(callee.value, given[: len(args)], dict(zip(kwargs, given[len(args) :], strict=True)))


def _is_found(value: Value) -> bool:
    """Whether the cache finds a result by this argument in the next call."""
    if value.is_constant():
        return _can_be_found(value.constant())
    return value.source is not None and value.identity() is not value and _is_hashed_by_identity(value)


def _can_be_found(constant: Any) -> bool:
    """Whether a dict finds it as a key: a NaN is equal to nothing."""
    return all(map(_can_be_found, constant)) if type(constant) in (tuple, frozenset) else not is_nan(constant)


def _taken(tx: Tracer, callee: CallableVariable, place: Place, held: Any) -> Known:
    """The very object that a cache has."""
    rely_on_process(f"the cache of {_name(callee)} has a result that was made before")
    tx.guard(_guard(callee, place))
    return Known(tx.wrap(held, ObjectSource(held, f"{_name(callee)}.cache[{shown(place.key)}]")), True)


def _guard(callee: CallableVariable, place: Place) -> CacheMatch:
    return CacheMatch(ObjectSource(place.table, f"the cache of {_name(callee)}"), place.key, place.found)


def _name(callee: CallableVariable) -> str:
    return str(getattr(callee.value, "__qualname__", callee.value))


def _fill(function: Any) -> None:
    """Fills the cache of a function without arguments that has been seen to do no more. What it gives is an object that is there
    once, such as the settings of the program, and is to be read as it is."""
    with preserve_global_state():
        function()


def _agrees(tx: Tracer, value: Any, real: Any) -> bool:
    """Whether what the trace made is as what the cache has, as far as can be told."""
    if value.is_constant():
        return same_constant(real, value.constant())
    if isinstance(value, SymNodeVariable) or value.source is not None:
        return True
    if tx.trace.builder.known(real) is not None:  # it may have changed in this trace
        return False
    if value.python_type() is not type(real):
        return False
    if type(value) in (ListVariable, TupleVariable):
        items = value.unpack(tx)
        return len(items) == len(real) and all(_agrees(tx, *pair) for pair in zip(items, real, strict=True))
    if type(value) is DictVariable and value.cls is dict and all(type(key) in SCALARS for key in value.entries):
        return _agree(tx, {key: value.value(tx, key) for key in value.entries}, real)
    if type(value) is UserObjectVariable:
        return _agree(tx, tx.effects.attributes(value), getattr(real, "__dict__", {}))
    return True


def _agree(tx: Tracer, made: Mapping[Any, Any], real: Mapping[Any, Any]) -> bool:
    """The same of values by name, or by key."""
    if list(made) != list(real):
        return False
    return all(isinstance(made[name], Value) and _agrees(tx, made[name], real[name]) for name in real)


# -- tracing through ---------------------------------------------------------------------------------------------------


class _Body:
    """What a function reads and does while it is traced."""

    def __init__(self, tx: Tracer) -> None:
        self._tx = tx
        self._read: list[tuple[Any, Value]] = []
        self._counted = self._counts()

    @contextlib.contextmanager
    def traced(self, callee: Value) -> Iterator[None]:
        """Within, the function is traced. One that does more than to compute its result is refused. One that raises is not: a
        cache keeps no exceptions, and CPython calls it again each time."""
        tx, mode = self._tx, self._tx.output.world.fake_mode
        draws, writes, nodes = mode.draws, len(mode.writes), len(tx.output.graph.nodes)
        with tx.trace.builder.collecting() as self._read, _changes_noted(tx.effects) as changes:
            yield
        written = set(mode.writes[writes:])
        older = [node.meta.get(EXAMPLE) for node in itertools.islice(tx.output.graph.nodes, nodes)] if written else []
        if changes or mode.draws != draws or not written.isdisjoint(storages_of(older)):
            _refuse(callee, "which does more than compute its result, so that a cached call differs from the first")

    def reads_state(self, given: Sequence[Value]) -> bool:
        """Whether what it gives may depend on more than on which arguments it was given."""
        objects = [value.identity() for value in given if value.source is not None and not value.is_constant()]
        return self._counts() != self._counted or any(map(_can_change, [*(value for value, _ in self._read), *objects]))

    def reads_changes(self, given: Sequence[Value]) -> bool:
        """Whether it may depend on what the program has changed before in this trace."""
        effects, trace = self._tx.effects, self._tx.trace
        calls, answered = self._counts()
        if answered != self._counted[1] or (trace.torch_state.changed and calls != self._counted[0]):
            return True
        changed = [target for target in effects.mutated if target.source is not None]
        if any(isinstance(target, CellVariable) for target in changed) and any(_has_cells(value) for value, _ in self._read):
            return True
        return not {*given, *(variable for _, variable in self._read)}.isdisjoint(changed)

    def _counts(self) -> tuple[int, int]:
        return self._tx.trace.torch_calls, self._tx.effects.answered


@contextlib.contextmanager
def _changes_noted(effects: Effects) -> Iterator[list[Any]]:
    """Within, collects the changes that are visible outside of the trace."""
    changes: list[Any] = []
    outer = effects.observer

    def note(target: Value | None) -> None:
        if target is None or target.source is not None:
            changes.append(target)
        if outer is not None:
            outer(target)

    with effects.observed_by(note):
        yield changes


def _can_change(value: Any) -> bool:
    """Whether something that is read may be another, or hold others, at another time. Code and modules are taken to stay."""
    return not (is_class(value) or type(value) in _CODE or isinstance(value, torch.Tensor))


def _has_cells(value: Any) -> bool:
    return type(value) is types.FunctionType and value.__closure__ is not None


# -- keys and results --------------------------------------------------------------------------------------------------


class _Symbolic(NamedTuple):
    """A symbolic number as part of a key."""

    expression: Any


def _key(tx: Tracer, callee: CallableVariable, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Any:
    """Equal for two calls of one trace to which CPython gives the same key; equal to no other where a hash is not known."""
    given = (*args, *kwargs.values())
    classes = tuple([value.python_type() for value in given])
    if not callee.value.cache_parameters()["typed"]:  # C puts arguments into a tuple, but for a single int or string
        classes = classes if not kwargs and classes in ((int,), (str,)) else ()
    try:
        return (id(callee.value), tuple([_key_part(tx, arg) for arg in given]), tuple(kwargs), classes)
    except Unsupported:
        return (id(callee.value), object())


def _key_part(tx: Tracer, value: Value) -> Any:
    if isinstance(value, SymNodeVariable):
        return _Symbolic(expr_of(value.example))
    if type(value) in (TupleVariable, SizeVariable) and not value.is_constant():
        return tuple([_key_part(tx, item) for item in value.unpack(tx)])
    if value in tx.effects.cached and _is_hashed_by_identity(value):
        return value
    return value.hash_key(tx)


def _is_hashed_by_identity(value: Value) -> bool:
    cls = value.python_type()
    return lookup(cls, "__hash__")[0] in (object, torch.nn.Module) and lookup(cls, "__eq__")[0] is object


def _is_plain(value: Value) -> bool:
    """Whether the output code has the value before the graph runs, so that it can ask a cache for it, or compare it."""
    if value.is_constant():
        return True
    if isinstance(value, SymNodeVariable):
        return value.python_type() is int and not value.depends_on_data()
    if type(value) in (TupleVariable, SizeVariable):
        return all(map(_is_plain, value.children()))
    return value.source is not None and not isinstance(value, TensorVariable)


def _varies_unasked(result: Value) -> bool:
    """Whether a result varies with what the function reads, and is no number that the output code can compare with what the cache
    has."""
    return isinstance(result, SymNodeVariable) and not _is_plain(result)


def _keep(tx: Tracer, callee: Value, given: Sequence[Value], result: Value, origin: Origin) -> bool:
    """Hands the objects that a call has made over to the cache. -> whether there are any that can change"""
    cached, writes = tx.effects.cached, len(tx.output.world.fake_mode.writes)
    older = set(_reached(tx, given))
    made = [value for value in _reached(tx, [result]) if value not in older and not _is_frozen(value)]
    for value in made:
        if hasattr(value.python_type(), "__next__"):
            _refuse(callee, f"whose cache keeps {value.describe()}")
        if isinstance(value, TensorVariable) and value.fake.layout is torch.strided:
            cached.keep_tensor(value, origin, storage_of(value.fake), writes)
        cached.keep(value, origin)
    return bool(made)


def _reached(tx: Tracer, values: Iterable[Value]) -> Iterator[Value]:
    """The objects that the trace has made and that `values` hold."""
    todo, seen = list(values), set[Value]()
    while todo:
        value = todo.pop()
        if value not in seen and value.source is None and not value.is_constant() and not isinstance(value, SymNodeVariable):
            seen.add(value)
            yield value
            todo += tx.effects.held_by(value)


def _is_frozen(value: Value) -> bool:
    """Whether an object cannot change, so that an equal one will do. What it holds may change."""
    cls = value.python_type()
    dataclass = getattr(cls, "__dataclass_params__", None)
    if dataclass is not None and dataclass.frozen:
        return True
    return issubclass(cls, (tuple, frozenset, types.FunctionType, types.MethodType, functools.partial))
