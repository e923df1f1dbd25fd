"""Calls of modules whose object has the structure of one that was traced before, in the same trace: what the first call did is
done once more for the new object, and no bytecode is run. docs/decisions/replay.md says why that is sound.

`Replayer.call` is asked at each call of a Python function whose first argument is a module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.fx.node import map_arg

from tracer import logs
from tracer.effects.dual_levels import level_of
from tracer.errors import TraceAnew
from tracer.graph.journal import Copied, Met, Reached, Recorded
from tracer.graph.output_graph import EXAMPLE
from tracer.guards.containers import EmptyDicts
from tracer.guards.identity import SameObject
from tracer.interpreter.blocks import Block, Position, lasts, path_of
from tracer.interpreter.likeness import Likeness, form_of_tensor, parts_of
from tracer.interpreter.relocation import Relocation, Unlike, is_below
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import instance_dict
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import UserFunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.interpreter.binding import Passed
    from tracer.interpreter.trace import Trace
    from tracer.interpreter.translator import InstructionTranslator
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source

MOST_BLOCKS = 4  # of one function and class that are tried at a call, the latest first
_FLAGS = ("pure", "another_object")  # that are set on nodes after they were made
_ASKED_FOR = (DictVariable, UserObjectVariable)  # what builders make of the objects that lead to a block's tensors; few are used
Stack = dict[str, tuple[str, type]]


class Replay:
    """One block once more, for another module."""

    def __init__(
        self, tx: InstructionTranslator, block: Block, module: UserObjectVariable, likeness: Likeness, begin: Position
    ) -> None:
        """Looks whether that can be done; nothing is changed yet. Raises Unlike."""
        assert module.source is not None
        self._tx, self._trace, self._block, self._module = tx, tx.trace, block, module
        self._check_call(likeness, begin)
        self._move = Relocation(block.below, module.source, module.value)
        self._guards = [self._move.guard(guard) for guard in block.guards]
        self._check_guards()
        self._met = [event for event in block.events(self._trace) if type(event) is Met]
        self._check_objects()
        self._values: dict[VariableTracker, VariableTracker] = {}
        self._nodes: dict[fx.Node, fx.Node] = {}
        self._stacks: dict[int, tuple[Stack, Stack]] = {}
        self._path = path_of(module.source.name)
        self._check_identities(likeness)

    # -- whether -----------------------------------------------------------------------------------------------------

    def _check_call(self, likeness: Likeness, begin: Position) -> None:
        trace, block = self._trace, self._block
        break_at = trace.break_at
        if break_at is not None and begin.steps < break_at <= begin.steps + block.end.steps - block.begin.steps:
            raise Unlike("the graph breaks in this call")
        if begin.settings != block.begin.settings:
            raise Unlike("torch's settings are others")
        if begin.state[-1] != block.begin.state[-1]:
            raise Unlike("another exception is handled")
        difference = likeness.difference(block.likeness)
        if difference or likeness.refusal:
            raise Unlike(difference or likeness.refusal)
        self._check_changes(likeness)
        if not block.is_prepared:
            block.prepare(trace)
        if block.refusal:
            raise Unlike(block.refusal)

    def _check_changes(self, likeness: Likeness) -> None:
        """What the block has read must not have changed: neither in it nor since."""
        effects, block, own = self._trace.effects, self._block, self._module.source
        of_program = {target: target.source for target in effects.mutated if target.source is not None}
        for target, source in of_program.items():
            if source in block.below or is_below(source, own):
                raise Unlike(f"{target.describe()} has changed")
        changed: Any = set(effects.changes[block.begin.changes :])
        if None in changed:
            raise Unlike("something has changed since then")
        later = {target for target in changed if self._is_met_later(target)}
        targets = changed - later
        if any(target.source is not None for target in targets):
            raise Unlike("something has changed since then")
        known = [target for target in of_program if target not in later]
        if targets and (block.likeness.reaches(effects, targets, known) or likeness.reaches(effects, targets)):
            raise Unlike("an argument has changed since then")

    def _is_met_later(self, target: VariableTracker) -> bool:
        """Whether an object of the program was not met before the block had ended, so that it has read nothing of it."""
        journal, end = self._trace.output.journal, self._block.end.events
        if type(target) is not UserObjectVariable or not journal.is_met_after(target, end):
            return False
        attributes = instance_dict(target.value)
        known = None if attributes is None else self._trace.builder.known(attributes)
        return known is None or journal.is_met_after(known, end)

    def _check_guards(self) -> None:
        known, policy = self._trace.output.guards, self._trace.policy
        for guard in self._block.older:
            if self._move.guard(guard) not in known:
                raise Unlike(f"no guard {guard} before the call")
        for guard in self._guards:
            if type(guard) is SameObject:
                self._check_same(guard)
            else:
                self._move.check(guard, policy)

    def _check_same(self, guard: SameObject) -> None:
        """Checks a guard on two places, of which one may lie outside of the module: the object is known then."""
        moved = [side for side in (guard.a, guard.b) if self._move.is_moved(side)]
        values = [self._move.value(side) for side in moved]
        if len(moved) == 2:
            holds = values[0] is values[1]
        else:
            known = self._trace.builder.known(values[0])
            holds = known is not None and known.source == (guard.b if moved[0] is guard.a else guard.a)
        if not holds:
            raise Unlike(str(guard))

    def _check_objects(self) -> None:
        """The objects that the block met for the first time must be new in the other module, too, and as many."""
        builder = self._trace.builder
        for guard in self._guards:
            if type(guard) is EmptyDicts and self._trace.met_elsewhere(guard, instance_dict(self._move.value(guard.source))):
                raise Unlike(f"a dict of {guard.source.name} was met before")
        seen: set[int] = set()
        for event in self._met:
            source = event.source
            if source is None or source not in self._block.below:
                continue
            value = self._move.value(self._move.source(source))
            if not event.by_builder or lasts(event.value):
                if value is not event.value:
                    raise Unlike(f"{source.name} is another object")
            elif builder.is_met(value) or id(value) in seen:
                raise Unlike(f"what corresponds to {source.name} was met before")
            seen.add(id(value))

    def _check_identities(self, likeness: Likeness) -> None:
        """Notes which values take the place of which. The arguments are the same object where those of the block are."""
        for old, node, new in zip(self._block.likeness.leaves, self._block.likeness.nodes, likeness.leaves):
            leaf: Any = new
            if self._values.setdefault(old, new) is not new or self._nodes.setdefault(node, leaf.node) is not leaf.node:
                raise Unlike("an argument is passed twice")
            for source in () if old is new or old.source is None else (old.source,):
                if source not in self._block.below or self._move.source(source) != new.source:
                    raise Unlike(f"{source.name} is another input")
        self._values.update(zip(self._block.likeness.sequences, likeness.sequences))
        for node in self._block.outside:
            self._nodes.setdefault(node, self._outside_node(node))
        if len(set(self._nodes.values())) < len(self._nodes):
            raise Unlike("an argument is passed twice")

    def _outside_node(self, node: fx.Node) -> fx.Node:
        """A graph input that the block uses and that was there before: of the module, or of something else."""
        item = next((item for item in self._trace.output.inputs.values() if item.node is node), None)
        if item is None or item.source not in self._block.below:
            return node
        source = self._move.source(item.source)
        found = self._trace.output.inputs.get(source)
        if found is None:
            raise Unlike(f"{source.name} was no input before the call")
        return found.node

    # -- doing it ----------------------------------------------------------------------------------------------------

    def run(self) -> VariableTracker:
        """The result of the call."""
        try:
            return self._run()
        except TraceAnew:
            raise
        except Exception as error:  # an assumption was wrong; without replay, none is made
            raise self._given_up(error) from None

    def _given_up(self, error: Exception) -> TraceAnew:
        logs.emit("replay", f"GIVEN UP at {self._module.describe()}: {type(error).__name__}: {error}")
        return TraceAnew(replays=False)

    def _run(self) -> VariableTracker:
        trace, block = self._trace, self._block
        for guard in self._guards:
            if type(guard) is EmptyDicts:
                trace.see_empty(guard, instance_dict(self._move.value(guard.source)))
            trace.restate(guard)
        for event in block.events(trace):
            if isinstance(event, Met):
                self._meet(event)
            elif isinstance(event, Copied):
                self._copy(event.nodes, event.reached)
            elif isinstance(event, Recorded):
                if event in block.copying:
                    self._copy(event.nodes, block.copying.reached)
                else:
                    self._record(event)
        trace.skip(block.end.steps - block.begin.steps, block.end.torch_calls - block.begin.torch_calls)
        self._tx.operations_of_callees += block.end.operations_of_callees - block.begin.operations_of_callees
        return self._value(block.result)

    def _meet(self, event: Met) -> None:
        variable: Any = event.variable
        if event.source is None or event.source not in self._block.below:
            return
        source = self._move.source(event.source)
        if event.by_builder and (variable is None or type(variable) in _ASKED_FOR):
            kind: Any = event.kind if variable is None else type(variable)
            self._trace.builder.expect(self._move.value(source), source, kind, self._wrap)
            return
        made: Any = self._tx.wrap(self._move.value(source), source)
        self._values[variable] = made
        if isinstance(variable, TensorVariable):
            if form_of_tensor(made.fake) != form_of_tensor(variable.fake):
                raise Unlike(f"{source.name} is another tensor")
            self._nodes[variable.node] = made.node

    def _wrap(self, value: Any, source: Source) -> VariableTracker:
        """The variable of an object that was expected. That it is wrapped without a break is an assumption as well."""
        try:
            return self._tx.wrap(value, source)
        except TraceAnew:
            raise
        except Exception as error:
            raise self._given_up(error) from None

    def _record(self, event: Recorded) -> None:
        output = self._trace.output
        first = len(output.journal.events)
        arguments = map_arg(event.given, self._node)
        result = event.repeat(output, arguments)
        repeated = output.journal.events[first]
        assert isinstance(repeated, Recorded)
        made = repeated.nodes
        is_known = event.method != "_call" and not made  # an expression of sizes that is in the graph by now
        if len(made) != len(event.nodes) and not is_known:
            raise Unlike("an operation makes other nodes")
        for old, new in zip(event.nodes, made):
            self._take_node(old, new)
        for before, now in zip(parts_of(event.result), parts_of(result), strict=True):
            self._take_result(before, now)

    def _copy(self, nodes: list[fx.Node], reached: dict[fx.Node, Reached]) -> None:
        """Records operations once more whose results are known to be like those of the block."""
        output = self._trace.output
        made: list[fx.Node] = []
        reached_now: dict[fx.Node, Reached] = {}
        for node in nodes:
            args, kwargs = map_arg((node.args, node.kwargs), self._node)
            known = reached.get(node)
            example = node.meta[EXAMPLE] if known is None else known.like.make(output.world.fake_mode, ())
            copy = self._nodes[node] = output.copy_node(node, args, kwargs, example, self._stack_of(node))
            made.append(copy)
            if known is not None:
                variable = self._values[known.variable] = output.wrap(copy, example)
                reached_now[copy] = Reached(variable, known.like)
        output.journal.copied(made, reached_now)

    def _take_node(self, old: fx.Node, new: fx.Node) -> None:
        if (old.op, old.target) != (new.op, new.target):
            raise Unlike("an operation makes other nodes")
        self._nodes[old] = new
        new.meta["location"] = old.meta["location"]
        stack = self._stack_of(old)
        if stack:
            new.meta["nn_module_stack"] = stack
        for flag in _FLAGS:
            if flag in old.meta:
                new.meta[flag] = old.meta[flag]

    def _take_result(self, old: Any, new: Any) -> None:
        if type(old) is not type(new):
            raise Unlike("an operation gives another kind of value")
        if type(old) is TensorVariable and form_of_tensor(old.fake) != form_of_tensor(new.fake):
            raise Unlike("an operation gives another tensor")
        if type(old) is SymNodeVariable and old.example.node is not new.example.node:
            raise Unlike("an operation gives another number")
        if type(old) in (TensorVariable, SymNodeVariable):
            self._nodes.setdefault(old.node, new.node)
        self._values[old] = new

    def _node(self, node: fx.Node) -> fx.Node:
        return self._nodes[node]

    def _value(self, value: Any) -> VariableTracker:
        """What takes the place of a value that the block returns."""
        if value in self._values:
            return self._values[value]
        if type(value) is ConstantVariable:
            return value
        made: VariableTracker = type(value)([self._value(item) for item in value.holdings()])
        return made

    def _stack_of(self, node: fx.Node) -> Stack:
        """The modules in which an operation runs, as FX notes them beside a node."""
        stack = node.meta.get("nn_module_stack")
        if not stack:
            return {}
        found = self._stacks.get(id(stack))
        if found is None:
            inner = list(stack.items())
            outer = list(self._block.stack.items())
            if inner[: len(outer)] != outer:
                raise Unlike("the calling modules are others")
            moved = dict(map(self._moved_module, inner[len(outer) :]))
            found = self._stacks[id(stack)] = stack, {**self._tx.module_stack(), **moved}
        return found[1]

    def _moved_module(self, entry: tuple[str, tuple[str, type]]) -> tuple[str, tuple[str, type]]:
        name, (path, cls) = entry
        before = self._block.source.name
        rest = name[len(before) :]
        if not name.startswith(before) or (rest and rest[0] not in ".["):
            return name, (path, cls)
        return self._move.root.name + rest, (self._path + self._block.path_of(rest), cls)


class Replayer:
    """The blocks of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._blocks: dict[tuple[Any, type], list[Block]] = {}

    def forget(self) -> None:
        self._blocks.clear()

    def concerns(self, function: Any, args: list[VariableTracker]) -> bool:
        """Whether a call may be repeated, or may be what a later call repeats."""
        if not args or type(args[0]) is not UserObjectVariable or type(function) is not UserFunctionVariable:
            return False
        module, trace = args[0], self._trace
        if module.value is None or module.source is None or not issubclass(module.cls, torch.nn.Module):
            return False
        on_trial = trace.output.on_trial is not None or trace.advanced_on_trial is not None
        refused = trace.builder.is_collecting or trace.output.traces_wrapper or trace.options.holds_leaves
        has_tangents = level_of(trace.torch_state) >= 0  # which what is known of results does not tell
        return not (on_trial or refused or has_tangents)

    def call(
        self,
        caller: Tracer,
        function: UserFunctionVariable,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
        passed: Passed | None,
        run: Callable[[], VariableTracker],
    ) -> VariableTracker:
        """The result of a call, which `run` traces."""
        tx: Any = caller  # the frame that implements the protocol
        module: Any = args[0]
        likeness = Likeness([*args[1:], *kwargs.values()], tuple(kwargs), passed)
        blocks = self._blocks.setdefault((function.value, module.cls), [])
        begin = Position(tx)
        for block in reversed(blocks[-MOST_BLOCKS:]):
            try:
                replay = Replay(tx, block, module, likeness, begin)
            except Unlike as unlike:
                _log("TRACED", module, function, f": not as {block.source.name}: {unlike}")
                continue
            _log("REPLAYED", module, function, f" as {block.source.name}")
            return replay.run()
        result = run()
        block = Block(tx, module, likeness, begin, result)
        if not block.refusal:
            if tx.output.operations > begin.operations:
                blocks.append(block)
        else:
            _log("NOT KEPT", module, function, f": {block.refusal}")
        return result


def _log(what: str, module: UserObjectVariable, function: UserFunctionVariable, rest: str) -> None:
    source = module.source
    assert source is not None
    logs.emit("replay", lambda: f"{what} {source.name} ({function.code.co_qualname}){rest}")
