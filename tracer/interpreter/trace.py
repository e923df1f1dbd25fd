"""The state that all frames of one trace share: graph, side effects, builder, and the step at which the trace is to stop."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tracer import config, monitoring, user_marks, variables
from tracer.discovery import import_modules
from tracer.effects.log import Effects
from tracer.effects.program_raises import ProgramRaises
from tracer.effects.settings_of_blocks import SettingsOfBlocks
from tracer.effects.torch_state import TorchState
from tracer.errors import TraceAnew
from tracer.graph.attempt import AttemptOptions
from tracer.graph.fakes.fake_tensors import FakeWorld, storages_of
from tracer.graph.output_graph import EXAMPLE, OutputGraph, Refusal, example_of
from tracer.graph_breaks import unsupported
from tracer.guards.memory import MemoryApart, MemoryShared
from tracer.guards.tensors import TensorMatch
from tracer.guards.unchanged import Findings
from tracer.interpreter.replay import Replayer
from tracer.interpreter.results import wrap_result
from tracer.interpreter.wrapper_dispatch import dispatched
from tracer.interpreter.wrapper_flattening import flattened, form_of
from tracer.locations import UserLocation
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder
from tracer.variables.builders.literals import from_python
from tracer.variables.classes.made_classes import detach_prototype
from tracer.variables.containers.python_hashes import HashedKeys
from tracer.variables.exceptions.exceptions import HandledOutsideVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.tensors.created_leaves import hold_leaf
from tracer.variables.tensors.overrides import OverrideState
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import WrapperVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.graph.fakes.flattened import Flattened, Form
    from tracer.graph.fakes.wrapper_fakes import WrapperFake
    from tracer.graph.output_graph import GraphInput
    from tracer.guards.base import Guard
    from tracer.guards.containers import EmptyDicts
    from tracer.guards.references import ObjectRef
    from tracer.interpreter.translator import InstructionTranslator
    from tracer.protocol.tracer import Tracer
    from tracer.runtime.frame_state import DynamismPolicy
    from tracer.sources.base import Source
    from tracer.variables.containers.call_form import CallForm
    from tracer.variables.iterators.generators import GeneratorVariable
    from tracer.variables.objects.instance_dict import InstanceDictVariable

import_modules(variables)  # registers the builders of tracked values, and methods


class BreakHere(Exception):
    """Raised before the instruction at which the graph is to break."""

    def __init__(self, frame: InstructionTranslator) -> None:
        super().__init__(frame)
        self.frame = frame


class Trace:
    """One attempt to trace a frame. After a graph break the attempt is thrown away and a new one, which knows the
    step at which to stop, runs up to it; nothing has to be undone because no user object is ever touched."""

    def __init__(
        self,
        policy: DynamismPolicy,
        world: FakeWorld,
        options: AttemptOptions,
        break_at: int | None = None,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        self.policy = policy
        self.options = options
        self.check_time = check_time  # raises when the trace has taken too long
        self.output = OutputGraph(world, self, options)
        self.raises = ProgramRaises(self.output)
        self.effects = Effects(self.user_location)
        self.torch_state = TorchState(self.output)
        self.settings = SettingsOfBlocks(self.torch_state.read_settings)
        self.overrides = OverrideState()
        self.builder = VariableBuilder(self)
        self.replayer = Replayer(self) if options.replays else None
        self.break_at = break_at
        self.seen_empty: dict[int, tuple[Source, ObjectRef]] = {}  # dicts by id that are guarded to be empty: place and class
        self.steps = 0
        self.lines = monitoring.begin()  # those that frames of the program come to
        self.frame: InstructionTranslator | None = None  # the innermost one
        self.handled_at_entry = sys.exception()
        self.handled: VariableTracker = HandledOutsideVariable()  # sys.exception()
        self.generators: list[tuple[GeneratorVariable, int]] = []  # those started, with the step of the call that led to it
        self.advanced_on_trial: dict[GeneratorVariable, Callable[[], None]] | None = None  # what undoes it; None: no trial
        self.row_iterators: dict[VariableTracker, tuple[Tracer, int]] = {}  # over tensors: which frame made it, and when
        self.torch_calls = 0  # of torch's functions that are not written in Python
        self.enumerating = 0  # how many enumerates that existed before are taking an item
        self.input_tensors: list[TensorVariable] = []
        self.restated_tensors: set[Source] = set()  # on which a guard that names all sizes and strides was restated
        self.computed_inputs: list[TensorVariable] = []  # those inputs that have an autograd history
        self.retaining: list[TensorVariable] = []  # tensors that retain their gradients, though they are no leaves
        self.locations: dict[UserLocation, UserLocation] = {}  # so that equal places are one object
        self.modules: set[Source] = set()  # where nn.Modules were met
        self.marks: dict[Source, dict[int, user_marks.DimMark]] = {}  # dims that the user marked, by tensor
        self.findings = Findings()
        self.stand_ins: dict[int, tuple[Any, VariableTracker]] = {}  # objects in prototypes of classes, by id, with their values
        self.hashed = HashedKeys()
        self.weak_references: dict[VariableTracker, dict[type, VariableTracker]] = {}  # those made, by referent
        self.instance_dicts: dict[VariableTracker, InstanceDictVariable] = {}  # by object
        self._constant_tuples: dict[int, tuple[tuple[Any, ...], VariableTracker]] = {}  # of code objects, by id
        self.read_late: list[tuple[CellVariable, VariableTracker, int]] = []  # by hooks: the cell, its contents, the step
        self.call_form: CallForm | None = None  # of the frame, where it takes **kwargs
        self.ids_are_keys = False  # whether id() was called
        self.marks_counted = user_marks.changes.count

    def constant(self, value: Any) -> VariableTracker:
        """The tracked form of a constant of a code object. CPython loads one tuple each time."""
        if type(value) is not tuple:
            return from_python(value)
        if id(value) not in self._constant_tuples:
            self._constant_tuples[id(value)] = value, from_python(value)
        return self._constant_tuples[id(value)][1]

    # -- the position of the trace ---------------------------------------------------------------------------------

    def enter(self, frame: InstructionTranslator | None) -> InstructionTranslator | None:
        """Makes `frame` the innermost frame. -> the one that was it before"""
        before, self.frame = self.frame, frame
        return before

    def begin_call(self, form: CallForm) -> None:
        """Tells how the frame's function was called, where it takes **kwargs."""
        self.call_form = form

    def next_step(self) -> int:
        """Counts the instruction that is about to run."""
        step = self.steps = self.steps + 1
        return step

    def go_back_to(self, frame: InstructionTranslator) -> None:
        """Puts the trace back into an outer frame, at the instruction which that frame is executing."""
        self.frame, self.steps = frame, frame.step

    def handle(self, value: VariableTracker) -> None:
        """sys.exception() is `value` from now on."""
        self.handled = value

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within, code of the program is traced that the frame does not run here. The trace's position is restored at the end."""
        before = self.frame, self.handled, self.steps, self.break_at
        self.break_at = None
        try:
            yield
        finally:
            self.frame, self.handled, self.steps, self.break_at = before

    @contextlib.contextmanager
    def trial(self, refusal: Refusal) -> Iterator[None]:
        """Within, code of the program is traced to see what it would do: a side effect or an operation in the graph breaks.
        Generators that it advances or closes are afterwards where they were."""

        def refuse(target: VariableTracker | None) -> None:
            self.output.refuse_on_trial()

        outer, self.advanced_on_trial = self.advanced_on_trial, {}
        started = len(self.generators)
        try:
            with self.aside(), self.effects.observed_by(refuse), self.output.trial(refusal):
                yield
        finally:
            del self.generators[started:]
            for go_back in self.advanced_on_trial.values():
                go_back()
            self.advanced_on_trial = outer

    def advancing(self, generator: GeneratorVariable) -> None:
        """To be called before a generator is advanced or closed, so that the end of a trial can undo it."""
        if self.advanced_on_trial is not None and generator not in self.advanced_on_trial:
            self.advanced_on_trial[generator] = generator.begin_trial()

    # -- notes on the program --------------------------------------------------------------------------------------

    def count_torch_call(self) -> None:
        """Counts a call of a torch function that is not written in Python."""
        self.torch_calls += 1

    def note_id_read(self) -> None:
        """The program has called id()."""
        self.output.journal.refuse("it calls id()")
        self.ids_are_keys = True

    @contextlib.contextmanager
    def taking_item(self) -> Iterator[None]:
        """Within, an enumerate that existed before takes an item."""
        self.enumerating += 1
        try:
            yield
        finally:
            self.enumerating -= 1

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, root: InstructionTranslator) -> None:
        """Drops the references to the frame's values. Whatever outlives the trace, above all the graph's fakes, must not keep
        them alive, and they must not wait for the garbage collector."""
        self.settings.close()
        open_frames = [] if self.frame is None else self.frame.frames()
        for frame in (root, *open_frames, *(generator.frame for generator, _ in self.generators)):
            frame.forget()
        self.frame = self.handled_at_entry = None
        self.handled = HandledOutsideVariable()
        self.generators.clear()
        self.hashed.clear()
        self.weak_references.clear()
        self.instance_dicts.clear()
        self._constant_tuples.clear()
        self.input_tensors.clear()
        self.restated_tensors.clear()
        self.computed_inputs.clear()
        self.retaining.clear()
        self.row_iterators.clear()
        self.read_late.clear()
        self.builder.forget()
        if self.replayer is not None:
            self.replayer.forget()
        self.stand_ins.clear()
        for prototype in self.findings.made.values():
            detach_prototype(prototype)
        self.findings = Findings()
        self.effects = Effects()
        self.output.close()

    def abandons_generator(self) -> int | None:
        """The step of the call (0: of the root frame) that left a generator suspended whose closing has a side effect, or None.
        Python closes it when the last reference goes, so CPython has to run the whole call."""
        return next((step for generator, step in self.generators if not generator.closes_quietly()), None)

    def refuse_results(self, results: list[fx.Node], inputs: list[GraphInput]) -> None:
        """Refuses results that a compiler, which differentiates the graph as a whole, would return differently: a leaf that the
        program makes, which keeps its gradient only outside of the graph, and a view with a rule of its own for gradients."""
        step = self.output.step_of_exposed_leaf(results, inputs)
        if step is not None:
            if not self.options.holds_leaves:
                raise TraceAnew(holds_leaves=True)
            unsupported("autograd-in-trace", break_step=step, name="a leaf that requires a gradient and is returned")
        step = self.raises.step_to_break_at()
        if step is not None:
            unsupported("raise-after-change", break_step=step)
        self.output.wrappers.fix_numbers_of(map(example_of, results))
        self.effects.cached.refuse_tensors(storages_of(map(example_of, results)), self.output.world.fake_mode.writes)
        if not self.output.runs_as_written:
            step = self.output.function_views.step_of_exposed_view([node.meta[EXAMPLE] for node in results], inputs)
            if step is not None:
                why = "a view with a rule of its own for gradients, beside what shares its memory,"
                unsupported("autograd-in-trace", break_step=step, name=why)

    def refuse_late_changes(self) -> None:
        """Refuses hooks that read a cell which has changed since they were set, or may change in the code after a graph break."""
        for cell, value, step in self.read_late:
            if self.break_at is not None or cell.contents is not value:
                unsupported("autograd-in-trace", break_step=step, name="a hook on a tensor that reads what may change")

    # -- guards ------------------------------------------------------------------------------------------------------

    def guard(self, guard: Guard) -> None:
        guards = self.output.guards
        if guard not in guards and (config.guard_nn_modules or not self._is_module_state(guard)):
            object.__setattr__(guard, "where", self.location())
            guards[guard] = None
            self.output.journal.guarded(guard)

    def restate(self, guard: Guard) -> None:
        """Adds a guard that says of another object what one with the same `where` says of the first."""
        guards = self.output.guards
        if guard not in guards:
            guards[guard] = None
            self.output.journal.guarded(guard)
        if type(guard) is TensorMatch and guard.spec.is_exact():
            self.restated_tensors.add(guard.source)

    def met_elsewhere(self, guard: EmptyDicts, attributes: Mapping[str, Any] | None) -> bool:
        """Whether the trace knows one of the dicts of a guard, on an object with this instance dict, by another place, or has met
        it otherwise."""
        found = guard.found(attributes)
        is_met = any(self.builder.place_of(identity) is not None for identity, _ in found)
        return is_met or any(self.seen_empty.get(identity, (place,))[0] != place for identity, place in found)

    def see_empty(self, guard: EmptyDicts, attributes: Mapping[str, Any] | None) -> None:
        """Notes that the dicts of a guard, on an object with this instance dict, are empty."""
        self.seen_empty.update({identity: (place, guard.cls) for identity, place in guard.found(attributes)})

    def skip(self, steps: int, torch_calls: int) -> None:
        """Goes on as if so many instructions had run, and called so many of torch's functions."""
        self.steps += steps
        self.torch_calls += torch_calls

    def _is_module_state(self, guard: Guard) -> bool:
        """Whether a guard is on the state of a module. Guards on tensors do not count: they are checked in any case."""
        return not isinstance(guard, TensorMatch) and any(map(self._below_a_module, guard.sources()))

    def _below_a_module(self, source: Source) -> bool:
        base = source.base
        while base is not None and base not in self.modules:
            base = base.base
        return base is not None

    def memory_guards(self) -> list[Guard]:
        """Guards on aliasing: what the graph writes to shares memory with the same inputs as while tracing, and no others."""
        memory = self.output.memory
        if memory is None:
            return []
        sharing = memory.sharing(list(self.output.inputs.values()))
        if not sharing.groups or len(sharing.inputs()) < 2:
            return []
        inputs = sharing.inputs()
        found: list[Guard] = [MemoryApart(tuple([item.source for item in inputs]), sharing.sizes(), sharing.whole)]
        for group in sharing.groups:
            if len(group) > 1:
                sources = tuple([item.source for item in group])
                found.append(MemoryShared.of(sources, tuple([item.real for item in group])))
        return found

    # -- the Recorder of the graph -----------------------------------------------------------------------------------

    def wrap_result(self, node: fx.Node, example: Any) -> VariableTracker:
        return wrap_result(self.output, node, example)

    def hold_leaf(self, leaf: VariableTracker) -> None:
        assert self.frame is not None and isinstance(leaf, TensorVariable)
        hold_leaf(self.frame, leaf)

    def dispatched(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], met: list[WrapperFake]) -> Any:
        assert self.frame is not None
        return dispatched(self.frame, func, args, kwargs, met)

    def flattened(self, wrapper: WrapperFake) -> Flattened | None:
        variable = self.output.tracked(wrapper)
        if self.frame is None or not isinstance(variable, WrapperVariable) or variable.source is None:
            return None
        return flattened(self.frame, variable)

    def form_of(self, wrapper: WrapperFake) -> Form:
        variable = self.output.tracked(wrapper)
        assert self.frame is not None and isinstance(variable, WrapperVariable)
        return form_of(self.frame, variable)

    def location(self) -> UserLocation | None:
        return None if self.frame is None else self.frame.location()

    def user_location(self) -> UserLocation | None:
        """As `location`, but in a polyfill the line that called it."""
        frame = self.frame
        while frame is not None and frame.is_polyfill and frame.parent is not None:
            frame = frame.parent
        return None if frame is None else frame.location()

    def break_step(self) -> int | None:
        return None if self.frame is None else self.frame.break_step()

    def module_stack(self) -> dict[str, tuple[str, type]]:
        """The modules whose code runs, outermost first, as FX notes them beside a node: name -> (path, class)."""
        return {} if self.frame is None else self.frame.module_stack()

    def user_stack(self) -> tuple[UserLocation, ...]:
        return () if self.frame is None else tuple(frame.location() for frame in self.frame.frames())
