"""Runs bytecode symbolically, one frame per `InstructionTranslator`."""

from __future__ import annotations

import copy
import functools
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch

from tracer import logs
from tracer.bytecode import Instruction, Program, original_position, outermost_loops, program
from tracer.errors import forget_frames
from tracer.graph_breaks import unsupported
from tracer.interpreter import (
    base_methods,
    calls,
    class_making,
    constructors,
    instantiation,
    module_calls,
    object_model,
    opcodes,
    operators,
    overriding,
    raising,
)
from tracer.interpreter.callers import Callers
from tracer.interpreter.handlers import Handler
from tracer.interpreter.loops import LoopStart, begin_loop, count_operations
from tracer.interpreter.trace import BreakHere, Trace
from tracer.locations import UserLocation
from tracer.protocol.inlining import is_polyfill_module
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.classes import type_forms
from tracer.variables.exceptions.exceptions import ExceptionVariable, LeftAt
from tracer.variables.functions.python_functions import CellVariable, FunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import ConstantVariable

MAX_INLINE_DEPTH = 120


@functools.cache
def _handlers() -> list[Handler]:
    return opcodes.load()


class InstructionTranslator:
    """One frame: stack, locals, cells and the position in its bytecode.

    `direct` says that the parent's current instruction does nothing but push this frame's result, so that a graph break
    in here can resume in here.

    It implements `tracer.protocol.tracer.Tracer` for its frame; functions of other modules are bound here as its methods."""

    wrap = constructors.wrap
    literal = constructors.literal
    new_dict = constructors.new_dict
    tuple_of = constructors.tuple_of
    guard = constructors.guard
    guard_absent = object_model.guard_absent
    raise_error = raising.raise_error
    raise_caught = raising.raise_caught
    run_now = raising.run_now
    new_exception = raising.new_exception
    raise_value = raising.raise_value
    link_to_handled = raising.link_to_handled
    handled_exception = raising.handled_exception
    exception_instance = raising.exception_instance
    binary = operators.binary
    inplace = operators.inplace
    unary = operators.unary
    compare = operators.compare
    binary_truth = operators.binary_truth
    same_or_equal = operators.same_or_equal
    is_same = operators.is_same
    sorted = operators.sort_values
    dunder = operators.dunder
    inline = calls.inline
    call_library = calls.call_library
    call_unbound_model = calls.call_unbound_model
    call_in_graph = calls.call_in_graph
    as_graph_arg = calls.as_graph_arg
    call_builtin_method = base_methods.call_builtin_method
    call_base_method = base_methods.call_base_method
    module_call = module_calls.module_call
    read_attribute = raising.read_attribute
    instance_attr = object_model.instance_attr
    delete_attribute = object_model.delete_attribute
    instance_dict = constructors.instance_dict
    bound_builtin_method = constructors.bound_builtin_method
    class_variable = object_model.class_variable
    class_attr = object_model.class_attr
    class_text = object_model.class_text
    class_getitem = object_model.class_getitem
    class_tuple = constructors.class_tuple
    iterate_class = constructors.iterate_class
    union_of = type_forms.union_of
    named_tuple_attr = object_model.named_tuple_attr
    instantiate = instantiation.instantiate
    type_call = instantiation.type_call
    new_object = instantiation.new_object
    new_class = class_making.new_class
    build_class = class_making.build_class
    as_mapping = constructors.as_mapping
    getitem_iterator = constructors.getitem_iterator
    array_of = constructors.array_of
    overridden = overriding.overridden
    overridden_method = overriding.overridden_method
    ask_overrides = overriding.ask_overrides
    as_subclass = overriding.tensor_as_subclass
    new_tensor = overriding.new_tensor

    def __init__(
        self,
        trace: Trace,
        code: types.CodeType,
        globals_: dict[str, Any],
        locals_: dict[str, Any],
        cells: dict[str, CellVariable],
        function: FunctionVariable | None = None,
        parent: InstructionTranslator | None = None,
        direct: bool = False,
        namespace: VariableTracker | None = None,
    ) -> None:
        self.trace = trace
        self.output = trace.output
        self.effects = trace.effects
        self.code = code
        self.program: Program = program(code)
        self.globals = globals_
        self.locals = locals_
        self.cells = cells
        self.function = function
        self.parent = parent
        self.direct = direct
        self.stack: list[VariableTracker] = []
        self.pc = 0
        self.step = 0
        self.inst: Instruction = self.program.instructions[0]
        self._located: tuple[Instruction | None, UserLocation | None] = None, None  # the last answer of `location`
        self.left_at = LeftAt()
        self.nodes_before = len(trace.output.graph.nodes)
        self.loops: dict[int, LoopStart] = {}  # the loops that were begun, as `outermost_loops` names them
        self.operations_of_callees = 0  # what functions called by this frame have added to the graph
        self.keyword_names: tuple[str, ...] = ()
        self.result: VariableTracker | None = None
        self.yielded = False
        self.gave_locals = False
        self.handled_outside: VariableTracker | None = None  # the exception handled where this generator's frame was resumed
        self.namespace = namespace  # of a class body
        self._module_stack: dict[str, tuple[str, type]] | None = None
        self.is_polyfill: bool = is_polyfill_module(globals_.get("__name__"))
        self.depth: int = 0 if parent is None else parent.depth + 1
        if self.depth > MAX_INLINE_DEPTH:
            unsupported("inline-depth", function=code.co_qualname)

    def module_stack(self) -> dict[str, tuple[str, type]]:
        """The modules whose code runs here and in the callers, recognised by the first argument of each frame."""
        if self._module_stack is None:
            outer = {} if self.parent is None else self.parent.module_stack()
            first = self.locals.get(self.code.co_varnames[0]) if self.code.co_argcount else None
            if isinstance(first, UserObjectVariable) and issubclass(first.cls, torch.nn.Module) and first.source is not None:
                name = first.source.name
                outer = {**outer, name: (re.sub(r"\._modules\['([^']*)'\]", r".\1", name), first.cls)}
            self._module_stack = outer
        return self._module_stack

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(self, thrown: ObservedException | None = None) -> VariableTracker:
        """Runs until the frame returns (or, for a generator, yields) and gives the value. `thrown` is raised at the
        frame's current instruction."""
        trace = self.trace
        outer = trace.enter(self)
        handlers = _handlers()
        instructions = self.program.instructions
        break_at, next_step = trace.break_at, trace.next_step
        log_steps = logs.is_on("trace")
        lines = None if self.is_polyfill else trace.lines
        loops = outermost_loops(self.program)
        operations = self.output.operations
        if thrown is not None:
            self.unwind(thrown)
        while True:
            inst = self.inst = instructions[self.pc]
            self.pc += 1
            self.step = step = next_step()
            if step == break_at:
                raise BreakHere(self)
            if log_steps:
                logs.emit("trace", trace_line(inst.opname, inst.argval, self.stack, self.depth))
            if loops and inst.index in loops:
                begin_loop(self, inst.index)
            if lines is not None and inst.opname != "RESUME":
                lines[self.code, inst.positions.lineno] = None
            try:
                if handlers[inst.opcode](self, inst):
                    break
            except ObservedException as raised:
                forget_frames(raised)
                trace.enter(self)
                self.unwind(raised)
        self.left_at.index = self.inst.index
        count_operations(self, self.output.operations - operations)
        trace.enter(outer)
        assert self.result is not None
        return self.result

    def unwind(self, raised: ObservedException) -> None:
        """Continues at the handler of the current instruction, or lets the exception out of this frame."""
        if not (raised.again or self.is_polyfill):
            assert isinstance(raised.value, ExceptionVariable)
            raised.value.passes(self)
        raised.again = False
        standing = self.left_at.index = self._standing()
        handler = self.inst.handler
        if handler is None:
            self.trace.enter(self.parent)
            try:
                raise raised
            finally:
                del raised  # its traceback shows this frame: the cycle would keep the user's frames
        del self.stack[handler.depth :]
        if handler.lasti:
            self.stack.append(ConstantVariable(self.program.instructions[standing].offset // 2))
        self.stack.append(raised.value)
        self.pc = handler.target

    def _standing(self) -> int:
        """Index of the instruction that has raised. RERAISE may set it back to an earlier one, which raised first."""
        if self.inst.opname == "RERAISE" and self.inst.arg:
            return self.program.index_at(2 * self.stack[-self.inst.arg].constant())
        return self.inst.index

    def finish(self, value: VariableTracker) -> bool:
        self.result = value
        return True

    # -- stack ---------------------------------------------------------------------------------------------------

    def push(self, value: VariableTracker) -> None:
        self.stack.append(value)

    def pop(self) -> VariableTracker:
        return self.stack.pop()

    def pop_many(self, count: int) -> list[VariableTracker]:
        if count == 0:
            return []
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def jump(self, inst: Instruction) -> None:
        assert inst.target is not None
        self.pc = inst.target

    # -- names ---------------------------------------------------------------------------------------------------

    def load_local(self, name: str) -> VariableTracker:
        found = self.locals.get(name)
        if type(found) is Unwrapped:
            found = self.locals[name] = self.wrap(found.value, found.source)
        value: VariableTracker | None = found
        if value is None:
            self.raise_error(UnboundLocalError, f"cannot access local variable {name!r} where it is not associated with a value")
        return value

    def first_argument(self) -> VariableTracker:
        """The first argument of this frame, as `super()` without arguments takes it."""
        if not self.code.co_argcount:
            self.raise_error(RuntimeError, "super(): no arguments")
        name = self.code.co_varnames[0]
        cell = self.cells.get(name)
        if cell is None and self.locals.get(name) is None:
            self.raise_error(RuntimeError, "super(): arg[0] deleted")
        value = self.load_local(name) if cell is None else cell.read(self)
        assert value is not None
        return value

    def named_values(self) -> dict[str, VariableTracker] | None:
        """The variables of this frame that have a value, in the order of `locals()`."""
        code, _ = original_position(self.code, self.inst.index)
        hides = any(inst.opname == "LOAD_FAST_AND_CLEAR" for inst in self.program.instructions)
        if self.namespace is not None or hides or (self.gave_locals and sys.version_info < (3, 13)):
            return None
        values: dict[str, VariableTracker] = {}
        for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
            cell = self.cells.get(name)
            value = cell.read(self) if cell is not None else self.load_local(name) if self.locals.get(name) is not None else None
            if value is not None:
                values[name] = value
        return values

    # -- position and frames -------------------------------------------------------------------------------------

    def location(self) -> UserLocation:
        """The current place. Equal places are one object: most guards and nodes come from few lines, and several from one
        instruction."""
        inst, location = self._located
        if location is None or inst is not self.inst:
            line = self.inst.positions.lineno or self.code.co_firstlineno
            location = UserLocation(self.code.co_filename, line, self.code.co_name)
            location = self.trace.locations.setdefault(location, location)
            self._located = self.inst, location
        return location

    def callers(self) -> Callers:
        self.output.journal.refuse("it looks at its callers")
        return Callers(self)

    def frames(self) -> list[InstructionTranslator]:
        """The frames from the root frame to this one."""
        frames: list[InstructionTranslator] = []
        frame: InstructionTranslator | None = self
        while frame is not None:
            frames.append(frame)
            frame = frame.parent
        return frames[::-1]

    def inner_frame(
        self,
        function: FunctionVariable,
        locals_: dict[str, Any],
        cells: dict[str, CellVariable],
        direct: bool = False,
        namespace: VariableTracker | None = None,
    ) -> InstructionTranslator:
        """A frame of `function` that this one calls."""
        return InstructionTranslator(
            self.trace, function.code, function.globals, locals_, cells, function, self, direct, namespace
        )

    def resumed_by(self, caller: Tracer, handled: VariableTracker) -> None:
        """For the frame of a generator: notes the frame that asks for its next item, and the exception that is handled there."""
        assert isinstance(caller, InstructionTranslator)
        self.parent, self.depth = caller, caller.depth + 1
        self.handled_outside = handled

    def double(self) -> InstructionTranslator:
        """A copy of this frame at its current position, to be run on trial."""
        double = copy.copy(self)
        double.stack, double.locals, double.cells = list(self.stack), dict(self.locals), dict(self.cells)
        return double

    def closure(self) -> list[CellVariable]:
        """The cells of the frame, in the order of its code. Where an inlined comprehension keeps a value in the place of one, an
        empty cell stands for it."""
        return [self.cells.get(name) or CellVariable() for name in (*self.code.co_cellvars, *self.code.co_freevars)]

    def forget(self) -> None:
        """Drops the frame's values, because generators among them refer back to the frame that made them."""
        self.stack, self.locals, self.cells, self.parent = [], {}, {}, None

    def break_step(self) -> int:
        """The step of the instruction to break at when what this frame is doing cannot be traced: its own, or that of
        the outermost frame whose instruction does more than push the result of the call."""
        return self.resumable()[-1].step

    def resumable(self) -> list[InstructionTranslator]:
        """The frames, from the root on, that can resume after the instruction that they are executing."""
        frames = self.frames()
        inner = next((depth for depth, frame in enumerate(frames) if depth and not frame.direct), len(frames))
        return frames[:inner]


def trace_line(opname: str, argval: Any, stack: Iterable[Any], depth: int = 0) -> str:
    """`TRACE LOAD_GLOBAL y [ConstantVariable(1), TensorVariable()]`; indented by the depth of inlining."""
    argument = "" if argval is None else f" {argval}"
    return f"{'  ' * depth}TRACE {opname}{argument} [{', '.join(map(str, stack))}]"
