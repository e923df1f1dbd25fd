"""What output code hands to the resume functions after a break, and what a frame returns, as data: where each value comes from.

Sizes are expressions over the symbols of the trace. So it can be said ahead of a call which arguments a resume function gets, as
`tracer.serving` does to certify it; what cannot be said is `Unknown`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy
import torch

from shapes.symbols import Kind
from tracer.errors import TraceAnew
from tracer.graph.fakes.fake_tensors import expr_of, is_leaf, is_symbolic, storage_of, storages_of
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import RealObjectVariable, VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.tuples import NamedTupleVariable, SizeVariable, TupleVariable
from tracer.variables.exceptions.exceptions import HandledBefore
from tracer.variables.functions.callables import BoundMethodVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorMethodVariable, TensorVariable
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen
    from tracer.locations import UserLocation
    from tracer.sources.base import Source


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """Where a fake tensor lies. Two tensors of the program share memory only if their fakes lie in one storage, and are one only
    if their fakes are."""

    storage: int
    of: Source | None  # an input of the graph that lies there


@dataclasses.dataclass(frozen=True, eq=False)
class Read:
    """What existed before the frame ran."""

    source: Source
    memory: Memory | None = None  # of a tensor that the graph reads


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """A constant of the trace, or an object that is known by its identity."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Computed:
    """A tensor that the graph gives."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    memory: Memory


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A number that is computed of sizes, or of data. `cls`: int, float or bool."""

    expr: Any
    cls: type


@dataclasses.dataclass(frozen=True, eq=False)
class Items:
    """A list, tuple or dict that the trace made. `keys`: of a dict."""

    cls: type
    items: tuple[Handed, ...]
    keys: tuple[Any, ...] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """An object of a Python class that the trace made, with its attributes."""

    cls: type
    attributes: Mapping[str, Handed]


@dataclasses.dataclass(frozen=True, eq=False)
class Method:
    """A bound method. `name`: of a method of a tensor, whose function is torch's."""

    owner: Handed
    function: Handed | None = None
    name: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """A closure cell that the frame made."""

    contents: Handed | None


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """What the instruction of the break gives, or, in an outer frame, what the resume function of the inner one returns."""

    index: int


@dataclasses.dataclass(frozen=True, eq=False)
class Unknown:
    """A value of which nothing is known ahead of a call. `what`: which, in words."""

    what: str


Handed = Read | Known | Computed | Number | Items | Made | Method | Cell | Result | Unknown


@dataclasses.dataclass(frozen=True, eq=False)
class Resumption:
    """A call of a resume function. `name`: of the cell that holds its dispatcher. `way`: "next", after the instruction; "jump",
    where it jumps; "handler", where the program handles what it raises. `cells`: its closure; empty if it has none."""

    name: str
    way: str
    args: tuple[Handed, ...]
    cells: tuple[Handed, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Break:
    """A break. `frames`: of each open frame, the outermost first, how it may go on. `operands`: of the instruction. `state`:
    torch's settings, and whether inference mode is on, where CPython goes on. `changed`: what existed before the frame ran and is
    changed before the break. `ranges`: of each number that depends on data."""

    opname: str
    where: UserLocation | None
    operands: tuple[Handed, ...]
    frames: tuple[tuple[Resumption, ...], ...]
    state: tuple[Any, bool]
    changed: tuple[str, ...]
    calls: tuple[Any, ...]  # functions that are called after the graph, such as those of loggers
    ranges: Mapping[Any, tuple[Any, Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class Return:
    """What a frame returns, and the state that it leaves; see `Break`."""

    value: Handed
    state: tuple[Any, bool]
    changed: tuple[str, ...]
    ranges: Mapping[Any, tuple[Any, Any]]


class Describer:
    """Describes tracked values as the output code loads them. A value that is handed over twice is described once."""

    def __init__(self, cg: Codegen) -> None:
        self.cg = cg
        self._known: dict[Any, Handed] = {}
        inputs = cg.trace.output.inputs.values()
        self._inputs = {storage: item.source for item in inputs for storage in storages_of([item.fake])}

    def describe(self, value: VariableTracker | Unwrapped) -> Handed:
        if isinstance(value, HandledBefore):
            return Unknown("the exception that is being handled")
        if isinstance(value, Unwrapped):
            return Read(value.source)
        found = self._known.get(value)
        if found is None:
            self._known[value] = Unknown("a value that holds itself")
            found = self._known[value] = self._describe(value)
        return found

    def _describe(self, value: VariableTracker) -> Handed:
        if isinstance(value, ConstantVariable):
            return Known(value.value)
        if type(value) is TensorVariable and value.fake.layout is torch.strided:
            return self._tensor(value)
        if isinstance(value, RealObjectVariable) and value.source is None:
            return Known(value.value)
        if isinstance(value, TensorMethodVariable):
            return Method(self.describe(value.owner), name=value.name)
        if value.source is not None:
            return Read(value.source)
        return self._made(value)

    def _tensor(self, value: TensorVariable) -> Handed:
        fake = value.fake
        sizes, strides, offset = tuple(map(_expr, fake.shape)), tuple(map(_expr, fake.stride())), _expr(fake.storage_offset())
        memory = Memory(storage_of(fake), self._inputs.get(storage_of(fake)))
        if value.source is not None:
            return Read(value.source, memory)
        if value.held is not None or value.retained is not None or value.is_made_parameter or value.cls is not torch.Tensor:
            return Unknown(f"the leaf {value.node.name}")
        if self.cg.effects.attributes(value):
            return Unknown(f"the tensor {value.node.name}, whose attributes the program sets")
        mode = self.cg.trace.output.world.fake_mode
        if mode.layout_guessed and not mode.asks_layout:  # what is after the break may ask, and then its guards do
            raise TraceAnew(asks_layout=True)
        leaf = bool(is_leaf(fake))
        return Computed(sizes, strides, offset, fake.dtype, fake.device, fake.requires_grad, leaf, memory)

    def _made(self, value: VariableTracker) -> Handed:
        if isinstance(value, SymNodeVariable):
            return Number(_expr(value.example), value.python_type())
        if isinstance(value, CellVariable):
            return Cell(None if value.contents is None else self.describe(value.contents))
        if isinstance(value, BoundMethodVariable):
            return Method(self.describe(value.owner), self.describe(value.function))
        if self.cg.effects.attributes(value) and not isinstance(value, UserObjectVariable):
            return Unknown(value.describe())
        if isinstance(value, SizeVariable):
            return Items(torch.Size, tuple(map(self.describe, value.holdings())))
        if isinstance(value, (ListVariable, TupleVariable)) and not isinstance(value, NamedTupleVariable):
            return Items(value.cls, tuple(map(self.describe, value.holdings())))
        if isinstance(value, DictVariable) and value.cls is dict and all(key.is_constant() for key, _ in value.entries.values()):
            pairs = value.entries.values()
            return Items(dict, tuple(self.describe(item) for _, item in pairs), tuple(key.constant() for key, _ in pairs))
        if isinstance(value, UserObjectVariable) and value.storage is None:
            stored = self.cg.effects.attributes(value)
            if all(isinstance(item, VariableTracker) for item in stored.values()):
                return Made(value.cls, {name: self.describe(item) for name, item in stored.items()})  # type: ignore[arg-type]  # seen
        if isinstance(value, IteratorVariable):
            return Unknown(
                f"how far the `for` is that breaks in each turn ({value.describe()}; make a turn a function, and compile that)"
            )
        return Unknown(value.describe())


def changed_before(cg: Codegen) -> tuple[str, ...]:
    """What existed before the frame ran and is changed by what the output code replays, in words."""
    names = [target.source.name for target in cg.effects.mutated if target.source is not None]
    return (*names, *(f"the global {name}" for _, name, _ in cg.effects.stored_globals()))


def ranges_of_data(cg: Codegen) -> dict[Any, tuple[Any, Any]]:
    """The range of each int that depends on data."""
    env = cg.trace.output.world.env
    return {symbol.sympy: env.bounds(symbol.expr) for symbol in env.symbols() if symbol.kind is Kind.UNBACKED_INT}


def _expr(number: Any) -> Any:
    return expr_of(number) if is_symbolic(number) else sympy.Integer(int(number))
