"""What tracked values and library models may use of the traced frame and of code generation.

Each Protocol has what one kind of caller needs; `Tracer` combines them. `interpreter.translator.InstructionTranslator` implements
it. `Frame` is a `Tracer` whose stack and position are accessible too, as generators need. `ValueCodegen` is what values use to
emit the output code that rebuilds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from tracer.sources.base import SourceCodegen

if TYPE_CHECKING:
    import types

    from torch import fx

    from tracer.bytecode import Assembler, Instruction, Label, Program
    from tracer.effects.log import Effects
    from tracer.graph.output_graph import OutputGraph
    from tracer.guards.base import Guard
    from tracer.interpreter.callers import Callers
    from tracer.interpreter.trace import Trace
    from tracer.locations import UserLocation
    from tracer.protocol.lazy import Unwrapped
    from tracer.protocol.variable import ObservedException, VariableTracker
    from tracer.sources.base import Source
    from tracer.variables.classes.classes import ClassVariable
    from tracer.variables.containers.dicts import DictVariable
    from tracer.variables.containers.lists import NamedTupleVariable, TupleVariable
    from tracer.variables.exceptions.exceptions import ExceptionVariable, LeftAt, TracebackVariable
    from tracer.variables.functions.callables import CallableVariable
    from tracer.variables.functions.python_functions import CellVariable, FunctionVariable
    from tracer.variables.iteration import SequenceIterator
    from tracer.variables.iterators.generators import GeneratorVariable
    from tracer.variables.objects.instance_dict import InstanceDictVariable
    from tracer.variables.objects.objects import UserObjectVariable
    from tracer.variables.tensors.tensor import TensorVariable

Load = Callable[[], None]  # emits code that pushes one value


class SharesTrace(Protocol):
    """What all frames of one attempt to trace share."""

    trace: Trace
    output: OutputGraph
    effects: Effects


class Guards(Protocol):
    def guard(self, guard: Guard) -> None:
        """Adds a guard: the entry is used only where it holds."""

    def guard_absent(self, owner: VariableTracker, name: str) -> None:
        """Guards that the instance dict of an existing object has no entry `name`."""


class Wraps(Protocol):
    def wrap(self, value: Any, source: Source) -> VariableTracker:
        """The tracked form of a value that existed before the frame ran. Adds the guards that it relies on."""

    def literal(self, value: Any) -> VariableTracker:
        """The tracked form of a constant, or of a plain container of them, that the program makes."""

    def new_dict(self, items: dict[str, VariableTracker]) -> DictVariable:
        """A dict that the program makes."""

    def tuple_of(self, items: Iterable[VariableTracker]) -> TupleVariable:
        """A tuple that the program makes."""

    def array_of(self, tensor: TensorVariable) -> VariableTracker:
        """The NumPy array that shares a tensor's memory."""

    def bound_builtin_method(self, owner: VariableTracker, name: str) -> VariableTracker:
        """`owner.name`, a method that is written in C."""

    def instance_dict(self, owner: VariableTracker, value: Any) -> InstanceDictVariable:
        """`owner.__dict__`; `value` is the object itself, if it existed before the frame ran."""

    def getitem_iterator(self, value: VariableTracker) -> VariableTracker:
        """iter(value) of an object with `__getitem__` but no `__iter__`."""


class Raises(Protocol):
    """Exceptions of the traced program."""

    def raise_error(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raises `cls(*args)`; the arguments are constants."""

    def raise_caught(self, error: Exception) -> NoReturn:
        """Raises, in the traced program, what CPython raised while tracing: with its arguments and attributes."""

    def run_now(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`function(*args, **kwargs)`, called while tracing. What it raises, the traced program raises."""

    def new_exception(self, cls: type[BaseException], *args: VariableTracker) -> ExceptionVariable:
        """cls(*args)"""

    def raise_value(self, value: VariableTracker) -> NoReturn:
        """Raises an exception instance, with the exception that is being handled as its context."""

    def link_to_handled(self, value: VariableTracker) -> None:
        """Sets the context of an exception that is about to be raised."""

    def handled_exception(self) -> VariableTracker | None:
        """sys.exception()"""

    def exception_instance(self, value: VariableTracker) -> VariableTracker:
        """The exception that `raise value` raises: an instance itself, or the result of calling a class."""


class Operates(Protocol):
    """Python's operators. They break the graph if no operand supports them."""

    def binary(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """left op right"""

    def inplace(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """The value that `left op= right` stores."""

    def unary(self, op: str, value: VariableTracker) -> VariableTracker:
        """op value"""

    def compare(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """left op right, for a comparison"""

    def binary_truth(self, op: str, left: VariableTracker, right: VariableTracker) -> bool:
        """bool(left op right), for a comparison"""

    def same_or_equal(self, left: VariableTracker, right: VariableTracker) -> bool:
        """`left is right or left == right`, as containers compare their items."""

    def is_same(self, left: VariableTracker, right: VariableTracker) -> bool:
        """left is right"""

    def sorted(self, items: list[VariableTracker], key: VariableTracker, reverse: VariableTracker) -> list[VariableTracker]:
        """The items in the order of CPython's sort, which is run with traced comparisons."""

    def dunder(self, op: str, prefix: str = "") -> str:
        """The name of the special method of an operator: "+" -> "__add__", with the prefix "r" "__radd__"."""


class Calls(Protocol):
    def inline(
        self,
        function: FunctionVariable,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
        direct: bool = False,
    ) -> VariableTracker:
        """Traces through a call of a Python function. `direct`: the call instruction only pushes its result."""

    def call_library(
        self, callee: CallableVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """Calls something that has no Python code to trace."""

    def call_unbound_model(
        self, descriptor: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """Calls the model of an unbound method of a class that is written in C."""

    def call_in_graph(self, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """Records a call as one operation of the graph."""

    def as_graph_arg(self, value: VariableTracker) -> Any:
        """A value as an argument of a graph operation. Containers are passed by value."""

    def call_builtin_method(
        self, owner: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """`owner.name(...)` of a method that is written in C."""

    def call_base_method(
        self,
        base: type,
        name: str,
        owner: VariableTracker,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        """`base.name(owner, ...)` where `base` is a built-in class in the MRO of `owner`'s class."""

    def module_call(self, module: UserObjectVariable) -> VariableTracker | None:
        """The `forward` that calling an nn.Module without hooks comes to; None if the call does more than that."""


class ReadsAttributes(Protocol):
    def read_attribute(self, owner: VariableTracker, name: str) -> VariableTracker:
        """owner.name. An AttributeError from it gets the fields `name` and `obj`, as CPython's PyObject_GetAttr sets them."""

    def instance_attr(self, owner: VariableTracker, value: Any, name: str) -> VariableTracker:
        """A plain attribute that the user set on an existing object of a built-in class (a tensor)."""

    def named_tuple_attr(self, owner: NamedTupleVariable, name: str) -> VariableTracker:
        """An attribute that a named tuple has from its class."""

    def delete_attribute(self, owner: VariableTracker, name: str) -> None:
        """object.__delattr__(owner, name)"""

    def as_mapping(self, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]] | None:
        """The (key, value) pairs of an object with `keys()`; None for other values."""


class KnowsClasses(Protocol):
    def class_variable(self, cls: type, of: VariableTracker | None = None) -> ClassVariable:
        """The tracked class `cls`. If it was not met yet, its source is the type of `of`, an instance of it."""

    def class_attr(self, owner: type | None, name: str, of: VariableTracker | None, part: str | None = None) -> VariableTracker:
        """The raw attribute `name` of class `owner` (or its function, for a property or classmethod)."""

    def class_text(self, of: ClassVariable, name: str) -> VariableTracker:
        """One of the names of a class, or its docstring."""

    def class_getitem(self, cls: ClassVariable, key: VariableTracker) -> VariableTracker:
        """cls[key]"""

    def class_tuple(self, of: ClassVariable, classes: tuple[type, ...]) -> TupleVariable:
        """Bases or the MRO of a class."""

    def iterate_class(self, cls: ClassVariable) -> SequenceIterator:
        """iter(cls), for an enum"""

    def union_of(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """left | right, such as `int | None`"""


class MakesObjects(Protocol):
    def instantiate(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """cls(*args, **kwargs)"""

    def type_call(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """type.__call__: calls __new__, then __init__ if the result is an instance of `cls`."""

    def new_object(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """An instance made by the `__new__` of a built-in base."""

    def new_class(
        self, metaclass: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """type.__new__(metaclass, name, bases, namespace, **kwargs)"""

    def build_class(
        self, body: VariableTracker, name: VariableTracker, given: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """builtins.__build_class__"""


class Overrides(Protocol):
    """`__torch_function__` of arguments and of modes."""

    def overridden(
        self, function: Callable[..., Any], args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker | None:
        """The result of calling a torch function through the overrides of a mode or of the arguments; None if there are none."""

    def overridden_method(
        self, tensor: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker | None:
        """Like `overridden`, for `tensor.name(*args, **kwargs)`, a method of torch's own classes."""

    def ask_overrides(
        self, function: VariableTracker, overriding: list[VariableTracker], arguments: list[VariableTracker]
    ) -> VariableTracker:
        """The first result other than NotImplemented. The mode's override is called before those of the arguments."""

    def as_subclass(self, tensor: VariableTracker, cls: VariableTracker) -> VariableTracker:
        """tensor.as_subclass(cls)"""

    def new_tensor(self, cls: type, args: list[VariableTracker]) -> VariableTracker:
        """cls(*args), by the legacy constructor of tensors."""


class IsLocated(Protocol):
    """The position of the frame, and the frames around it."""

    code: types.CodeType
    globals: dict[str, Any]
    cells: dict[str, CellVariable]
    function: FunctionVariable | None
    depth: int  # how many frames are around it
    is_polyfill: bool  # whether its code is a polyfill of the tracer
    step: int  # the step of the trace at which the current instruction began
    inst: Instruction
    left_at: LeftAt
    gave_locals: bool  # whether the code has called `locals`

    @property
    def parent(self) -> Frame | None:
        """The frame that called this one."""

    def closure(self) -> list[CellVariable]:
        """The cells of the frame, in the order of its code."""

    def frames(self) -> Sequence[Frame]:
        """The frames from the root to this one."""

    def callers(self) -> Callers:
        """The frames further out, by number."""

    def location(self) -> UserLocation:
        """The current line of the traced program."""

    def break_step(self) -> int:
        """The step of the instruction to break at when what this frame is doing cannot be traced."""

    def first_argument(self) -> VariableTracker:
        """The first argument of this frame, which `super()` without arguments uses."""

    def named_values(self) -> dict[str, VariableTracker] | None:
        """What `locals()` gives in this frame; None where it is more than a new dict of the variables: before Python 3.13, a
        frame has one, which each call of `locals` or `eval` brings up to date."""

    def inner_frame(
        self,
        function: FunctionVariable,
        locals_: dict[str, VariableTracker | Unwrapped | None],
        cells: dict[str, CellVariable],
        direct: bool = False,
        namespace: VariableTracker | None = None,
    ) -> Frame:
        """A new frame in which this one calls `function`. `namespace` is that of a class body."""


class Tracer(
    SharesTrace,
    Guards,
    Wraps,
    Raises,
    Operates,
    Calls,
    ReadsAttributes,
    KnowsClasses,
    MakesObjects,
    Overrides,
    IsLocated,
    Protocol,
):
    """The running frame, for callers that only use its services."""


class Frame(Tracer, Protocol):
    """A traced frame, for callers that start, suspend or rebuild it."""

    program: Program
    stack: list[VariableTracker]
    locals: dict[str, Any]  # VariableTracker, Unwrapped, or None for a cell variable without a value
    pc: int
    yielded: bool

    def run(self, thrown: ObservedException | None = None) -> VariableTracker:
        """Runs until the frame returns or yields, and returns the value. `thrown` is raised first, at the current instruction."""

    def resumed_by(self, caller: Tracer, handled: VariableTracker) -> None:
        """Called before `run` of a generator, with the frame that resumes it and the exception that is handled there."""

    def forget(self) -> None:
        """Drops the values of the frame. Generators among them would form reference cycles with it."""

    def double(self) -> Frame:
        """A copy of the frame at the same position, for a trial run."""

    def push(self, value: VariableTracker) -> None: ...

    def jump(self, inst: Instruction) -> None:
        """Continues at the target of a jump."""


class HasNode(Protocol):
    node: fx.Node  # the node of the graph that computes the value


class ValueCodegen(SourceCodegen, Protocol):
    """Emits code that pushes tracked values. Each value implements `reconstruct` to emit the code that makes it.

    The docstrings show what the emitted code does to the stack, as `before -> after`."""

    asm: Assembler
    trace: Trace
    effects: Effects
    fallback: Label | None

    def load(self, value: VariableTracker | Unwrapped) -> None:
        """-> value; the same variable is always the same object"""

    def load_weakly(self, value: VariableTracker, made_at: int | None) -> None:
        """-> value, for a weak reference to it. Something else has to hold the value."""

    def load_graph_output(self, value: HasNode) -> None:
        """-> the output of the graph for the value"""

    def load_class(self, cls: type) -> None:
        """-> cls; a class that the trace made is made again"""

    def is_made(self, cls: type) -> bool:
        """Whether the trace made a class, which the output code makes again"""

    def load_globals(self, globals_: dict[str, Any]) -> None:
        """-> the namespace of a module"""

    def build_sequence(self, opname: str, items: Iterable[VariableTracker | Unwrapped]) -> None:
        """-> the container that the instruction builds from the items"""

    def call_object(self, obj: Any, *args: Load, **kwargs: Load) -> None:
        """-> obj(*args, **kwargs)"""

    def call_top(self, *args: Load) -> None:
        """callable -> callable(*args)"""

    def keep(self, value: VariableTracker | Unwrapped) -> None:
        """Stores a value in a local now, for later loads, so that code in between cannot change it."""

    def store_temporary(self) -> str:
        """value ->. Stores it in a new local, and returns the name of that."""

    def awaits_keys(self, value: VariableTracker) -> bool:
        """Whether a new container hashes an object that contains itself, so that it is filled when all objects are."""

    def reaches_itself(self, value: VariableTracker) -> bool:
        """Whether a value holds itself, so that it must be made before it is filled."""

    def store_attributes(self, value: VariableTracker) -> None:
        """Stores the attributes that the trace stored on a value."""

    def change_attribute(self, value: VariableTracker, name: str, item: VariableTracker | None) -> None:
        """Stores `item` as an attribute; deletes the attribute if it is None."""

    def fill_storage(self, value: UserObjectVariable, base: type) -> None:
        """Fills an instance of a subclass of list, set, deque or dict through the methods of the built-in class."""

    def build_generator(self, generator: GeneratorVariable) -> None:
        """-> the generator, suspended at its position"""

    def build_traceback(self, traceback: TracebackVariable) -> None:
        """-> the traceback"""
