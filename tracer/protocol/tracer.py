"""What variables and library models see of the frame that is traced, and of the code that is emitted.

Each Protocol is what one kind of caller needs; `Tracer` is all of them. `interpreter.translator.InstructionTranslator` implements
it by functions of its room. `Frame` is a `Tracer` whose stack and position somebody works on, as generators do. `ValueCodegen`
is what values ask for to be built again by the output code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from tracer.sources import SourceCodegen

if TYPE_CHECKING:
    import types

    from torch import fx

    from tracer.bytecode import Assembler, Instruction, Label, Program
    from tracer.effects.log import Effects
    from tracer.graph.output_graph import OutputGraph
    from tracer.guards import Guard
    from tracer.interpreter.callers import Callers
    from tracer.interpreter.trace import Trace
    from tracer.locations import UserLocation
    from tracer.protocol.lazy import Unwrapped
    from tracer.protocol.variable import ObservedException, VariableTracker
    from tracer.sources import Source
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
    """What all frames of one attempt share."""

    trace: Trace
    output: OutputGraph
    effects: Effects


class Guards(Protocol):
    def guard(self, guard: Guard) -> None:
        """The entry holds only where `guard` does."""

    def guard_absent(self, owner: VariableTracker, name: str) -> None:
        """The instance dict of an existing object has no entry `name`."""


class Wraps(Protocol):
    def wrap(self, value: Any, source: Source) -> VariableTracker:
        """The tracked form of a value that existed before the frame ran, with the guards that it relies on."""

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
        """iter(value) of what has `__getitem__` and no `__iter__`."""


class Raises(Protocol):
    """Exceptions of the traced program."""

    def raise_error(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raises `cls(*args)`; the arguments are constants."""

    def new_exception(self, cls: type[BaseException], *args: VariableTracker) -> ExceptionVariable:
        """cls(*args)"""

    def raise_value(self, value: VariableTracker) -> NoReturn:
        """Raises an instance, with the exception that is handled for its context."""

    def link_to_handled(self, value: VariableTracker) -> None:
        """The context of an exception that is about to be raised."""

    def handled_exception(self) -> VariableTracker | None:
        """sys.exception()"""

    def exception_instance(self, value: VariableTracker) -> VariableTracker:
        """What `raise value` raises: a class is called, an instance stands for itself."""


class Operates(Protocol):
    """Operators of Python, which break the graph where no operand knows them."""

    def binary(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """left op right"""

    def inplace(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """The value that `left op= right` stores."""

    def unary(self, op: str, value: VariableTracker) -> VariableTracker:
        """op value"""

    def compare(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """left op right, of a comparison"""

    def binary_truth(self, op: str, left: VariableTracker, right: VariableTracker) -> bool:
        """bool(left op right), of a comparison"""

    def same_or_equal(self, left: VariableTracker, right: VariableTracker) -> bool:
        """`left is right or left == right`, as containers compare their items."""

    def is_same(self, left: VariableTracker, right: VariableTracker) -> bool:
        """left is right"""

    def sorted(self, items: list[VariableTracker], key: VariableTracker, reverse: VariableTracker) -> list[VariableTracker]:
        """The items in the order that CPython's own sort finds, by the comparisons that it makes."""

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
        """A call of something without Python code of its own."""

    def call_unbound_model(
        self, descriptor: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """The model of a method of a class that is written in C."""

    def call_in_graph(self, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """A call as one operation of the graph."""

    def as_graph_arg(self, value: VariableTracker) -> Any:
        """An argument of a graph operation; containers are passed by value."""

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
        """What a call of an nn.Module without hooks calls, its `forward`; None where more is to be done."""


class ReadsAttributes(Protocol):
    def read_attribute(self, owner: VariableTracker, name: str) -> VariableTracker:
        """owner.name; an AttributeError that comes out of it says so, as CPython's PyObject_GetAttr makes it."""

    def instance_attr(self, owner: VariableTracker, value: Any, name: str) -> VariableTracker:
        """A plain attribute that the user hung on an existing object of a built-in class (a tensor)."""

    def named_tuple_attr(self, owner: NamedTupleVariable, name: str) -> VariableTracker:
        """An attribute of a named tuple that its class has."""

    def delete_attribute(self, owner: VariableTracker, name: str) -> None:
        """object.__delattr__(owner, name)"""

    def as_mapping(self, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]] | None:
        """The pairs of something with `keys()`, None for other values."""


class KnowsClasses(Protocol):
    def class_variable(self, cls: type, of: VariableTracker | None = None) -> ClassVariable:
        """The class `cls`; when it was not met yet, reached through `of`, an instance of it."""

    def class_attr(self, owner: type | None, name: str, of: VariableTracker | None, part: str | None = None) -> VariableTracker:
        """The raw attribute `name` of class `owner` (or its function, for a property or classmethod)."""

    def class_text(self, of: ClassVariable, name: str) -> VariableTracker:
        """One of the names of a class, or its docstring."""

    def class_getitem(self, cls: ClassVariable, key: VariableTracker) -> VariableTracker:
        """cls[key]"""

    def class_tuple(self, of: ClassVariable, classes: tuple[type, ...]) -> TupleVariable:
        """Bases or the MRO of a class."""

    def iterate_class(self, cls: ClassVariable) -> SequenceIterator:
        """iter(cls), of an enum"""

    def union_of(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """`int | None`"""


class MakesObjects(Protocol):
    def instantiate(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """cls(*args, **kwargs)"""

    def type_call(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """type.__call__: __new__, then __init__ if that gave an instance."""

    def new_object(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """An instance as the `__new__` of a built-in base makes it."""

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
        """What the overrides of the arguments, or of a mode, make of a call of torch; None where they have no say."""

    def overridden_method(
        self, tensor: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker | None:
        """As `overridden`, of `tensor.name(*args, **kwargs)`, a method of torch's own classes."""

    def ask_overrides(
        self, function: VariableTracker, overriding: list[VariableTracker], arguments: list[VariableTracker]
    ) -> VariableTracker:
        """The first answer that is not NotImplemented; the mode is asked before the arguments."""

    def as_subclass(self, tensor: VariableTracker, cls: VariableTracker) -> VariableTracker:
        """tensor.as_subclass(cls)"""

    def new_tensor(self, cls: type, args: list[VariableTracker]) -> VariableTracker:
        """cls(*args), as the old constructor of tensors makes it."""


class IsLocated(Protocol):
    """Where the frame stands, and in which frames."""

    code: types.CodeType
    globals: dict[str, Any]
    cells: dict[str, CellVariable]
    function: FunctionVariable | None
    depth: int  # how many frames are around it
    is_polyfill: bool  # whether its code is the tracer's own
    step: int  # of the trace, when it began its present instruction
    inst: Instruction
    left_at: LeftAt

    @property
    def parent(self) -> Frame | None:
        """The frame that called this one."""

    def frames(self) -> Sequence[Frame]:
        """From the root frame to this one."""

    def callers(self) -> Callers:
        """The frames further out, by number."""

    def location(self) -> UserLocation:
        """The line of the traced program."""

    def break_step(self) -> int:
        """The step of the instruction to break at when what this frame is doing cannot be traced."""

    def first_argument(self) -> VariableTracker:
        """The first argument of this frame, as `super()` without arguments takes it."""

    def inner_frame(
        self,
        function: FunctionVariable,
        locals_: dict[str, VariableTracker | Unwrapped | None],
        cells: dict[str, CellVariable],
        direct: bool = False,
        namespace: VariableTracker | None = None,
    ) -> Frame:
        """A frame of `function` that this one calls, at its first instruction. `namespace`: of the body of a class."""


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
    """The running frame, for those who only ask it to do something."""


class Frame(Tracer, Protocol):
    """A traced frame, for those who start it, suspend it or build it again."""

    program: Program
    stack: list[VariableTracker]
    locals: dict[str, Any]  # VariableTracker, Unwrapped, or None for a cell variable without a value
    pc: int
    yielded: bool

    def run(self, thrown: ObservedException | None = None) -> VariableTracker:
        """Runs until the frame returns (or, for a generator, yields) and gives the value. `thrown` is raised where it stands."""

    def resumed_by(self, caller: Tracer, handled: VariableTracker) -> None:
        """Before `run`, of a generator: who asks for its next item, and the exception that is handled there."""

    def forget(self) -> None:
        """Lets go of its values: generators among them lead back to the frame that made them."""

    def double(self) -> Frame:
        """A frame that stands where this one does, to be run on trial."""

    def push(self, value: VariableTracker) -> None: ...

    def jump(self, inst: Instruction) -> None:
        """Goes on where the instruction jumps to."""


class HasNode(Protocol):
    node: fx.Node  # of the graph, which computes the value


class ValueCodegen(SourceCodegen, Protocol):
    """Emits code that pushes tracked values; each value says in `reconstruct` how it is made."""

    asm: Assembler
    trace: Trace
    effects: Effects
    fallback: Label | None

    def load(self, value: VariableTracker | Unwrapped) -> None:
        """-> value; the same variable is always the same object"""

    def load_weakly(self, value: VariableTracker, made_at: int | None) -> None:
        """-> value, for a weak reference: something else has to hold it."""

    def load_graph_output(self, value: HasNode) -> None:
        """-> what the graph returns for the value"""

    def load_class(self, cls: type) -> None:
        """-> cls; a class that the trace made is made again"""

    def load_globals(self, globals_: dict[str, Any]) -> None:
        """-> the namespace of a module"""

    def build_sequence(self, opname: str, items: Iterable[VariableTracker | Unwrapped]) -> None:
        """-> what the instruction makes of the items"""

    def call_object(self, obj: Any, *args: Load, **kwargs: Load) -> None:
        """-> obj(*args, **kwargs)"""

    def call_top(self, *args: Load) -> None:
        """callable -> callable(*args)"""

    def keep(self, value: VariableTracker | Unwrapped) -> None:
        """value -> value, which is in a local from now on"""

    def store_temporary(self) -> str:
        """value ->; the name of the local that holds it"""

    def reaches_itself(self, value: VariableTracker) -> bool:
        """Whether a value holds itself, so that it must be made before it is filled."""

    def store_attributes(self, value: VariableTracker) -> None:
        """Stores what the trace stored."""

    def change_attribute(self, value: VariableTracker, name: str, item: VariableTracker | None) -> None:
        """Stores `item`, deletes where it is None."""

    def fill_storage(self, value: UserObjectVariable, base: type) -> None:
        """Fills an instance of a subclass of list, set, deque or dict through the methods of the built-in class."""

    def build_generator(self, generator: GeneratorVariable) -> None:
        """-> the generator, where it stands"""

    def build_traceback(self, traceback: TracebackVariable) -> None:
        """-> the traceback"""
