"""Traces the `__torch_dispatch__` of a wrapper subclass when torch's dispatcher calls it with an operator on fakes. The trace
shows what the operator returns; the nodes that it records are dropped.

The graph keeps the operation on the wrapper, and runs the program's `__torch_dispatch__` there, once. So that method must only
compute, and must see what it would see in CPython: no side effect may be pending that the output code repeats after the graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer.effects.deferred_calls import warn
from tracer.errors import Unsupported
from tracer.graph.fakes.fake_tensors import symbols_in
from tracer.graph.fakes.override_probes import in_order_of_precedence
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph_breaks import unsupported
from tracer.interpreter.overriding import override_of
from tracer.library.structures import containers_of, fakes_of, tracked
from tracer.library.subgraphs import Part, argument_of_function, recording
from tracer.operators.proxies import SYM_TYPES
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ObjectSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import SequenceVariable, TupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import WrapperVariable
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.protocol.tracer import Tracer


def dispatched(tx: Tracer, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], met: list[WrapperFake]) -> Any:
    """The result of `func` on fakes; `met` are the fakes of wrappers among its arguments."""
    name = f"{met[0].wrapper.__qualname__}.__torch_dispatch__ of {func}"
    if not isinstance(func, torch._ops.OpOverload):
        unsupported("tensor-subclass", cls=met[0].wrapper.__qualname__, source=f"{func}")
    trace = tx.trace
    mode = trace.output.world.fake_mode
    written = len(mode.writes)
    try:
        refuse_pending_changes(trace, name)
        with trace.output.world.called_back(), looked_at(tx, name, met):
            result = fakes_of(containers_of(tx, _answer(tx, func, args, kwargs, met)))
        trace.output.keep_inputs(mode.writes[written:])
        mode.note_may_fail()  # code of the program may raise whatever it likes
        return result
    except BaseException as error:
        trace.output.note_failure_in_dispatch(error)
        raise


def _answer(tx: Tracer, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], met: list[WrapperFake]) -> VariableTracker:
    def leaf(value: Any) -> VariableTracker:
        if isinstance(value, torch.Tensor):
            return tx.output.tracked(value) or tx.output.wrap(_stand_in(tx, value), value)
        if isinstance(value, SYM_TYPES):
            return tx.output.wrap(_stand_in(tx, value), value)
        return tx.literal(value)

    values = [leaf(fake) for fake in met]
    ordered = in_order_of_precedence(values, [value.python_type() for value in values])
    kinds = TupleVariable([tx.class_variable(value.python_type(), value) for value in ordered])
    given = [tx.wrap(func, ObjectSource(func, str(func))), kinds, tracked(tx, args, leaf), tracked(tx, kwargs, leaf)]
    for value in ordered:
        tx.output.modules_of_wrappers.add(value.python_type().__module__)
        answer: VariableTracker = override_of(tx, value, "__torch_dispatch__").call(tx, given, {})
        if not (isinstance(answer, ConstantVariable) and answer.value is NotImplemented):
            return answer
    unsupported("tensor-subclass", cls=met[0].wrapper.__qualname__, source=f"{func}, which is not implemented")


def _stand_in(tx: Tracer, example: Any) -> fx.Node:
    return tx.output.create_node("call_function", argument_of_function, (), {}, example, pure=True)


def refuse_pending_changes(trace: Trace, name: str) -> None:
    """Refuses if the program has changed objects that existed before: the graph would run before the changes are repeated."""
    effects = trace.effects
    changed = [target for target in effects.mutated if target.source is not None and not _is_unchanged(target)]
    calls = [call for call in effects.calls if call.function is not warn]  # of which no program can see whether it has happened
    if not changed and not calls and not any(effects.stored_globals()):
        return
    unsupported("effect-in-subgraph", name=name, value="an object that it may look at was changed before")


def _is_unchanged(target: VariableTracker) -> bool:
    return isinstance(target, DictVariable) and not any(True for _ in target.replayed())


@contextlib.contextmanager
def looked_at(tx: Tracer, name: str, wrappers: Sequence[WrapperFake] = ()) -> Iterator[None]:
    """Within, code of the program is traced that the graph will run as one operation. The nodes that it records are dropped, and
    it may change nothing but tensors."""
    trace = tx.trace
    output, env = trace.output, trace.output.world.env
    _refuse_surroundings(trace, name, wrappers)
    asserts, leaves, asked = len(env.runtime_asserts), len(output.own_leaves), len(trace.effects.cached.asked)
    draws = len(trace.effects.draws)
    try:
        with trace.aside(), output.tracing_wrapper(), trace.overrides.refusing():
            with recording(tx, name, writable=None) as part:
                yield
    except Unsupported as error:
        error.break_step = None  # the whole operation is left to CPython
        raise
    if len(env.runtime_asserts) > asserts or len(trace.effects.cached.asked) > asked or len(trace.effects.draws) > draws:
        unsupported("effect-in-subgraph", name=name, value="it assumes something of data, or does more than compute")
    _keep_parts(trace, part, name)
    _refuse_new_symbols(part, name)
    part.drop()
    output.own_leaves.forget(leaves)


def _refuse_surroundings(trace: Trace, name: str, wrappers: Sequence[WrapperFake]) -> None:
    overrides, output = trace.overrides, trace.output
    if any(torch.is_autocast_enabled(fake.device.type) for fake in wrappers):  # it is off in __torch_dispatch__
        unsupported("effect-in-subgraph", name=name, value="it is called under autocast")
    if overrides.modes or torch._C._are_functorch_transforms_active():
        unsupported("effect-in-subgraph", name=name, value="a mode or a transform is active")
    if output.on_trial is not None or (trace.effects.observer is not None and not output.traces_wrapper):
        unsupported("effect-in-subgraph", name=name, value="it is called in a part of the graph that is looked at by itself")


def _keep_parts(trace: Trace, part: Part, name: str) -> None:
    """Keeps the attributes of the wrappers that were made. The log forgets the changes to objects that are dropped now."""
    effects, kept, before = trace.effects, trace.output.parts, set(part.known)
    for target in part.changed:
        if target is None or target.source is not None or target in before:
            continue
        if isinstance(target, WrapperVariable):
            stored = {key: value for key, value in effects.attributes(target).items() if isinstance(value, VariableTracker)}
            if stored and id(target.fake) in kept:
                unsupported("effect-in-subgraph", name=name, value="it changes a wrapper that an operation has made")
            kept.setdefault(id(target.fake), (target.fake, stored))
            fake: Any = target.fake
            fake.numbers = tuple(_numbers_in(part.tx, stored.values()))
            fake.held = {key: value.fake for key, value in stored.items() if isinstance(value, TensorVariable)}
        effects.forget(target)


def _numbers_in(tx: Tracer, values: Iterable[VariableTracker]) -> Iterator[Any]:
    """The symbolic numbers in values and their items."""
    for value in values:
        if isinstance(value, SymNodeVariable):
            yield value.example
        elif isinstance(value, SequenceVariable):
            yield from _numbers_in(tx, value.items(tx))
        elif isinstance(value, DictVariable):
            yield from _numbers_in(tx, [item for _, item in value.pairs(tx)])


def _refuse_new_symbols(part: Part, name: str) -> None:
    """Refuses sizes that depend on data: the nodes that would compute them are dropped."""
    for node in part.nodes():
        if any(str(symbol).startswith(("u", "zuf")) for symbol in symbols_in(node.meta.get("example_value"))):
            unsupported("effect-in-subgraph", name=name, value="it makes a size that depends on data")


def made_wrapper(
    tx: Tracer,
    cls: type,
    run: Callable[[], VariableTracker],
    args: Sequence[VariableTracker],
    kwargs: Mapping[str, VariableTracker],
) -> VariableTracker:
    """cls(*args, **kwargs), as one operation of the graph; `run` traces it."""
    if tx.output.traces_wrapper:
        return run()
    name = f"{cls.__qualname__}(...)"
    refuse_pending_changes(tx.trace, name)
    graph_args = tuple(_argument(tx, cls, arg) for arg in args)
    graph_kwargs = {key: _argument(tx, cls, arg) for key, arg in kwargs.items()}
    tx.output.modules_of_wrappers.add(cls.__module__)
    with looked_at(tx, name):
        made = run()
    if not isinstance(made, WrapperVariable) or made.python_type() is not cls or made.source is not None:
        unsupported("tensor-subclass", cls=cls.__qualname__, source="a constructor that gives something else")
    node = tx.output.create_node("call_function", constructor(cls), graph_args, graph_kwargs, made.fake)
    return tx.output.wrap(node, made.fake)


def _argument(tx: Tracer, cls: type, value: VariableTracker) -> Any:
    """The node's argument for an argument of a constructor, which may keep it. The graph passes a list of its own."""
    if isinstance(value, SequenceVariable) and value.cls in (tuple, torch.Size):
        return tuple(_argument(tx, cls, item) for item in value.items(tx))
    if isinstance(value, SequenceVariable) and value.cls is list and value.source is None:
        tx.effects.handed_over.keep(value, cls.__qualname__, tx.break_step())
        return [_argument(tx, cls, item) for item in value.items(tx)]
    if not isinstance(value, (TensorVariable, SymNodeVariable)) and not value.is_constant():
        unsupported("tensor-subclass", cls=cls.__qualname__, source=f"a constructor call with {value.describe()}")
    return tx.as_graph_arg(value)


def constructor(cls: type) -> Callable[..., Any]:
    """The operation of a graph that makes an instance."""

    def make(*args: Any, **kwargs: Any) -> Any:
        return cls(*map(_own_lists, args), **{key: _own_lists(value) for key, value in kwargs.items()})

    make.__name__ = cls.__name__
    return make


def _own_lists(value: Any) -> Any:
    """The argument with lists that the instance may keep: those of FX cannot be changed, and are the same in each call."""
    if isinstance(value, list):
        return [_own_lists(item) for item in value]
    return tuple(map(_own_lists, value)) if type(value) is tuple else value
