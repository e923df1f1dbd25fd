"""From a value that existed before the frame ran to its tracked form and the guards that form relies on.

A new kind of value is one function registered with `tracks` (exactly these types) or `tracks_subclasses` (the most
derived registered base in the value's MRO wins). Objects of classes are in `object_builders`.
"""
from __future__ import annotations

import collections
import enum
import functools
import gc
import linecache
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C, guards, user_marks
from tracer.graph.fake_tensors import expr_of, is_symbolic
from tracer.graph_breaks import unsupported
from tracer.guards.constants import is_guardable_constant
from tracer.library.registry import code_model_of, is_in_graph, is_own_guard, model_of
from tracer.sources import (
    DictKeySource,
    DictValueSource,
    GenericAttrSource,
    ItemSource,
    MethodFuncSource,
    MethodSelfSource,
    ObjectSource,
    Source,
    TensorSizeSource,
)
from tracer.sources.reading import is_a, type_mro
from tracer.variables import dict_methods, set_methods  # noqa: F401  (registers them)
from tracer.variables.base import VariableTracker
from tracer.variables.callables import (
    BoundMethodVariable,
    BuiltinMethodVariable,
    CallableVariable,
    CompiledFunctionVariable,
    PartialVariable,
)
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import BY_IDENTITY, CONSTANT_TYPES, ConstantVariable, is_constant_value
from tracer.variables.enums import constant_of
from tracer.variables.functions import UserFunctionVariable, cell_of
from tracer.variables.lazy import Unwrapped
from tracer.variables.lookups import lookup, rely_on_bases
from tracer.variables.mappings import DictVariable, MappingProxyVariable
from tracer.variables.modules import LoadedModulesVariable, PythonModuleVariable
from tracer.variables.objects import UserObjectVariable
from tracer.variables.opaque import OpaqueVariable
from tracer.variables.overrides import TensorSubclassVariable, is_traceable_subclass
from tracer.variables.patterns import PATTERN_TYPES, PatternVariable
from tracer.variables.sequences import (
    ListVariable,
    NamedTupleVariable,
    RangeVariable,
    SizeVariable,
    SliceVariable,
    TupleVariable,
)
from tracer.variables.sets import FrozenSetVariable, SetVariable
from tracer.variables.symbolic import SymNodeVariable
from tracer.variables.tensor import TensorVariable
from tracer.variables.type_forms import FORM_BASES, FORM_TYPES, TypeFormVariable

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.variables.protocol import Tracer

Build = Callable[["VariableBuilder", "Tracer", Any, Source], VariableTracker]
_MOST_KEYS = 10_000  # of a dict or set that is looked into: its guard compares all of them at every call
_EXACT: dict[type, Build] = {}
_SUBCLASSES: dict[type, Build] = {}


def tracks(*types_: type) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        for cls in types_:
            if cls in _EXACT:
                raise ValueError(f"{cls} is tracked twice")
            _EXACT[cls] = build
        return build

    return register


def tracks_subclasses(*bases: type) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        for base in bases:
            if base in _SUBCLASSES:
                raise ValueError(f"subclasses of {base} are tracked twice")
            _SUBCLASSES[base] = build
        return build

    return register


def _builder_of(cls: type) -> Build:
    """Not remembered: the bases of a class can be assigned, and the class can go away."""
    exact = _EXACT.get(cls)
    if exact is not None:
        return exact
    rely_on_bases(cls)
    return next(_SUBCLASSES[base] for base in cls.__mro__ if base in _SUBCLASSES)


def _identity(value: Any, source: Source | None) -> int:
    """What is one value: the same object, but for a tensor that a function gave which always gives the same. That it is
    an argument of this call, too, is chance."""
    if is_a(value, torch.Tensor) and source is not None and isinstance(source.root(), ObjectSource):
        return -id(value)
    return id(value)


class VariableBuilder:
    """Wraps values for one trace; the same object reached twice is the same variable."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.arguments: tuple[Any, ...] = ()  # of the frame itself
        self._by_identity: dict[int, tuple[Any, VariableTracker]] = {}
        self.proxies: dict[int, MappingProxyVariable] = {}  # by the id of the dict below, where that was not met yet

    def __call__(self, tx: Tracer, value: Any, source: Source) -> VariableTracker:
        known = self._by_identity.get(_identity(value, source))
        if known is not None:
            self._guard_same(known[1], value, source)
            return known[1]
        return _builder_of(type(value))(self, tx, value, source)

    def remember(self, value: Any, variable: VariableTracker) -> Any:
        self._by_identity[_identity(value, variable.source)] = (value, variable)
        return variable

    def forget(self) -> None:
        self.arguments = ()
        self._by_identity.clear()
        self.proxies.clear()

    def known(self, value: Any) -> VariableTracker | None:
        found = self._by_identity.get(id(value))
        return None if found is None else found[1]

    def existing(self) -> Iterable[VariableTracker]:
        return (variable for _, variable in self._by_identity.values())

    def _guard_same(self, variable: VariableTracker, value: Any, source: Source) -> None:
        lasting = isinstance(variable, (UserFunctionVariable, ClassVariable, CallableVariable, PythonModuleVariable))
        if lasting and not is_nested_function(value):
            self.guard(guards.IdMatch(source, value))
            if variable.source is None and isinstance(variable, ClassVariable):
                variable.source = source  # met first as a base class, which nothing names
        elif variable.source is not None and variable.source != source:
            self.guard(guards.SameObject(variable.source, source))

    def guard(self, guard: guards.Guard) -> None:
        frame = self.trace.frame
        if frame is None or not frame.is_polyfill or not is_own_guard(guard):
            self.trace.guard(guard)


# -- constants -------------------------------------------------------------------------------------------------------


@tracks(*(CONSTANT_TYPES - {int, float, *BY_IDENTITY}))
@tracks_subclasses(enum.Enum)
def _constant(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.EqualsMatch(source, value))
    return constant_of(value, source)


@tracks(*BY_IDENTITY)
def _by_identity(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.IdMatch(source, value))
    return (PatternVariable if type(value) in PATTERN_TYPES else ConstantVariable)(value, source)


@tracks(int)
def _int(builder: VariableBuilder, tx: Tracer, value: int, source: Source) -> VariableTracker:
    if builder.trace.policy.int_is_dynamic(source, value):
        symint = builder.trace.output.world.symint(value, source)
        if is_symbolic(symint):
            builder.guard(guards.TypeMatch(source, int))
            node = builder.trace.output.add_symbol(expr_of(symint), source, value, symint)
            return SymNodeVariable(node, symint, source)
    builder.guard(guards.EqualsMatch(source, value))
    return ConstantVariable(value, source)


@tracks(float)
def _float(builder: VariableBuilder, tx: Tracer, value: float, source: Source) -> VariableTracker:
    if not builder.trace.policy.float_is_dynamic(source, value):
        return _constant(builder, tx, value, source)
    symfloat = builder.trace.output.world.symfloat(value, source)
    builder.guard(guards.TypeMatch(source, float))
    builder.guard(guards.OrdinaryFloat(source))
    node = builder.trace.output.add_symbol(expr_of(symfloat), source, value, symfloat)
    return SymNodeVariable(node, symfloat, source)


@tracks(range)
def _range(builder: VariableBuilder, tx: Tracer, value: range, source: Source) -> VariableTracker:
    builder.guard(guards.EqualsMatch(source, value))
    start, stop, step = (ConstantVariable(part) for part in (value.start, value.stop, value.step))
    return RangeVariable(start, stop, step, source)


@tracks(slice)
def _slice(builder: VariableBuilder, tx: Tracer, value: slice, source: Source) -> VariableTracker:
    builder.guard(guards.TypeMatch(source, slice))
    start, stop, step = (
        tx.wrap(getattr(value, name), GenericAttrSource(source, name)) for name in ("start", "stop", "step")
    )
    return SliceVariable(start, stop, step, source)


# -- tensors ---------------------------------------------------------------------------------------------------------


@tracks_subclasses(torch.Tensor)
def _tensor(builder: VariableBuilder, tx: Tracer, value: torch.Tensor, source: Source) -> VariableTracker:
    cls = type(value)
    plain = cls in (torch.Tensor, torch.nn.Parameter)
    if not (plain or is_traceable_subclass(cls)) or not _is_strided(value):
        return opaque(builder, value, source)
    if plain:
        return _plain_tensor(builder, value, source, TensorVariable)
    builder.trace.overrides.met_subclass = True
    with torch._C.DisableTorchFunctionSubclass():
        return _plain_tensor(builder, value, source, TensorSubclassVariable)


def _is_strided(value: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunctionSubclass():
        return value.layout is torch.strided and not value.is_quantized and not value.is_nested


def _plain_tensor(
    builder: VariableBuilder, value: torch.Tensor, source: Source, make: type[TensorVariable]
) -> VariableTracker:
    cls, trace = type(value), builder.trace
    policies, constraints = trace.policy.dims(source, value)
    output = trace.output
    with trace.torch_state.as_at_entry():
        fake = output.world.fakify(value, source, policies, constraints)
    for dim, size in enumerate(fake.shape):
        if is_symbolic(size) and expr_of(size).is_Symbol:
            output.add_symbol(expr_of(size), TensorSizeSource(source, dim), value.shape[dim], size)
    node = output.add_input(source, value, fake)
    dynamic = {dim for dim, size in enumerate(fake.shape) if is_symbolic(size)}
    dynamic_strides = {dim for dim, stride in enumerate(fake.stride()) if is_symbolic(stride)}
    with trace.torch_state.as_at_entry():
        builder.guard(guards.TensorMatch(source, guards.tensor_spec(value, dynamic, dynamic_strides)))
    variable = make(node, fake, source, cls)
    output.track(fake, variable)
    trace.input_tensors.append(variable)
    trace.marks[source] = user_marks.dim_marks(value)
    return builder.remember(value, variable)


# -- containers ------------------------------------------------------------------------------------------------------


def _items(value: Any, source: Source) -> list[Unwrapped]:
    return [Unwrapped(item, ItemSource(source, index)) for index, item in enumerate(value)]


@tracks(tuple)
def _tuple(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.TypeMatch(source, tuple))
    builder.guard(guards.LengthMatch(source, len(value)))
    return builder.remember(value, TupleVariable(_items(value, source), source))


@tracks(list)
def _list(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    def read() -> list[Any]:
        builder.guard(guards.LengthMatch(source, len(value)))
        return _items(value, source)

    builder.guard(guards.TypeMatch(source, list))
    return builder.remember(value, ListVariable.unread(read, source))


@tracks(torch.Size)
def _size(builder: VariableBuilder, tx: Tracer, value: torch.Size, source: Source) -> VariableTracker:
    builder.guard(guards.TypeMatch(source, torch.Size))
    builder.guard(guards.LengthMatch(source, len(value)))
    return SizeVariable([tx.wrap(item, ItemSource(source, i)) for i, item in enumerate(value)], source)


@tracks_subclasses(tuple)
def _tuple_subclass(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    builder.guard(guards.TypeMatch(source, cls))
    builder.guard(guards.LengthMatch(source, tuple.__len__(value)))
    if hasattr(cls, "_fields") or hasattr(cls, "n_sequence_fields"):
        return builder.remember(value, NamedTupleVariable(_items(tuple.__iter__(value), source), cls, source))
    storage = TupleVariable(_items(tuple.__iter__(value), source), source)
    return builder.remember(value, UserObjectVariable(cls, value, source, storage))


@tracks(dict, collections.OrderedDict, collections.defaultdict)
def _dict(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if value is sys.modules:
        builder.guard(guards.IdMatch(source, value))
        return builder.remember(value, LoadedModulesVariable(source))
    if len(value) > _MOST_KEYS or any(value is changed for changed in _CHANGED_BY_TRACING):
        return opaque(builder, value, source)
    builder.guard(guards.TypeMatch(source, type(value)))
    variable = builder.remember(value, DictVariable({}, source, type(value)))
    fill_dict(builder, tx, variable, value, source)
    if id(value) in builder.proxies:
        builder.proxies.pop(id(value)).show(variable)
    if isinstance(value, collections.defaultdict) and value.default_factory is not None:
        variable.default_factory = tx.wrap(value.default_factory, GenericAttrSource(source, "default_factory"))
    return variable


_CHANGED_BY_TRACING = (linecache.cache, weakref.finalize._registry)  # type: ignore[attr-defined]


def fill_dict(builder: VariableBuilder, tx: Tracer, variable: DictVariable, value: Any, source: Source) -> None:
    ordered = issubclass(type(value), collections.OrderedDict)  # its order is not that of the dict below it
    keys = list(collections.OrderedDict.keys(value) if ordered else dict.keys(value))
    if ordered and not all(map(is_guardable_constant, keys)):
        unsupported("unguardable", value="an OrderedDict whose keys are not all str, int and the like")
    # not by key, which may be an object whose hash runs code of the program, or has changed
    items = [dict.__getitem__(value, key) for key in keys] if ordered else list(dict.values(value))
    of_proxy = variable.cls is types.MappingProxyType
    builder.guard(guards.DictKeysMatch(source, tuple(keys), ordered_dict=ordered and not of_proxy))
    for index, key in enumerate(keys):
        item = items[index]
        tracked = tx.literal(key) if is_constant_value(key) else tx.wrap(key, DictKeySource(source, index))
        item_source = ItemSource(source, key) if is_constant_value(key) else DictValueSource(source, index)
        variable.entries[tracked.hash_key(tx)] = (tracked, Unwrapped(item, item_source))


@tracks(set, frozenset)
def _set(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if len(value) > _MOST_KEYS:
        return opaque(builder, value, source)
    if not all(map(is_guardable_constant, value)):
        return _set_of_callables(builder, tx, value, source)
    builder.guard(guards.TypeMatch(source, type(value)))
    builder.guard(guards.SetMatch(source, frozenset(value)))
    make = SetVariable if type(value) is set else FrozenSetVariable
    return builder.remember(value, make({item: tx.literal(item) for item in value}, source))


def _set_of_callables(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    """A frozenset of functions and classes, which neither it nor they can be exchanged in."""
    if type(value) is not frozenset or not all(is_constant_value(item) or _hashed_by_identity(item) for item in value):
        return opaque(builder, value, source)
    builder.guard(guards.IdMatch(source, value))
    entries = {item: tx.literal(item) if is_constant_value(item) else _lasting(item) for item in value}
    return builder.remember(value, FrozenSetVariable(entries, source))


def _hashed_by_identity(value: Any) -> bool:
    if is_a(value, type):
        return lookup(type(value), "__hash__")[0] in (type, object)
    return type(value) in (types.FunctionType, types.BuiltinFunctionType)


def _lasting(value: Any) -> VariableTracker:
    if is_a(value, type):
        return ClassVariable(value)
    if type(value) is types.FunctionType and not _is_library_function(value):
        return UserFunctionVariable(value, None)
    return CallableVariable(value)


@tracks(types.MappingProxyType)
def _mapping_proxy(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    underlying = gc.get_referents(value)[0]
    if type(underlying) not in (dict, collections.OrderedDict):
        return opaque(builder, value, source)
    builder.guard(guards.TypeMatch(source, types.MappingProxyType))
    below = builder.known(underlying)
    if isinstance(below, DictVariable):
        return builder.remember(value, MappingProxyVariable(below, source))
    variable = builder.proxies[id(underlying)] = builder.remember(value, MappingProxyVariable(DictVariable({}), source))
    fill_dict(builder, tx, variable, underlying, source)
    return variable


# -- callables -------------------------------------------------------------------------------------------------------


@tracks(types.FunctionType)
def _function(builder: VariableBuilder, tx: Tracer, value: types.FunctionType, source: Source) -> VariableTracker:
    if _is_library_function(value):
        builder.guard(guards.FunctionMatch(source, value))
        return builder.remember(value, CallableVariable(value, source))
    inner = value.__dict__.get(_COMPILED)
    if inner is not None and not _is_disabled(value, inner):  # what torch.compile made
        builder.guard(guards.IdMatch(source, value))
        function = tx.wrap(inner, GenericAttrSource(source, _COMPILED))
        return builder.remember(value, CompiledFunctionVariable(value, function, source))
    nested = is_nested_function(value)
    builder.guard(guards.CodeMatch(source, value) if nested else guards.FunctionMatch(source, value))
    return builder.remember(value, UserFunctionVariable(value, source))


_COMPILED = "_torchdynamo_orig_callable"


def _is_disabled(value: types.FunctionType, inner: Any) -> bool:
    """torch.compile, once used, disables parts of optimizers for itself; what the user disables stays so."""
    module = getattr(inner, "__module__", None) or ""
    return bool(value.__dict__.get("_torchdynamo_disable")) and not module.startswith("torch.optim.")


def _is_library_function(value: types.FunctionType) -> bool:
    """Whether a call of the function is not a matter of tracing through it."""
    if user_marks.is_opaque(value) or user_marks.is_allowed(value) or user_marks.is_disallowed(value):
        return True
    return model_of(value) is not None or code_model_of(value) is not None or is_in_graph(value)


def is_nested_function(value: Any) -> bool:
    """Whether a function is one of the many that a `def` inside of a function makes."""
    return is_a(value, types.FunctionType) and "<locals>" in value.__qualname__


@tracks(types.MethodType)
def _method(builder: VariableBuilder, tx: Tracer, value: types.MethodType, source: Source) -> VariableTracker:
    builder.guard(guards.TypeMatch(source, types.MethodType))
    function = tx.wrap(value.__func__, MethodFuncSource(source))
    bound = BoundMethodVariable(function, tx.wrap(value.__self__, MethodSelfSource(source)), source)
    return builder.remember(value, bound)  # type: ignore[no-any-return]


@tracks(
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    functools._lru_cache_wrapper,
    type(torch.ops.aten.add),
    type(torch.ops.aten.add.Tensor),
    torch._C.ScriptFunction,
)
def _callable(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    owner = getattr(value, "__self__", None)
    if isinstance(value, types.BuiltinFunctionType) and _is_method_of(owner, value.__name__):
        builder.guard(guards.TypeMatch(source, type(value)))
        builder.guard(guards.EqualsMatch(GenericAttrSource(source, "__name__"), value.__name__))
        return BuiltinMethodVariable(tx.wrap(owner, GenericAttrSource(source, "__self__")), value.__name__, source)
    if isinstance(value, types.MethodWrapperType):  # made at each access
        builder.guard(guards.TypeMatch(source, types.MethodWrapperType))
        builder.guard(guards.IdMatch(GenericAttrSource(source, "__self__"), owner))
        builder.guard(guards.EqualsMatch(GenericAttrSource(source, "__name__"), value.__name__))
        return CallableVariable(value, source)
    builder.guard(guards.IdMatch(source, value))
    return CallableVariable(value, source)


def _is_method_of(owner: Any, name: str) -> bool:
    """Whether a builtin is a method bound to an object, not a function that keeps a module or a record beside it."""
    if owner is None or is_a(owner, (types.ModuleType, type)):
        return False
    return isinstance(getattr(type(owner), name, None), types.MethodDescriptorType)


@tracks(_C.Dispatcher)
def _compiled_function(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.IdMatch(source, value))
    part = "_tracer_opaque" if hasattr(value, "_tracer_opaque") else "function"
    function = tx.wrap(getattr(value, part), GenericAttrSource(source, part))
    return builder.remember(value, CompiledFunctionVariable(value, function, source))


@tracks(functools.partial)
def _partial(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.TypeMatch(source, functools.partial))
    function = tx.wrap(value.func, GenericAttrSource(source, "func"))
    args = tx.wrap(value.args, GenericAttrSource(source, "args")).unpack(tx)
    keywords = tx.wrap(value.keywords, GenericAttrSource(source, "keywords"))
    kwargs = {key.constant(): item for key, item in keywords.pairs(tx)}  # type: ignore[attr-defined]
    return builder.remember(value, PartialVariable(function, args, kwargs, functools.partial, source, value))


@tracks_subclasses(type)
def _class(builder: VariableBuilder, tx: Tracer, value: type, source: Source) -> VariableTracker:
    if type_mro(value) is None:  # while its own mro() runs
        return opaque(builder, value, source)
    builder.guard(guards.IdMatch(source, value))
    rely_on_bases(value)
    return builder.remember(value, ClassVariable(value, source))


@tracks(*FORM_TYPES)
@tracks_subclasses(*FORM_BASES)
def _type_form(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.IdMatch(source, value))
    return builder.remember(value, TypeFormVariable(value, source))


def _is_plain_module(value: types.ModuleType) -> bool:
    """Whether a module was initialised, and reading its attributes runs no code of its class."""
    namespace = types.ModuleType.__getattribute__(value, "__dict__") or {}
    reads = lookup(type(value), "__getattribute__")[1]
    return type(namespace.get("__name__")) is str and not isinstance(reads, types.FunctionType)


@tracks_subclasses(types.ModuleType)
def _module(builder: VariableBuilder, tx: Tracer, value: types.ModuleType, source: Source) -> VariableTracker:
    if not _is_plain_module(value):
        return opaque(builder, value, source)
    builder.guard(guards.FunctionMatch(source, value))
    return builder.remember(value, PythonModuleVariable(value, source))


@tracks(types.CellType)
def _cell(builder: VariableBuilder, tx: Tracer, value: types.CellType, source: Source) -> VariableTracker:
    return builder.remember(value, cell_of(value, source))


def opaque(builder: VariableBuilder, value: Any, source: Source) -> VariableTracker:
    """A value that can be passed on but not looked into."""
    builder.guard(guards.TypeMatch(source, type(value)))
    return builder.remember(value, OpaqueVariable(type(value), source))
