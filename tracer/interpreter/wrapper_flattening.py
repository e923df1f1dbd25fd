"""Takes wrappers apart, for backends that compile. What `__tensor_flatten__` gives is traced, so that all it reads is guarded.

The compiler works on instances that `__tensor_unflatten__` makes. So it is tried whether that makes all that a wrapper holds: on
the real one, if it exists before the trace; else that is traced, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracer.graph.fakes.flattened import Flattened, Form, Place, attributes_of, put_together_again, with_places
from tracer.graph_breaks import unsupported
from tracer.guards.constants import constant_key, is_guardable_constant
from tracer.interpreter.wrapper_dispatch import looked_at, refuse_pending_changes
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import SequenceVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import WrapperVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_OF_TORCH = frozenset({"_is_param"})  # set by torch itself


def flattened(tx: Tracer, wrapper: WrapperVariable) -> Flattened:
    """What a wrapper that exists before the trace is made of. Breaks the graph where that cannot be said."""
    cls = wrapper.cls
    what = f"{cls.__qualname__}.__tensor_flatten__"
    refuse_pending_changes(tx.trace, what)
    tx.output.modules_of_wrappers.add(cls.__module__)
    parts: dict[str, torch.Tensor] = {}
    with looked_at(tx, what):
        names, context = _taken_apart(tx, wrapper)
        for each in [name.constant() for name in names]:
            part = wrapper.get_attr(tx, each)
            if not isinstance(part, TensorVariable) or part.source is None:
                _refuse(cls, f"its .{each}, which __tensor_flatten__ names")
            tx.output.wrappers.look_into(part.fake)
            parts[each] = part.fake
        written = _context(tx, cls, context)
    lost = _lost(wrapper.real(tx), cls)
    return Flattened(parts, written, lost)


def form_of(tx: Tracer, wrapper: WrapperVariable) -> Form:
    """How the class of a wrapper that the graph makes takes it apart. Breaks the graph if it would not put it together as it is.
    What it does depends on which attributes there are, and on those that are no tensors: of wrappers that are alike in this, one
    is tried."""
    key = wrapper.cls, tuple((name, _kind(tx, part, 0)) for name, part in wrapper.parts.items())
    return tx.output.wrappers.form(key, lambda: _tried(tx, wrapper))


def _tried(tx: Tracer, wrapper: WrapperVariable) -> Form:
    cls = wrapper.cls
    tx.output.modules_of_wrappers.add(cls.__module__)
    with looked_at(tx, f"{cls.__qualname__}.__tensor_unflatten__"):
        names, context = _taken_apart(tx, wrapper)
        inner = DictVariable({name.hash_key(tx): (name, wrapper.get_attr(tx, name.constant())) for name in names})
        with tx.trace.overrides.switched(on=False):  # torch asks the tensor itself
            metadata = [wrapper.call_method(tx, method, [], {}) for method in ("size", "stride")]
        make = tx.class_variable(cls).get_attr(tx, "__tensor_unflatten__")
        made = make.call(tx, [inner, context, *metadata], {})
        if not isinstance(made, WrapperVariable) or made.cls is not cls:
            _refuse(cls, "a __tensor_unflatten__ that makes something else")
        seen = tx.effects.attributes(made)
        for name in wrapper.parts.keys() | seen.keys():
            if name not in seen or name not in wrapper.parts or _differ(tx, seen[name], wrapper.parts[name]):
                _refuse(cls, f"a __tensor_unflatten__ that makes another .{name}")
        known = _context(tx, cls, context)
    places: list[tuple[Any, ...]] = []

    def note(number: Any, path: tuple[Any, ...]) -> Place:
        places.append(path)
        return Place(len(places) - 1)

    return Form(tuple([name.constant() for name in names]), with_places(known, note), tuple(places))


def _differ(tx: Tracer, one: Any, other: Any) -> bool:
    return bool(_kind(tx, one) != _kind(tx, other))


def _kind(tx: Tracer, part: Any, tensor: int | None = None) -> Any:
    """What is compared of two attributes: whether a tensor is the same object (or the number `tensor` for each), and whether what
    is no tensor is equal."""
    if isinstance(part, TensorVariable):
        return id(part.fake) if tensor is None else tensor
    if isinstance(part, SymNodeVariable):
        return "symbolic", part.example.node.expr if tensor is None else tensor
    if isinstance(part, SequenceVariable):
        return part.python_type(), tuple(_kind(tx, item, tensor) for item in part.items(tx))
    if isinstance(part, DictVariable):
        return dict, tuple((key.identity(), _kind(tx, value, tensor)) for key, value in part.pairs(tx))
    return ("constant", constant_key(part.constant())) if part.is_constant() else part.identity()


def _taken_apart(tx: Tracer, wrapper: WrapperVariable) -> tuple[list[VariableTracker], VariableTracker]:
    """The names of the tensors inside, and the context."""
    result = wrapper.get_attr(tx, "__tensor_flatten__").call(tx, [], {})
    if not isinstance(result, SequenceVariable) or len(items := result.items(tx)) != 2:
        _refuse(wrapper.cls, "a __tensor_flatten__ that does not give names and a context")
    names, context = items
    if not isinstance(names, SequenceVariable) or not all(each.is_constant() for each in names.items(tx)):
        _refuse(wrapper.cls, "a __tensor_flatten__ whose names are not known")
    return names.items(tx), context


def _refuse(cls: type, what: str) -> NoReturn:
    unsupported("tensor-subclass", cls=cls.__qualname__, source=f"{what}, to be compiled")


def _context(tx: Tracer, cls: type, value: VariableTracker) -> Any:
    """A context as Python's own containers. Numbers may be symbolic in it; floats are constants."""
    if value.is_constant():
        return value.constant()
    if isinstance(value, SymNodeVariable):
        return value.example if value.python_type() is int else value.specialize(tx).value
    kind = value.python_type()
    if isinstance(value, SequenceVariable) and kind in (list, tuple, torch.Size):
        return kind([_context(tx, cls, item) for item in value.items(tx)])
    if isinstance(value, DictVariable) and kind is dict and all(key.is_constant() for key, _ in value.pairs(tx)):
        return {key.constant(): _context(tx, cls, item) for key, item in value.pairs(tx)}
    _refuse(cls, f"a __tensor_flatten__ that gives {value.describe()}")


def _lost(real: torch.Tensor, cls: type) -> frozenset[str]:
    """The attributes of a wrapper that an instance made by `__tensor_unflatten__` does not have. Breaks the graph where it has
    another value: an operation on it might give another result, and nobody would notice."""
    try:
        made = put_together_again(real)
    except Exception as error:
        _refuse(cls, f"a __tensor_unflatten__ that raises {type(error).__name__}: {error}")
    exact: Any = type(made)
    if exact is not cls or (made.dtype, made.device, made.shape) != (real.dtype, real.device, real.shape):
        _refuse(cls, "a __tensor_unflatten__ that makes another tensor")
    expected, seen = attributes_of(real), attributes_of(made)
    for name in expected.keys() & seen.keys() - _OF_TORCH:
        if not _same(expected[name], seen[name]):
            _refuse(cls, f"a __tensor_unflatten__ that makes another .{name}")
    return frozenset(expected.keys() - seen.keys() - _OF_TORCH)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, torch.Tensor):
        return False
    if type(one) in (list, tuple, torch.Size):
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is dict:
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    return is_guardable_constant(one) and repr(one) == repr(other)
