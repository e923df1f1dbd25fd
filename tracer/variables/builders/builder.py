"""From a value that existed before the frame ran to its tracked form and the guards that form relies on.

A new kind of value is one function registered with `tracks` (exactly these types) or `tracks_subclasses` (the most
derived registered base in the value's MRO wins). This module has constants, numbers and tensors; the other files of this folder
have the other kinds, and are found without being named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from shapes.policy import DimPolicy
from tracer import errors, user_marks
from tracer.graph.fakes.fake_tensors import expr_of, is_leaf, is_symbolic
from tracer.graph.fakes.nested_fakes import share_ragged_size
from tracer.graph.fakes.program_fakes import has_own_symbols, is_program_fake
from tracer.graph.operations.streams import RuntimeObject
from tracer.guards.base import Guard
from tracer.guards.class_shape import ClassShape, ClassTemplate
from tracer.guards.constants import LIBRARY_VALUES, NATIVE_ENUMS, is_guardable_constant
from tracer.guards.identity import Distinct, IdMatch, SameObject, TypeMatch
from tracer.guards.shapes import PredicateMatch
from tracer.guards.tensors import TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch, OrdinaryFloat
from tracer.operators.sparse_rules import is_sparse, sparse_fake
from tracer.protocol.inlining import is_own_guard
from tracer.protocol.lookups import rely_on_bases, storage_base
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource, SlicePartSource, TypeSource
from tracer.sources.base import Source
from tracer.sources.reading import instance_dict, is_a, type_dict
from tracer.sources.roots import ObjectSource
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource
from tracer.variables.builders.registry import builder_of, find_later, tracks, tracks_subclasses
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.enums import constant_of
from tracer.variables.containers.lists import RangeVariable, SliceVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import UserFunctionVariable, is_nested_function
from tracer.variables.objects import patterns
from tracer.variables.objects.python_modules import PythonModuleVariable
from tracer.variables.objects.untraceable import OpaqueVariable
from tracer.variables.tensors.overrides import TensorSubclassVariable, is_traceable_subclass
from tracer.variables.tensors.program_fakes import ProgramFakeVariable
from tracer.variables.tensors.quantised_tensors import INTEGERS, QuantisedVariable
from tracer.variables.tensors.sparse_tensors import SparseVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import WrapperVariable, is_wrapper
from tracer.variables.values.constant import BY_IDENTITY, CONSTANT_TYPES, ConstantVariable
from tracer.variables.values.dates import LibraryValueVariable
from tracer.variables.values.decimals import VALUE_CLASSES
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.graph.journal import Met
    from tracer.interpreter.trace import Trace
    from tracer.protocol.tracer import Tracer

_V = TypeVar("_V", bound=VariableTracker)


def _identity(value: Any, source: Source | None) -> int:
    """A key for "the same value". A tensor that is a constant of the trace, such as a memoised result, has another key than
    the same tensor as an input: that it is passed in this call as well is a coincidence."""
    if is_a(value, torch.Tensor) and source is not None and isinstance(source.root(), ObjectSource):
        return -id(value)
    return id(value)


_Wrap = Callable[[Any, Source], VariableTracker]


@dataclasses.dataclass(slots=True)
class _Expected:
    """An object that something may ask for: the event that says so, where it is, and how it is wrapped."""

    event: Met
    source: Source
    wrap: _Wrap
    is_asked_for: bool = False


class VariableBuilder:
    """Wraps values for one trace; the same object reached twice is the same variable. `tx.wrap(value, source)` calls it."""

    def __init__(self, trace: Trace) -> None:
        find_later()
        self.trace = trace
        self.arguments: tuple[Any, ...] = ()  # values of the argument slots of the traced frame
        self._by_identity: dict[
            int, tuple[Any, VariableTracker | _Expected]
        ] = {}  # keys are of `_identity`; a value keeps its id
        self._remembered: set[VariableTracker] = set()
        self._building = 0  # how many builders are running, one in the other
        self._collected: list[tuple[Any, VariableTracker]] | None = None  # what is wrapped within `collecting`

    def __call__(self, tx: Tracer, value: Any, source: Source) -> VariableTracker:
        variable = self._variable(tx, value, source)
        self.collect(value, variable)
        return variable

    def _variable(self, tx: Tracer, value: Any, source: Source) -> VariableTracker:
        known = self.known_at(value, source)
        if known is not None:
            return known
        self._is_recreated(type(value))  # notes it: a lookup on such a class relies on its bases only
        build = builder_of(type(value))
        self._building += 1
        try:
            return build(self, tx, value, source)
        finally:
            self._building -= 1

    @contextlib.contextmanager
    def collecting(self) -> Iterator[list[tuple[Any, VariableTracker]]]:
        """Within, collects the values that are wrapped, also those that have been before, with their tracked form. This tells
        what the result of a function under `functools.lru_cache` depends on (`library.caches`)."""
        outer, self._collected = self._collected, []
        try:
            yield self._collected
        finally:
            if outer is not None:
                outer += self._collected
            self._collected = outer

    def collect(self, value: Any, variable: VariableTracker) -> None:
        """Adds to what `collecting` gives; does nothing outside of it."""
        if self._collected is not None:
            self._collected.append((value, variable))

    def remember(self, value: Any, variable: _V) -> _V:
        """Makes `variable` what this object is wrapped as from now on."""
        key = _identity(value, variable.source)
        before = self._by_identity.get(key)
        self._by_identity[key] = (value, variable)
        self._remembered.add(variable)
        if before is not None and isinstance(before[1], _Expected):
            self.trace.output.journal.met_as_expected(before[1].event, variable)
        else:
            self.trace.output.journal.met(value, variable, by_builder=self._building > 0)
        attributes = instance_dict(value)
        if attributes is not None:
            self.trace.effects.note_dict(attributes, variable)
        if issubclass(type(value), dict) and value is not attributes:
            self.trace.effects.note_dict(value, variable)
        return variable

    def expect(self, value: Any, source: Source, kind: type[VariableTracker], wrap: _Wrap) -> None:
        """Says that an object, which has not been met, is at `source`, and that all guards on it are there. It is met from
        now on, and `wrap` makes its variable, of class `kind`, when something asks for it."""
        if issubclass(type(value), torch.nn.Module):
            self.trace.modules.add(source)
        event = self.trace.output.journal.expected(value, source, kind)
        self._by_identity[id(value)] = value, _Expected(event, source, wrap)

    def _found(self, key: int) -> VariableTracker | None:
        found = self._by_identity.get(key)
        if found is None:
            return None
        value, variable = found
        if not isinstance(variable, _Expected):
            return variable
        if variable.is_asked_for:  # it is being wrapped
            return None
        variable.is_asked_for = True
        return variable.wrap(value, variable.source)

    def is_met(self, value: Any) -> bool:
        """Whether an object that is no tensor was met before, wrapped or not."""
        return id(value) in self._by_identity

    def place_of(self, identity: int) -> Source | None:
        """Where the object with this id, which is no tensor, was met; None if it was not."""
        found = self._by_identity.get(identity)
        return None if found is None else found[1].source

    def is_by_identity(self, variable: VariableTracker) -> bool:
        """Whether no other variable represents the same object: it was remembered."""
        return variable in self._remembered

    def forget(self) -> None:
        """Drops all values, at the end of the trace: what lives longer must not keep them alive."""
        self.arguments = ()
        self._by_identity.clear()
        self._remembered.clear()

    def known(self, value: Any) -> VariableTracker | None:
        """The variable that was remembered for this object; None if there is none."""
        return self._found(id(value))

    def known_at(self, value: Any, source: Source) -> VariableTracker | None:
        """As `known`, with a guard that the value is found at `source`, too."""
        found = self._found(_identity(value, source))
        if found is not None:
            self._guard_same(found, value, source)
        return found

    @property
    def is_collecting(self) -> bool:
        """Whether the program is within `collecting`."""
        return self._collected is not None

    def existing(self) -> Iterable[VariableTracker]:
        """The variables of all objects that were remembered."""
        return (variable for _, variable in self.met())

    def met(self) -> Iterator[tuple[Any, VariableTracker]]:
        """All objects that were remembered, and their variables."""
        return ((value, variable) for value, variable in self._by_identity.values() if not isinstance(variable, _Expected))

    def places(self, kinds: tuple[type[VariableTracker], ...]) -> Iterator[Source]:
        """Where objects were met whose variables are of these kinds, in order, whether they have been made or not."""
        for _, variable in self._by_identity.values():
            kind = variable.event.kind if isinstance(variable, _Expected) else type(variable)
            if kind is not None and issubclass(kind, kinds) and variable.source is not None:
                yield variable.source

    def _is_recreated(self, cls: type) -> bool:
        """Whether each call of a function makes this class anew, so that guards must not compare its identity. Notes it in the
        trace's findings, before the first lookup on the class: those findings say how lookups are guarded."""
        recreated = self.trace.findings.recreated
        if id(cls) not in recreated and id(cls) not in self.trace.findings.classes and self.trace.policy.class_varies(cls):
            plain = storage_base(cls) is object and not issubclass(cls, (torch.nn.Module, BaseException))
            if plain and "__del__" not in type_dict(cls):
                recreated[id(cls)] = cls
        return id(cls) in recreated

    def guard_class_of(self, value: Any, source: Source) -> None:
        """Guards the exact type of a value."""
        cls = type(value)
        if self._is_recreated(cls):
            self.guard_class(cls, TypeSource(source))
        else:
            self.guard(TypeMatch(source, cls))

    def guard_class(self, cls: type, source: Source) -> ClassVariable:
        """Guards the class at a source: its identity, or only its shape if it is made anew at each call."""
        known = self.known(cls)
        if isinstance(known, ClassVariable) and known.source is not None:
            self._guard_same(known, cls, source)
            return known
        recreated = self.trace.findings.recreated
        template = ClassTemplate(cls) if self._is_recreated(cls) else None
        met = [] if template is None else [each for each in self.existing() if isinstance(each, ClassVariable)]
        if template is None or any(template.fits(other.value) for other in met if id(other.value) not in recreated):
            recreated.pop(id(cls), None)  # it has the shape of a class that is guarded by identity: they must be told apart
            self.guard(IdMatch(source, cls))
            rely_on_bases(cls)
            return self.remember(cls, ClassVariable(cls, source))
        self.guard(ClassShape(source, template))
        for other in met:
            if id(other.value) in recreated and other.source is not None and other.value is not cls:
                self.guard(Distinct((other.source, source)))
        return self.remember(cls, ClassVariable(cls, source))

    def _guard_same(self, variable: VariableTracker, value: Any, source: Source) -> None:
        """Guards that an object which is tracked already is found at `source`, too: this very object if it lasts from call to
        call, else whatever object the call has at the other source."""
        lasting = isinstance(variable, (UserFunctionVariable, ClassVariable, CallableVariable, PythonModuleVariable))
        is_recreated = variable.source is not None and id(value) in self.trace.findings.recreated
        if lasting and not is_nested_function(value) and not is_recreated:
            self.guard(IdMatch(source, value))
            if variable.source is None and isinstance(variable, ClassVariable):
                variable.source = source  # met first as a base class, without a source
        elif variable.source is not None and variable.source != source:
            self.guard(SameObject(variable.source, source))

    def guard(self, guard: Guard) -> None:
        """Adds a guard to the trace, but for what a polyfill itself refers to, which does not change."""
        frame = self.trace.frame
        if frame is None or not frame.is_polyfill or not is_own_guard(guard):
            self.trace.guard(guard)


# -- constants -------------------------------------------------------------------------------------------------------


@tracks(*(CONSTANT_TYPES - {int, float, *BY_IDENTITY}))
@tracks_subclasses(enum.Enum)
def _constant(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(EqualsMatch(source, value))
    return constant_of(value, source)


@tracks(*BY_IDENTITY)
def _by_identity(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    return patterns.tracked(value, source) if type(value) in patterns.PATTERN_TYPES else ConstantVariable(value, source)


@tracks(*LIBRARY_VALUES)
def _library_value(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    varies = type(value) not in NATIVE_ENUMS and not builder.trace.policy.value_is_constant(source, value)
    if varies or not is_guardable_constant(value):
        return opaque(builder, value, source)
    builder.guard(EqualsMatch(source, value))
    return VALUE_CLASSES.get(type(value), LibraryValueVariable)(value, source)


@tracks(int)
def _int(builder: VariableBuilder, tx: Tracer, value: int, source: Source) -> VariableTracker:
    if builder.trace.policy.int_is_dynamic(source, value):
        symint = builder.trace.output.world.symint(value, source)
        if is_symbolic(symint):
            builder.guard(TypeMatch(source, int))
            node = builder.trace.output.add_symbol(expr_of(symint), source, value, symint)
            return SymNodeVariable(node, symint, source)
    builder.guard(EqualsMatch(source, value))
    return ConstantVariable(value, source)


@tracks(float)
def _float(builder: VariableBuilder, tx: Tracer, value: float, source: Source) -> VariableTracker:
    if not builder.trace.policy.float_is_dynamic(source, value):
        return _constant(builder, tx, value, source)
    symfloat = builder.trace.output.world.symfloat(value, source)
    builder.guard(TypeMatch(source, float))
    builder.guard(OrdinaryFloat(source))
    node = builder.trace.output.add_symbol(expr_of(symfloat), source, value, symfloat)
    return SymNodeVariable(node, symfloat, source)


@tracks(range)
def _range(builder: VariableBuilder, tx: Tracer, value: range, source: Source) -> VariableTracker:
    builder.guard(EqualsMatch(source, value))
    start, stop, step = (ConstantVariable(part) for part in (value.start, value.stop, value.step))
    return RangeVariable(start, stop, step, source)


@tracks(slice)
def _slice(builder: VariableBuilder, tx: Tracer, value: slice, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, slice))
    start, stop, step = (tx.wrap(getattr(value, name), SlicePartSource(source, name)) for name in ("start", "stop", "step"))
    return SliceVariable(start, stop, step, source)


# -- tensors ---------------------------------------------------------------------------------------------------------


@tracks_subclasses(torch.Tensor)
def _tensor(builder: VariableBuilder, tx: Tracer, value: torch.Tensor, source: Source) -> VariableTracker:
    cls = type(value)
    plain = cls in (torch.Tensor, torch.nn.Parameter)
    if not plain and is_wrapper(value):
        builder.trace.overrides.note_class(cls)
        with torch._C.DisableTorchFunctionSubclass():
            return plain_tensor(builder, value, source, WrapperVariable)
    if is_program_fake(value) and _is_strided(value):
        return _program_fake(builder, value, source)
    if cls is torch.Tensor and is_sparse(value) and value.dim() == 2 and not builder.trace.policy.has_varied(source, value):
        if builder.trace.output.chances.take_sparse():
            return _sparse_matrix(builder, value, source)
    if cls is torch.Tensor and value.is_quantized and not builder.trace.policy.has_varied(source, value):
        return _quantised(builder, value, source)
    if not (plain or is_traceable_subclass(cls)) or not _is_strided(value) or is_leaf(value) is None:
        return opaque(builder, value, source)
    if plain:
        return plain_tensor(builder, value, source, TensorVariable)
    builder.trace.overrides.note_subclass()
    with torch._C.DisableTorchFunctionSubclass():
        return plain_tensor(builder, value, source, TensorSubclassVariable)


def _program_fake(builder: VariableBuilder, value: torch.Tensor, source: Source) -> VariableTracker:
    """The tracked form of a fake tensor of the program. A call with sizes that are symbols of its own runs in CPython, so that
    its shape env hears what is asked of them."""
    if has_own_symbols(value):
        raise errors.NotNow("the sizes of a fake tensor are symbols of another shape env")
    variable = plain_tensor(builder, value, source, ProgramFakeVariable)
    builder.guard(EqualsMatch(AttrSource(source, "_fake_device"), value.device))  # C would ask Python code of torch for it
    builder.trace.output.world.program_fakes.add(variable.graph_arg())
    return variable


def _sparse_matrix(builder: VariableBuilder, value: torch.Tensor, source: Source) -> VariableTracker:
    output = builder.trace.output
    builder.guard(TensorMatch(source, tensor_spec(value)))
    with builder.trace.torch_state.as_at_entry():
        fake = sparse_fake(output.world.fake_mode, value)
    variable = SparseVariable(output.add_input(source, value, fake), fake, source)
    output.track(fake, variable)
    builder.trace.input_tensors.append(variable)
    return builder.remember(value, variable)


def _quantised(builder: VariableBuilder, value: torch.Tensor, source: Source) -> VariableTracker:
    output = builder.trace.output
    if value.dtype not in INTEGERS or not value.is_contiguous() or not output.chances.take():
        return opaque(builder, value, source)
    builder.guard(TensorMatch(source, tensor_spec(value)))
    with output.world.fake_mode, torch.inference_mode(False):
        fake = torch.empty(list(value.shape), dtype=torch.float32, device=value.device)
    node = output.add_input(source, value, RuntimeObject(torch.Tensor))
    return builder.remember(value, QuantisedVariable(node, fake, value.dtype, {}, source))


def _is_strided(value: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunctionSubclass():
        return value.layout is torch.strided and not value.is_quantized and not value.is_nested


def is_plain_tensor(value: torch.Tensor) -> bool:
    """Whether a tensor is of no subclass, and strided."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and _is_strided(value)


def plain_tensor(
    builder: VariableBuilder, value: torch.Tensor, source: Source, make: type[TensorVariable], symbols: Collection[int] = ()
) -> VariableTracker:
    """The tracked form of a strided tensor, of class `make`. The sizes of dims in `symbols` are symbols in any case."""
    cls, trace = type(value), builder.trace
    policies, constraints = trace.policy.dims(source, value)
    policies = [DimPolicy.DYNAMIC if dim in symbols else policy for dim, policy in enumerate(policies)]
    output = trace.output
    with trace.torch_state.as_at_entry():
        make_fake = output.world.fakify_wrapper if make is WrapperVariable else output.world.fakify
        fake = make_fake(value, source, policies, constraints, trace.policy.strides(source, value))
    is_static = all(type(number) is int for number in (*fake.shape, *fake.stride()))
    for dim, size in enumerate(() if is_static else fake.shape):
        if is_symbolic(size) and expr_of(size).is_Symbol:
            output.add_symbol(expr_of(size), TensorSizeSource(source, dim), value.shape[dim], size)
    for dim, stride in enumerate(() if is_static else fake.stride()):  # after all sizes, one of which it may be
        if is_symbolic(stride) and expr_of(stride).is_Symbol:
            output.add_symbol(expr_of(stride), TensorStrideSource(source, dim), value.stride(dim), stride)
    share_ragged_size(output.world.fake_mode, value, fake)  # if it is the offsets of nested tensors
    _ask_predicates(builder, source, value, fake)
    node = output.add_input(source, value, fake)
    if not (is_static and source in trace.restated_tensors):
        dynamic = {dim for dim, size in enumerate(fake.shape) if is_symbolic(size)}
        dynamic_strides = {dim for dim, stride in enumerate(fake.stride()) if is_symbolic(stride)}
        with trace.torch_state.as_at_entry():
            spec = tensor_spec(value, dynamic, dynamic_strides)
        builder.guard(TensorMatch(source, spec._replace(device_type=None) if is_program_fake(value) else spec))
    variable = make(node, fake, source, cls)
    output.track(fake, variable)
    trace.input_tensors.append(variable)
    if is_leaf(fake) is False:
        trace.computed_inputs.append(variable)
    trace.marks[source] = user_marks.dim_marks(value)
    return builder.remember(value, variable)


def _ask_predicates(builder: VariableBuilder, source: Source, value: torch.Tensor, fake: torch.Tensor) -> None:
    """Decides the conditions under which sizes have code of their own, as if the program had branched on them."""
    for dim, mark in user_marks.dim_marks(value).items():
        for predicate, holds in mark.asks(value.shape[dim]):
            if is_symbolic(fake.shape[dim]) and not _is_decided(predicate, fake.shape[dim]):
                builder.guard(PredicateMatch(TensorSizeSource(source, dim), predicate, holds))


def _is_decided(predicate: user_marks.SizePredicate, size: Any) -> bool:
    """Whether a condition could be asked of a symbolic size, so that guards on sizes say how it came out."""
    if not size.node.has_hint():
        return False
    try:
        predicate.holds(size)
    except Exception:  # it takes only ints
        return False
    return True


# -- opaque values ---------------------------------------------------------------------------------------------------


def opaque(builder: VariableBuilder, value: Any, source: Source) -> VariableTracker:
    """The tracked form of a value that can be passed on, but breaks the graph where something is asked of it."""
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, OpaqueVariable(type(value), source))
