"""Models of streams and events of accelerators, of what waits for them, and of ranges for a profiler.

Nothing of this happens while tracing. Each call is a node that runs in its place: a graph for a compiler is cut there, and what
lies between is compiled. A graph is given streams and events, or makes them; others may come at each call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.effects.torch_state import STREAM_CONTEXTS, ContextKind
from tracer.graph.operations.streams import RuntimeObject, range_popped, range_pushed
from tracer.graph_breaks import unsupported
from tracer.guards.identity import TypeMatch
from tracer.operators.kept_from_compilers import keep_from_compilers
from tracer.protocol.inlining import transparent
from tracer.protocol.lookups import lookup
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.objects.runtime_objects import RuntimeObjectVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer

Value = VariableTracker

_BACKENDS: tuple[Any, ...] = (torch.cuda, torch.xpu, torch.cpu)
_STREAMS: tuple[Any, ...] = (torch.Stream, torch.cuda.ExternalStream, *(backend.Stream for backend in _BACKENDS))
_EVENTS: tuple[Any, ...] = (torch.Event, *(backend.Event for backend in _BACKENDS))


@tracks(*_STREAMS, *_EVENTS)
def _existing(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    builder.guard(TypeMatch(source, cls))
    node = tx.output.add_input(source, value, RuntimeObject(cls))
    return builder.remember(value, RuntimeObjectVariable(cls, node, value, source))


# -- nodes ---------------------------------------------------------------------------------------------------------------


def _begin(tx: Tracer, name: str) -> None:
    """Breaks the graph where a call with an effect cannot be part of it."""
    inside = tx.effects.observer is not None or torch._C._are_functorch_transforms_active()  # a graph in the graph
    if inside or not tx.output.chances.take():
        unsupported("side-effect-call", name=name, value="streams and events of a device")
    tx.output.journal.refuse(f"it calls {name}")


def _node(tx: Tracer, op: str, target: Any, args: Iterable[Value], kwargs: dict[str, Value], example: Any) -> fx.Node:
    name = target if isinstance(target, str) else target.__name__
    given = tuple([_argument(arg, name) for arg in args])
    named = {key: _argument(value, name) for key, value in kwargs.items()}
    _begin(tx, name)
    return tx.output.create_node(op, target, given, named, example)


def _argument(value: Value, name: str) -> Any:
    if isinstance(value, (RuntimeObjectVariable, TensorVariable)):
        return value.graph_arg()
    if not value.is_constant():
        unsupported("side-effect-call", name=name, value=value.describe())
    return value.constant()


def _model_that_makes(function: Any, cls: type, is_new: bool = True) -> Any:
    """The model of a function that gives an object of the class `cls`."""

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        node = _node(tx, "call_function", function, args, kwargs, RuntimeObject(cls))
        return RuntimeObjectVariable(cls, node, is_new=is_new)

    return model


def _model_that_acts(function: Any) -> Any:
    """The model of a function that returns None."""

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        _node(tx, "call_function", function, args, kwargs, None)
        return NONE

    return model


def _register_functions() -> None:
    acting: list[Any] = [torch.accelerator.synchronize, torch.accelerator.empty_cache]
    for backend in _BACKENDS:
        acting.append(backend.synchronize)
        making = {backend.current_stream: backend.Stream, backend.Stream: backend.Stream, backend.Event: backend.Event}
        if backend is not torch.cpu:
            acting.append(backend.empty_cache)
        if backend is torch.cuda:
            making[backend.default_stream] = backend.Stream
        for function, cls in making.items():
            _register(function, _model_that_makes(function, cls, is_new=function is cls or backend is not torch.cpu))
        transparent(backend.stream, backend.StreamContext.__init__)
    for function, cls in {
        torch.Stream: torch.Stream,
        torch.Event: torch.Event,
        torch.accelerator.current_stream: torch.Stream,
    }.items():
        _register(function, _model_that_makes(function, cls))
    for function in (*acting, torch.cuda.nvtx.mark):
        _register(function, _model_that_acts(function))


def _register(function: Any, model: Any) -> None:
    models.of_plain_tensors(function)(model)
    keep_from_compilers(function)
    if hasattr(function, "__code__"):
        _C.never_trace(function.__code__)


# -- methods -------------------------------------------------------------------------------------------------------------

_RETURNING: dict[str, type | None] = {
    "wait_stream": None,
    "wait_event": None,
    "wait": None,
    "record": None,
    "synchronize": None,
    "query": bool,
    "elapsed_time": float,
}


def _model_of_method(name: str, returned: type | None) -> Any:
    def model(tx: Tracer, owner: Value, *args: Value, **kwargs: Value) -> Value:
        _refuse_unknown(owner, name)
        example = None if returned is None else RuntimeObject(returned)
        node = _node(tx, "call_method", name, (owner, *args), kwargs, example)
        return NONE if returned is None else RuntimeObjectVariable(returned, node, is_new=returned is not bool)

    return model


def _record_event(tx: Tracer, owner: Value, event: Value = NONE) -> Value:
    _refuse_unknown(owner, "record_event")
    if not event.is_none():
        _node(tx, "call_method", "record_event", (owner, event), {}, None)
        return event
    cls = owner.python_type()
    if cls is torch.cpu.Stream:  # where nothing is recorded
        return NONE
    event_of = next(made for base, made in _EVENT_OF.items() if issubclass(cls, base))
    node = _node(tx, "call_method", "record_event", (owner,), {}, RuntimeObject(event_of))
    return RuntimeObjectVariable(event_of, node)


_EVENT_OF: dict[Any, Any] = {torch.cuda.Stream: torch.cuda.Event, torch.xpu.Stream: torch.xpu.Event, torch.Stream: torch.Event}


def _refuse_unknown(owner: Value, name: str) -> None:
    if not isinstance(owner, RuntimeObjectVariable):  # of a subclass
        unsupported("unsupported-method", value=owner.describe(), name=name)


def _register_methods() -> None:
    for name in (*_RETURNING, "record_event"):
        for descriptor in _descriptors((*_STREAMS, *_EVENTS), name):
            model = _record_event if name == "record_event" else _model_of_method(name, _RETURNING[name])
            models.of_plain_tensors(descriptor)(model)
    keep_from_compilers(*_RETURNING, "record_event", "record_stream")  # names of no other methods that a graph calls


def _descriptors(classes: Iterable[Any], name: str) -> list[Any]:
    found = [lookup(cls, name) for cls in classes]
    return list({id(static): static for owner, static in found if owner is not None and owner is not object}.values())


@models.of_plain_tensors(torch.Tensor.record_stream)
def _record_stream(tx: Tracer, tensor: Value, stream: Value) -> Value:
    if not isinstance(tensor, TensorVariable):
        unsupported("unsupported-method", value=tensor.describe(), name="record_stream")
    _node(tx, "call_method", "record_stream", (tensor, stream), {}, None)
    return NONE


# -- contexts ------------------------------------------------------------------------------------------------------------


def _model_of_enter(kind: ContextKind) -> Any:
    """The model of the `__enter__` of a context manager that makes a stream the current one where the graph runs."""

    def model(tx: Tracer, manager: Value) -> Value:
        if isinstance(manager, RuntimeObjectVariable):  # `with stream:`
            _begin(tx, "Stream.__enter__")
            tx.trace.torch_state.enter(kind, manager, (manager.graph_arg(),))
            return manager
        stream = manager.get_attr(tx, "stream")
        if stream.is_none():
            tx.trace.torch_state.enter(kind, manager, None)
            return NONE
        node = _node(tx, "call_function", manager.python_type(), (stream,), {}, RuntimeObject(manager.python_type()))
        tx.trace.torch_state.enter(kind, manager, (node,))
        return NONE

    return model


def _model_of_exit(kind: ContextKind) -> Any:
    def model(tx: Tracer, manager: Value, *exception: Value) -> Value:
        opened = [context for context in tx.trace.torch_state.open if context.manager is manager]
        if not opened:  # by a frame that ran before
            unsupported("with-block", value=manager.describe())
        tx.trace.torch_state.leave(opened[-1])
        return NONE

    return model


def _register_contexts() -> None:
    for kind in STREAM_CONTEXTS:
        models.of_plain_tensors(kind.manager_enter)(_model_of_enter(kind))
        models.of_plain_tensors(kind.manager_exit)(_model_of_exit(kind))
    keep_from_compilers(*(backend.StreamContext for backend in _BACKENDS))


# -- ranges for a profiler -----------------------------------------------------------------------------------------------


@models.of_plain_tensors(torch.cuda.nvtx.range_push)
def _range_push(tx: Tracer, msg: Value) -> Value:
    return RuntimeObjectVariable(int, _node(tx, "call_function", range_pushed, (msg,), {}, RuntimeObject(int)), is_new=False)


@models.of_plain_tensors(torch.cuda.nvtx.range_pop)
def _range_pop(tx: Tracer) -> Value:
    targets = [node.target for node in tx.output.graph.nodes]
    if targets.count(range_pushed) <= targets.count(range_popped):  # a graph that fails could not push it again
        unsupported("side-effect-call", name="torch.cuda.nvtx.range_pop", value="of a range that was pushed before")
    return RuntimeObjectVariable(int, _node(tx, "call_function", range_popped, (), {}, RuntimeObject(int)), is_new=False)


_register_functions()
_register_methods()
_register_contexts()
transparent(torch.cuda.nvtx.range.__wrapped__)
