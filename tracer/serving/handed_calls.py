"""Hypothetical calls of a resume function: what an entry hands over at its graph break, for each shape of a domain.

The arguments follow from the calls that the entry serves. They are made of what the trace knows of each value
(`codegen.handover`): objects of the program are read where the output code reads them, tensors of the graph are new and
uninitialised. The sizes are expressions over the variables of the domain of the decorated function.
"""

from __future__ import annotations

import dataclasses
import itertools
import types
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from shapes.domain import Domain, Point, Variable
from shapes.evaluation import evaluate
from shapes.sympy_functions import Max
from tracer.bytecode.slots import argument_slots
from tracer.codegen.handover import Cell, Computed, Handed, Items, Known, Made, Memory, Method, Number, Read, Unknown
from tracer.runtime.shape_spec import Declared, DeclaredInt, DeclaredTensor
from tracer.runtime.thread_state import ThreadState
from tracer.serving.calls import LARGEST, Calls, Layout, TooLarge
from tracer.serving.regions import Served
from tracer.sources.base import FrameValues, Source
from tracer.sources.containers import ItemSource
from tracer.sources.functions import CellContentsSource
from tracer.sources.roots import CellSource, LocalSource


class NotFollowed(Exception):
    """It is not known before a call what follows a graph break, or not all of it has entries. The text says what, and why."""


@dataclasses.dataclass(frozen=True, eq=False)
class Origin:
    """An entry, and the calls in which it hands something over. `places`: symbol of its trace -> expression over the domain's
    variables; for a number that depends on data, a variable of its own."""

    calls: AnyCalls
    served: Served
    places: Mapping[Any, Any]
    inference: bool

    def expr(self, expr: Any) -> Any:
        return expr.xreplace(dict(self.places))


@dataclasses.dataclass(frozen=True, eq=False)
class Bound:
    """A value that output code passes to a resume function, and the entry whose output code it is."""

    handed: Handed
    origin: Origin


class Sentinel:
    """Stands for a value that is not known. Guards on it hold for nothing else."""


class Making:
    """The values of one hypothetical call, at one shape. What would be one object in the program is one object here."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.made: dict[int, Any] = {}  # id of a tensor that was made -> it
        self._slots: dict[int, tuple[Any, ...]] = {}
        self._closures: dict[int, Any] = {}
        self._values: dict[tuple[int, int], Any] = {}

    def slots(self, calls: AnyCalls) -> tuple[Any, ...]:
        """The argument slots of these calls at the shape."""
        if id(calls) not in self._slots:
            if isinstance(calls, HandedCalls):
                self._slots[id(calls)] = tuple([self.value(bound) for bound in calls.values])
            else:
                slots = calls.at(self.point)
                self._slots[id(calls)] = slots
                frame = FrameValues(dict(zip(argument_slots(calls.function.__code__), slots)))
                for layout in calls.layouts.values():
                    tensor = layout.tensor.source.get(frame)
                    self.made[id(tensor)] = tensor
        return self._slots[id(calls)]

    def closure(self, calls: AnyCalls) -> Any:
        if not isinstance(calls, HandedCalls):
            return calls.function.__closure__
        if id(calls) not in self._closures:
            self._closures[id(calls)] = tuple([self.value(cell) for cell in calls.cells]) or None
        return self._closures[id(calls)]

    def frame(self, origin: Origin) -> FrameValues:
        """What the output code of an entry reads from."""
        manager = origin.served.entry.guarded_code.manager
        values: FrameValues = manager.frame_values(self.slots(origin.calls), self.closure(origin.calls))
        return values

    def value(self, bound: Bound) -> Any:
        key = id(bound.handed), id(bound.origin)
        if key not in self._values:
            self._values[key] = self._make(bound.handed, bound.origin)
        return self._values[key]

    def _make(self, handed: Handed, origin: Origin) -> Any:
        def part(of: Handed) -> Any:
            return self.value(Bound(of, origin))

        match handed:
            case Read():
                return handed.source.get(self.frame(origin))
            case Known():
                return handed.value
            case Computed():
                return self._tensor(handed, origin)
            case Number(cls=cls) if cls is int:
                return int(evaluate(origin.expr(handed.expr), self.point))
            case Items(keys=None):
                return handed.cls(map(part, handed.items))
            case Items(keys=keys):
                return dict(zip(keys or (), map(part, handed.items)))
            case Made():
                made: Any = object.__new__(handed.cls)
                made.__dict__.update({name: part(item) for name, item in handed.attributes.items()})
                return made
            case Method(function=function) if function is not None:
                return types.MethodType(part(function), part(handed.owner))
            case Cell():
                return types.CellType() if handed.contents is None else types.CellType(part(handed.contents))
        return Sentinel()

    def _tensor(self, handed: Computed, origin: Origin) -> torch.Tensor:
        sizes, strides = ([int(evaluate(origin.expr(expr), self.point)) for expr in of] for of in (handed.sizes, handed.strides))
        offset = int(evaluate(origin.expr(handed.offset), self.point))
        about = {"dtype": handed.dtype, "device": handed.device}
        seen = handed.memory.of  # in inference mode, views of tensors made outside of it are such tensors, too
        inference = origin.inference if seen is None else seen.get(self.frame(origin)).is_inference()
        try:
            with torch.inference_mode(inference), torch.enable_grad():
                made = torch.empty_strided(sizes, strides, **about)
                if offset:
                    extent = offset + 1 + sum((size - 1) * step for size, step in zip(sizes, strides))
                    made = torch.empty(max(0, extent), **about).as_strided(sizes, strides, offset)
                if handed.requires_grad:
                    made.requires_grad_()
                    made = made if handed.is_leaf else made.view_as(made)
        except RuntimeError as error:
            raise TooLarge(f"there is no tensor of shape {sizes} here: {error}") from None
        self.made[id(made)] = made
        return made


@dataclasses.dataclass(frozen=True, eq=False)
class Lies:
    """Where a tensor lies that was handed over. `by`: the entry that did. `where`: (entry, storage of a fake in its trace)."""

    by: int
    where: frozenset[tuple[int, int]]
    computed: bool
    in_input: bool  # in the memory of something that the graph was given

    @classmethod
    def of(cls, memory: Memory, origin: Origin, computed: bool) -> Lies:
        by = id(origin.served.entry)
        where = frozenset([(by, memory.storage)])
        return cls(by, where, computed, computed and memory.of is not None)


class HandedCalls:
    """The calls of a resume function by entries that were reached. It is used as `Calls` is."""

    copies_objects = False

    def __init__(
        self,
        function: types.FunctionType,
        domain: Domain,
        witness: Point,
        values: Sequence[Bound],
        cells: Sequence[Bound],
        state: ThreadState,
    ) -> None:
        """`witness`: a shape of the domain. `state`: torch's state in which the function is called."""
        self.domain, self.example, self.state = domain, witness, state
        self.values, self.cells = tuple(values), tuple(cells)
        self.layouts: dict[Source, Layout] = {}
        self.ints: dict[Source, Any] = {}
        self.unknown: dict[Source, str] = {}
        self.memory: dict[Source, Lies] = {}
        self.making = Making(witness)
        for name, bound in zip(argument_slots(function.__code__), self.values, strict=True):
            self._note(LocalSource(name), bound)
        for name, bound in zip(function.__code__.co_freevars, self.cells, strict=True):
            self._note(CellSource(name), bound)
        self.slots = self.making.slots(self)
        self.function = self._function_with(function, self.making.closure(self))

    def _function_with(self, function: types.FunctionType, closure: Any) -> types.FunctionType:
        made = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, closure)
        made.__qualname__ = function.__qualname__
        return made

    def _note(self, source: Source, bound: Bound) -> None:
        """Notes what varies, and what is not known, at a place of the function and below it."""
        handed, origin = bound.handed, bound.origin
        match handed:
            case Read():
                self._note_read(source, handed, origin)
            case Computed():
                exprs = [tuple(map(origin.expr, of)) for of in (handed.sizes, handed.strides)]
                value = self.making.value(bound)
                tensor = DeclaredTensor((str(source.name),), value, source, dict(enumerate(exprs[0])), _declared_strides(*exprs))
                self.layouts[source] = Layout(tensor, exprs[0], exprs[1], origin.expr(handed.offset))
                self.memory[source] = Lies.of(handed.memory, origin, computed=True)
            case Number(cls=cls) if cls is int:
                self.ints[source] = origin.expr(handed.expr)
            case Number(cls=cls):
                self.unknown[source] = f"a {cls.__name__} that is computed of sizes or data"
            case Items():
                keys = range(len(handed.items)) if handed.keys is None else handed.keys
                for key, item in zip(keys, handed.items):
                    self._note(ItemSource(source, key), Bound(item, origin))
            case Cell(contents=contents) if contents is not None:
                self._note(CellContentsSource(source), Bound(contents, origin))
            case Made() | Method():
                parts = handed.attributes.values() if isinstance(handed, Made) else (handed.owner, handed.function)
                if not all(isinstance(part, (Known, Read, Made, Method)) for part in parts):
                    self.unknown[source] = f"an object of {getattr(handed, 'cls', types.MethodType).__qualname__}"
            case Unknown():
                self.unknown[source] = handed.what

    def _note_read(self, source: Source, handed: Read, origin: Origin) -> None:
        calls = origin.calls
        for layout in calls.layouts.values():
            place = rebased(layout.tensor.source, handed.source, source)
            if place is not None:
                tensor = dataclasses.replace(layout.tensor, source=place, path=(str(place.name),))
                self.layouts[place] = dataclasses.replace(layout, tensor=tensor)
        for known, expr in calls.ints.items():
            place = rebased(known, handed.source, source)
            if place is not None:
                self.ints[place] = expr
        if isinstance(calls, HandedCalls):
            for known, what in calls.unknown.items():
                place = rebased(known, handed.source, source)
                if place is not None or _leads_to(handed.source, known):
                    self.unknown[source if place is None else place] = what
        before = calls.memory.get(handed.source) if isinstance(calls, HandedCalls) else None
        here = None if handed.memory is None else Lies.of(handed.memory, origin, computed=False)
        if before is not None:
            self.memory[source] = before if here is None else dataclasses.replace(before, where=before.where | here.where)
        elif here is not None:
            self.memory[source] = here

    # -- as Calls ------------------------------------------------------------------------------------------------

    def at(self, point: Point) -> tuple[Any, ...]:
        """The argument slots of the call at a point of the domain."""
        return Making(point).slots(self)

    def positional(self, point: Point | None = None) -> tuple[Any, ...]:
        """The arguments of a check_fn for the call at a point."""
        making = self.making if point is None else Making(point)
        slots = making.slots(self)
        return (*slots, making.closure(self)) if self.function.__code__.co_freevars else slots

    def call_at(self, point: Point) -> tuple[types.FunctionType, tuple[Any, ...]]:
        """The function with its closure, and the argument slots, of the call at a point."""
        making = Making(point)
        return self._function_with(self.function, making.closure(self)), making.slots(self)

    def is_small(self, point: Point) -> bool:
        """Whether the tensors of the call are small enough to make it just for a check."""
        return all(layout.bytes_at(point) <= LARGEST for layout in self.layouts.values()) and all(
            call.is_small(point) for call in {id(bound.origin.calls): bound.origin.calls for bound in self.values}.values()
        )

    def declared(self, slots: tuple[Any, ...], function: types.FunctionType) -> Declared | None:
        """What a trace of these arguments may take as declared of their sizes; None if they have none that varies."""
        frame = FrameValues(
            dict(zip(argument_slots(function.__code__), slots)),
            closure=dict(zip(function.__code__.co_freevars, function.__closure__ or ())),
        )
        names = _Names(self.domain, [expr for layout in self.layouts.values() for expr in layout.sizes], self.ints.values())
        tensors = {}
        for layout in self.layouts.values():
            dims = {dim: names.expr(size) for dim, size in enumerate(layout.sizes) if not size.is_Integer}
            strides = tuple(map(names.expr, layout.tensor.strides))
            if dims or strides:
                value = layout.tensor.source.get(frame)
                tensors[layout.tensor.path] = dataclasses.replace(layout.tensor, value=value, dims=dims, strides=strides)
        ints = {
            (source.name,): DeclaredInt((source.name,), source.get(frame), source, names.expr(expr))
            for source, expr in self.ints.items()
            if not expr.is_Integer
        }
        if not tensors and not ints:
            return None
        exprs = [tensor.exprs() for tensor in tensors.values()] + [each.exprs() for each in ints.values()]
        places = {place: expr for each in exprs for place, expr in each.items()}
        strided = frozenset(tensor.stride(dim).name for tensor in tensors.values() for dim in range(len(tensor.strides)))
        of_ints = frozenset(each.source.name for each in ints.values())
        return Declared(Domain(names.variables(), places, (), of_ints, strided), tensors, ints)

    def may_share(self, one: Source, other: Source) -> bool:
        """Whether the tensors at two places may lie in one memory, though they do not in these calls. `other` may be a place
        where nothing was handed over."""
        mine, its = self.memory.get(one), self.memory.get(other)
        if mine is None or its is None:
            return any(lies.in_input for lies in (mine, its) if lies is not None)
        return bool(mine.where & its.where) or ((mine.in_input or its.in_input) and mine.by != its.by)

    def signature(self) -> tuple[Any, ...]:
        """Equal for calls with the same values, as far as these are known, in the same state."""
        frame = FrameValues(
            dict(zip(argument_slots(self.function.__code__), self.slots)),
            closure=dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or ())),
        )
        numbers: dict[int, int] = {}
        tensors = []
        for source, layout in self.layouts.items():
            value = source.get(frame)
            exprs = tuple(map(str, (*layout.sizes, *layout.strides, layout.offset)))
            about = value.dtype, value.device, value.requires_grad, value.is_leaf, numbers.setdefault(id(value), len(numbers))
            tensors.append((source, exprs, about))
        ints = tuple([(source, str(expr)) for source, expr in self.ints.items()])
        rest = tuple([self._rest(bound) for bound in (*self.values, *self.cells)])
        shared = tuple([self.may_share(one, other) for one, other in itertools.combinations(self.memory, 2)])
        return self.function.__code__, self.state, tuple(tensors), ints, tuple(self.unknown.items()), shared, rest

    def _rest(self, bound: Bound) -> Any:
        """What a signature needs of a value beside tensors, ints and what is not known."""
        value = self.making.value(bound)
        match bound.handed:
            case Known():
                return type(value), repr(value)
            case Items(cls=cls, items=items, keys=keys):
                return cls, keys, tuple([self._rest(Bound(item, bound.origin)) for item in items])
            case Made(cls=cls, attributes=attributes):
                return cls, tuple([(name, self._rest(Bound(item, bound.origin))) for name, item in attributes.items()])
            case Method(owner=owner, function=function) if function is not None:
                return self._rest(Bound(owner, bound.origin)), self._rest(Bound(function, bound.origin))
            case Cell(contents=contents):
                return None if contents is None else (self._rest(Bound(contents, bound.origin)),)
            case Read() if id(value) not in self.making.made and type(value) is not int:
                return id(value)
        return type(value)


AnyCalls = Calls | HandedCalls


class _Names:
    """Names for what stands at the places of a resume function: a variable of the domain where it stands alone somewhere, and
    a new one for each other expression that is not made of these."""

    def __init__(self, domain: Domain, sizes: Sequence[Any], ints: Any) -> None:
        self.domain = domain
        self._alone = {expr for expr in (*sizes, *ints) if expr.is_Symbol}
        self._new: dict[Any, Variable] = {}
        for expr in dict.fromkeys(sizes):
            if not expr.free_symbols <= self._alone:
                self._new.setdefault(expr, Variable(f"size_{len(self._new)}", min=0))
        for expr in dict.fromkeys(ints):
            if not expr.free_symbols <= self._alone and expr not in self._new:
                self._new[expr] = Variable(f"int_{len(self._new)}", min=-(1 << 62), max=1 << 62)

    def expr(self, expr: Any) -> Any:
        if expr in self._new:
            return self._new[expr].symbol
        if expr.free_symbols <= self._alone:
            return expr
        made: Any = self._new.setdefault(expr, Variable(f"stride_{len(self._new)}", min=0)).symbol
        return made

    def variables(self) -> tuple[Variable, ...]:
        return (*(each for each in self.domain.variables if each.symbol in self._alone), *self._new.values())


def rebased(source: Source, prefix: Source, onto: Source) -> Source | None:
    """The path of a source with its beginning, `prefix`, replaced by another source. None if it does not begin with `prefix`."""
    if source == prefix:
        return onto
    if source.base is None:
        return None
    base = rebased(source.base, prefix, onto)
    if base is None:
        return None
    return type(source)(*[base if field is source.base else field for field in source._fields()])


def _leads_to(source: Source | None, start: Source) -> bool:
    while source is not None and source != start:
        source = source.base
    return source is not None


def _declared_strides(sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> tuple[Any, ...]:
    """Strides that have to be declared: none if the tensor is contiguous."""
    lines: list[list[Any]] = [[], []]
    for found, floor in zip(lines, (0, 1)):  # with and without sizes of 0 among them
        step: Any = sympy.Integer(1)
        for size in reversed(sizes):
            found.insert(0, step)
            step = step * (Max(size, floor) if floor else size)
    return () if list(strides) in lines else strides


__all__ = ["AnyCalls", "Bound", "HandedCalls", "Making", "NotFollowed", "Origin", "rebased"]
