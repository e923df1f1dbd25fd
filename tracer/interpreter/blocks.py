"""What one call of a module did in a trace, and whether that can be done once more for another module (`interpreter.replay`)."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer.graph.fakes.fake_tensors import storages_of
from tracer.graph.journal import Copied, Event, Met, Recorded, Unrepeatable
from tracer.graph.output_graph import EXAMPLE
from tracer.guards.base import Guard
from tracer.guards.identity import TypeMatch
from tracer.guards.tensors import TensorMatch
from tracer.interpreter.copying import Copying, copying_of, tensors_of
from tracer.interpreter.likeness import Likeness, NotRepeatable, is_plain_tensor, parts_of
from tracer.interpreter.relocation import Below
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import TypeSource
from tracer.sources.reading import is_a
from tracer.sources.roots import ObjectSource
from tracer.variables.containers.lists import SizeVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.interpreter.translator import InstructionTranslator
    from tracer.sources.base import Source

_SUBMODULE = re.compile(r"\._modules\['([^']*)'\]")
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...), torch.dtype, torch.device, torch.layout,
              torch.memory_format)  # fmt: skip
_TARGETS = (str, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, torch._ops.OpOverload,
            torch._ops.OpOverloadPacket)  # fmt: skip


def path_of(name: str) -> str:
    """The name of a module's source as FX notes it beside a node."""
    return _SUBMODULE.sub(r".\1", name)


class Position:
    """How far the trace had come."""

    def __init__(self, tx: InstructionTranslator) -> None:
        trace, journal = tx.trace, tx.output.journal
        self.events, self.guards = len(journal.events), len(journal.guards)
        self.changes = len(trace.effects.changes)
        self.nodes, self.operations = len(tx.output.graph.nodes), tx.output.operations
        self.writes = len(tx.output.world.fake_mode.writes)
        self.steps, self.torch_calls = trace.steps, trace.torch_calls
        self.operations_of_callees = tx.operations_of_callees
        self.settings = _settings(trace)
        self.state = _state(trace)


def _settings(trace: Trace) -> tuple[Any, ...]:
    """What the program's operations depend on beside their arguments."""
    state, overrides, world = trace.torch_state, trace.overrides, trace.output.world
    return (
        id(world.operations.of_this_state()), torch.is_inference_mode_enabled(), state.changes, state.cache_enabled,
        len(state.open),
        overrides.disabled, overrides.refused, len(overrides.modes), overrides.met_subclass, world.fake_mode.met_wrapper,
    )  # fmt: skip


def _state(trace: Trace) -> tuple[int, ...]:
    """Counts of what a block leaves as it is, if it can be repeated."""
    output, effects, mode, env = trace.output, trace.effects, trace.output.world.fake_mode, trace.output.world.env
    return (
        effects.answered, len(effects.calls), len(effects.draws), effects.cached.size(),
        len(mode.shared_storages), len(env.symbols()), len(env.runtime_asserts), env.facts.replacements.version,
        len(output.parts), len(output.function_views), len(output.attributes),
        len(trace.generators), len(trace.stand_ins), len(trace.hashed), len(trace.weak_references), len(trace.read_late),
        len(trace.retaining), trace.enumerating, len(trace.findings.made),
        len(trace.findings.recreated), id(trace.handled),
    )  # fmt: skip


class Block:
    """What one call of a function did, whose first argument is a module."""

    def __init__(
        self, tx: InstructionTranslator, module: UserObjectVariable, likeness: Likeness, begin: Position, result: VariableTracker
    ) -> None:
        assert module.source is not None
        self.module, self.source, self.likeness, self.result = module, module.source, likeness, result
        self.begin, self.end = begin, Position(tx)
        self.stack = tx.module_stack()  # the modules that the caller runs in
        self.refusal = self._refusal()
        self.is_prepared = False
        self.below = Below(self.source)
        self.guards: list[Guard] = []  # those about the module
        self.older: list[Guard] = []  # of these, those from before the call
        self.outside: set[fx.Node] = set()  # nodes that it uses and that are neither arguments nor its own
        self.copying = Copying()  # which of its operations need not be run again
        self._paths: dict[str, str] = {}

    def _refusal(self) -> str:
        begin, end = self.begin, self.end
        if (begin.state, begin.settings) != (end.state, end.settings):
            pairs = zip((*begin.state, *begin.settings), (*end.state, *end.settings))
            return f"it changes what the trace keeps: {[index for index, (one, other) in enumerate(pairs) if one != other]}"
        return self.likeness.refusal

    def prepare(self, trace: Trace) -> None:
        """Looks through what the call did, when another call is alike for the first time."""
        self.is_prepared = True
        try:
            self._take_guards(trace)
            self._check_events(trace)
        except NotRepeatable as reason:
            self.refusal = str(reason)

    def path_of(self, rest: str) -> str:
        """As the function of this name, of the end of the name of a source below the module, and remembered."""
        known = self._paths.get(rest)
        if known is None:
            known = self._paths[rest] = path_of(rest)
        return known

    def events(self, trace: Trace) -> list[Event]:
        return trace.output.journal.events[self.begin.events : self.end.events]

    def _take_guards(self, trace: Trace) -> None:
        journal = trace.output.journal
        first = journal.first_guard[self.module]
        typed = set()
        through_classes: set[Source] = set()
        for index in range(first, self.end.guards):
            guard = journal.guards[index]
            for source in guard.sources():
                through_classes.update(self._classes_on_the_way(source))
            if self.below.touches(guard):
                (self.older if index < self.begin.guards else self.guards).append(guard)
                if isinstance(guard, (TypeMatch, TensorMatch)):
                    typed.add(guard.source)
        if not through_classes <= typed | {self.source}:
            raise NotRepeatable("the class of an object is not guarded by its identity")

    def _classes_on_the_way(self, source: Source | None) -> Iterator[Source]:
        """The sources below the module through whose classes a path leads."""
        while source is not None:
            if type(source) is TypeSource and source.base in self.below:
                yield source.base
            source = source.base

    def _check_events(self, trace: Trace) -> None:
        own: set[fx.Node] = set(self.likeness.nodes)
        values: set[VariableTracker] = {*self.likeness.leaves, *self.likeness.sequences}
        used: set[fx.Node] = set()
        made = 0
        for event in self.events(trace):
            if isinstance(event, Unrepeatable):
                raise NotRepeatable(event.what)
            if isinstance(event, Met):
                made += _check_met(event)
                if event.variable is not None:
                    values.add(event.variable)
                if isinstance(event.variable, TensorVariable):
                    own.add(event.variable.node)
            else:
                own.update(event.nodes)
                made += len(event.nodes)
                if isinstance(event, Copied):
                    used.update(_check_copied(event))
                    values.update([each.variable for each in event.reached.values()])
                else:
                    used.update(_check_recorded(event))
                    values.update(parts_of(event.result))
        if made != self.end.nodes - self.begin.nodes:
            raise NotRepeatable("it takes nodes out of the graph")
        self.outside = used - own
        written = self._check_writes(trace)
        symbols = trace.output.symbol_nodes()
        for node in self.outside:
            if node.op != "placeholder" and node not in symbols:
                raise NotRepeatable(f"it uses {node}, which is no argument")
        self._check_result(self.result, values)
        mode = trace.output.world.fake_mode
        self.copying = copying_of(self.events(trace), self._older_tensors(), written, tensors_of(self.result), mode)

    def _older_tensors(self) -> list[Any]:
        """Fakes of its arguments and of graph inputs that it uses and that were there before."""
        arguments = [leaf.fake for leaf in self.likeness.leaves if isinstance(leaf, TensorVariable)]
        return arguments + [each for node in self.outside if isinstance(each := node.meta[EXAMPLE], torch.Tensor)]

    def _check_writes(self, trace: Trace) -> set[int]:
        """Refuses writes to memory that the call has not made itself. -> the storages that it writes to"""
        written = set(trace.output.world.fake_mode.writes[self.begin.writes : self.end.writes])
        if not written:
            return written
        others = self._older_tensors()
        made: list[Any] = []
        for event in self.events(trace):
            if isinstance(event, Met):
                others += [event.variable.fake] if isinstance(event.variable, TensorVariable) else []
            elif isinstance(event, Recorded):
                made += [part.fake for part in parts_of(event.result) if isinstance(part, TensorVariable)]
            elif isinstance(event, Copied):
                made += [node.meta[EXAMPLE] for node in event.reached]
        if not written <= storages_of(made) - storages_of(others):
            raise NotRepeatable("it writes to what was there before")
        return written

    def _check_result(self, value: VariableTracker, known: set[VariableTracker]) -> None:
        """Checks that a result can be made of what takes the place of the known values."""
        if type(value) is ConstantVariable:
            if value.source is not None and value.source in self.below:
                raise NotRepeatable("it returns an attribute of the module")
        elif type(value) in (TupleVariable, SizeVariable) and value.source is None:
            for item in parts_of(value):
                if item is not value:
                    self._check_result(item, known)
        elif value not in known or not (is_plain_tensor(value) or type(value) is SymNodeVariable):
            raise NotRepeatable(f"it returns {value.describe()}")


def _check_met(event: Met) -> int:
    """Checks that the object can be met anew, in a block for another module. -> how many nodes that makes"""
    source, value = event.source, event.value
    is_tensor = isinstance(event.variable, TensorVariable)
    if isinstance(event.variable, TensorVariable) and not is_plain_tensor(event.variable):
        raise NotRepeatable("it meets a special tensor")
    root = None if source is None else source.root()
    if isinstance(root, ObjectSource) and not (lasts(value) or _is_made_of_plain(root)):
        raise NotRepeatable(f"it meets an object that has no path: {root.name}")
    return int(is_tensor)


def _is_made_of_plain(source: ObjectSource) -> bool:
    """Whether an object stands for any that is made in the same way, from what is the same for all modules."""
    return bool(source.made) and all(lasts(part) or is_a(part, _CONSTANTS) for part in source.made)


def lasts(value: Any) -> bool:
    """Whether an object is known by its name: the same for all modules that use it."""
    return is_a(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType))


def _check_recorded(event: Recorded) -> Iterable[fx.Node]:
    """The nodes among the arguments of an operation, all of which must be nodes or plain data."""
    list(parts_of(event.result))
    used: list[fx.Node] = []
    for argument in event.given:
        _check_argument(argument, used)
    if event.method != "measure" and not _is_target(event.arguments[0 if event.method == "symbolic_result" else 1]):
        raise NotRepeatable(f"it calls {event.arguments[0]}")
    if any(node._erased for node in event.nodes):
        raise NotRepeatable("it takes nodes out of the graph")
    return used


def _check_copied(event: Copied) -> Iterable[fx.Node]:
    """The nodes among the arguments of copied operations."""
    if any(node._erased for node in event.nodes):
        raise NotRepeatable("it takes nodes out of the graph")
    return {each for node in event.nodes for each in node.all_input_nodes}


def _check_argument(value: Any, used: list[fx.Node]) -> None:
    if isinstance(value, fx.Node):
        used.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _check_argument(item, used)
    elif isinstance(value, dict):
        for item in (*value.keys(), *value.values()):
            _check_argument(item, used)
    elif isinstance(value, slice):
        for item in (value.start, value.stop, value.step):
            _check_argument(item, used)
    elif not is_a(value, _CONSTANTS):
        raise NotRepeatable(f"an operation is given an object of {type(value).__qualname__}")


def _is_target(target: Any) -> bool:
    if isinstance(target, _TARGETS):
        return True
    module: Any = getattr(target, "__module__", None)
    return type(target) is types.FunctionType and isinstance(module, str) and module.partition(".")[0] == "torch"
