"""Emits code that pushes tracked values. Reads the trace, never traces.

Objects that the output code needs in addition to the frame's arguments (the compiled graph, resume functions, other objects) are
free variables of it, the `extras`: the garbage collector sees cells, but not constants of a code object.
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import threading
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer.bytecode import Assembler, Label
from tracer.codegen.generators import build_generator
from tracer.codegen.tracebacks import build_traceback
from tracer.effects.lifetimes import has_finalizer
from tracer.effects.log import Deleted
from tracer.graph.fakes.exchanged_data import assign_data
from tracer.graph_breaks import unsupported
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import lookup
from tracer.protocol.variable import VariableTracker, unreachable
from tracer.sources.base import Source
from tracer.sources.roots import LocalSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.sets import FrozenSetVariable, SetVariable
from tracer.variables.exceptions.exceptions import TracebackVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.iterators.generators import GeneratorVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.protocol.tracer import HasNode

Load = Callable[[], None]
_CODE_CONSTANTS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), types.CodeType, tuple, frozenset, slice)
_IMMORTAL = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, torch.dtype, torch.device,
            torch.layout, torch.memory_format)  # fmt: skip


def _is_singleton(value: Any) -> bool:
    """Whether equal values are one object, so that a constant may replace the value wherever it came from."""
    return value is None or isinstance(value, (bool, enum.Enum)) or (type(value) is int and -5 <= value <= 256)


def _needs_filling(value: VariableTracker) -> bool:
    """Whether the object is filled after it was made."""
    return type(value).fill is not VariableTracker.fill


class Extras:
    """Objects that the output code reaches by name."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._names: dict[int, str] = {}

    def name_of(self, obj: Any, prefix: str = "__object") -> str:
        name = self._names.get(id(obj))
        if name is None:
            name = f"{prefix}_{len(self.values)}"
            self.bind(name, obj)
        return name

    def bind(self, name: str, obj: Any) -> str:
        self.values[name] = obj
        self._names[id(obj)] = name
        return name


class Codegen:
    """The values of one output code. `outputs` collects what the graph must return, in order."""

    def __init__(self, trace: Trace, asm: Assembler, extras: Extras, outputs: dict[fx.Node, int]) -> None:
        self.trace = trace
        self.effects = trace.effects
        self.asm = asm
        self.extras = extras
        self.outputs = outputs
        self.graph_out: str = asm.fresh_local("graph_out")
        self.own_locals: list[str] = [self.graph_out]
        self.read_by_source: dict[VariableTracker | Unwrapped, None] = {}
        self.random_results: list[str] = []  # the local of each random number that was drawn
        self.fallback: Label | None = None  # the handler for reads that fail; None after the first side effect
        self.used_fallbacks: dict[Label, None] = {}  # the handlers that have to be emitted
        self.loaded: set[VariableTracker | Unwrapped] = set()
        self._loaded_weakly: dict[VariableTracker, int | None] = {}  # value -> the step that made the weak reference to it
        self._temporaries: dict[VariableTracker | Unwrapped, str] = {}
        self._cyclic: dict[VariableTracker, bool] = {}
        self._making_depth = 0  # of nested calls of `_make`
        self._unfilled: list[VariableTracker] = []
        self._awaiting_keys: list[VariableTracker] = []  # containers that are filled when all else is
        self._awaits_keys: dict[VariableTracker, bool] = {}
        self._filling_depth = 0  # of nested calls of `_fill`
        self._unfilled_before = 0  # how many of them had to wait when the object that is filled now was begun

    # -- values ------------------------------------------------------------------------------------------------------

    def load(self, value: VariableTracker | Unwrapped) -> None:
        """-> value. Loading the same variable twice gives the same object."""
        self.loaded.add(value)
        known = self._temporaries.get(value)
        if known is not None:
            self.asm.load_fast(known)
        elif isinstance(value, ConstantVariable) and (value.source is None or _is_singleton(value.value)):
            value.reconstruct(self)
        elif value.source is not None:
            self.read_by_source.setdefault(value)
            self.read(value.source)
        elif isinstance(value, Unwrapped):
            unreachable(value)
        elif value in self.effects.cached:
            self.effects.cached.refuse_escape(value)
        elif value in self.effects.handed_over:
            self.effects.handed_over.refuse_escape(value)
        else:
            self._make(value)

    def load_weakly(self, value: VariableTracker, made_at: int | None) -> None:
        """-> value, for a weak reference to it. Something else has to hold the value; see `refuse_weakly_held`."""
        is_held = value in self.loaded
        self.load(value)
        if not is_held:
            self.loaded.remove(value)
        if value.source is None:
            self._loaded_weakly.setdefault(value, made_at)

    def refuse_weakly_held(self) -> None:
        """Breaks the graph for a value with weak references only: whether it is alive (a cycle may hold it) only CPython
        knows."""
        for value, made_at in self._loaded_weakly.items():
            if value not in self.loaded:
                unsupported("cannot-reconstruct", break_step=made_at, value="a weak reference to what nothing else holds")

    def read(self, source: Source) -> None:
        """-> value. If reading it raises, because another thread has changed something since the guards ran, the frame falls back
        to the original code."""
        if self.fallback is None or type(source) is LocalSource:
            source.emit(self)
            return
        self.used_fallbacks.setdefault(self.fallback)
        token = self.asm.try_begin(self.fallback, depth=0)
        source.emit(self)
        self.asm.try_end(token)

    def _make(self, value: VariableTracker) -> None:
        """-> a new object. One that contains itself is filled when the outermost object that contains it has been made."""
        if has_finalizer(value):
            self.fallback = None
        if isinstance(value, SetVariable) and not self.awaits_keys(value):
            elements = [*value.children()]
            if any(map(self._is_hashed_late, elements)) and not self._all_are_filled(elements):
                unsupported("cannot-reconstruct", value=f"a {value.cls.__name__} of an object that contains itself")
        if isinstance(value, IteratorVariable) and self._is_filled_later(value.container()):
            unsupported("cannot-reconstruct", value="an iterator over what hashes an object that contains itself")
        self._making_depth += 1
        value.reconstruct(self)
        self._making_depth -= 1
        self.asm.copy(1)
        self._temporaries[value] = self.store_temporary()
        if self.awaits_keys(value):
            self._awaiting_keys.append(value)
        elif isinstance(value, CellVariable) or (self._making_depth and _needs_filling(value) and self.reaches_itself(value)):
            self._unfilled.append(value)
        else:
            self._fill(value)
        while len(self._unfilled) > self._unfilled_before and not self._making_depth:
            self._fill(self._unfilled.pop())
        while self._awaiting_keys and not self._making_depth and not self._filling_depth:
            self._fill(self._awaiting_keys.pop(0))

    def _fill(self, value: VariableTracker) -> None:
        """Objects that wait from before go on waiting: they may hold `value`, as a key that is hashed, for example."""
        before, self._unfilled_before = self._unfilled_before, len(self._unfilled)
        self._filling_depth += 1
        value.fill(self)
        self.store_attributes_of_function(value)
        self._filling_depth -= 1
        self._unfilled_before = before

    def keep(self, value: VariableTracker | Unwrapped) -> None:
        """Stores a value in a local now, so that code which runs before a later load cannot change it."""
        plain = isinstance(value, ConstantVariable) and (value.source is None or _is_singleton(value.value))
        if value not in self._temporaries and not plain:
            self.load(value)
            self._temporaries[value] = self.store_temporary()

    def is_available(self, value: VariableTracker | Unwrapped | str) -> bool:
        """Whether a value can be loaded without making a new object."""
        if isinstance(value, str) or value in self._temporaries:
            return True
        return value.source is not None or isinstance(value, ConstantVariable)

    def store_temporary(self) -> str:
        """value ->"""
        name = self.asm.fresh_local("tmp")
        self.own_locals.append(name)
        self.asm.store_fast(name)
        return name

    def release(self, names: Iterable[str], but: Iterable[VariableTracker | Unwrapped]) -> None:
        """Sets the locals `names` to None, apart from those that hold the values `but`, so that objects die when the program
        drops them."""
        kept = set()
        for value in but:
            if value in self._temporaries:
                kept.add(self._temporaries[value])
            elif isinstance(value.source, LocalSource):
                kept.add(value.source.local_name)
        names = [name for name in names if name not in kept]
        for position, name in enumerate(names):
            if position == 0:
                self.asm.load_const(None)
            if position + 1 < len(names):
                self.asm.copy(1)
            self.asm.store_fast(name)

    def load_graph_output(self, value: HasNode) -> None:
        index = self.outputs.setdefault(value.node, len(self.outputs))
        self.asm.load_fast(self.graph_out)
        self.asm.load_const(index)
        self.asm.subscript()

    def load_const(self, value: Any) -> None:
        if self.trace.findings.made and self._holds_made(value):
            unsupported("cannot-reconstruct", value="a constant that holds a member of an enum that the trace made")
        if type(value) in _CODE_CONSTANTS:
            self.asm.load_const(value)
        else:
            self.load_object(value)

    def _holds_made(self, value: Any) -> bool:
        """Whether it is a member of an enum that the trace made, or holds one."""
        if isinstance(value, (tuple, frozenset, set, list)):
            return any(map(self._holds_made, value))
        return isinstance(value, enum.Enum) and self.is_made(type(value))

    def load_object(self, obj: Any) -> None:
        """-> obj, through a free variable unless it is immortal"""
        if isinstance(obj, _IMMORTAL):
            self.asm.load_const(obj)
        else:
            self.asm.load_deref(self.extras.name_of(obj))

    def load_class(self, cls: type) -> None:
        """-> cls; a class that the trace made is made anew"""
        made = self.trace.builder.known(cls)
        if made is not None and id(cls) in self.trace.findings.recreated:
            self.load(made)
        elif made is None or made.source is not None or type(made).reconstruct is ClassVariable.reconstruct:
            self.load_object(cls)
        else:
            self.load(made)

    def is_made(self, cls: type) -> bool:
        return id(cls) in self.trace.findings.made

    def load_globals(self, globals_: dict[str, Any]) -> None:
        self.load_object(globals_)

    # -- composing ---------------------------------------------------------------------------------------------------

    def build_sequence(self, opname: str, items: Iterable[VariableTracker | Unwrapped]) -> None:
        count = 0
        for item in items:
            self.load(item)
            count += 1
        self.asm.emit(opname, count)

    def call_object(self, obj: Any, *args: Load, **kwargs: Load) -> None:
        """-> obj(*args, **kwargs)"""
        self.load_callable(obj)
        self._arguments(args, kwargs)

    def call_top(self, *args: Load) -> None:
        """callable -> callable(*args)"""
        self.asm.make_callee()
        self._arguments(args, {})

    def _arguments(self, args: Iterable[Load], kwargs: dict[str, Load]) -> None:
        loads = [*args, *kwargs.values()]
        for load in loads:
            load()
        self.asm.call(len(loads), tuple(kwargs))

    def load_attr(self, name: str) -> None:
        self.asm.load_attr(name)

    def awaits_keys(self, value: VariableTracker) -> bool:
        """Whether a new container hashes, by code of the program, an object that contains itself, or one of a new class. The code
        may read any attribute, so that the container is filled when all objects are."""
        known = self._awaits_keys.get(value)
        if known is None:
            known = value.source is None and any(map(self._is_hashed_late, value.hashed()))
            self._awaits_keys[value] = known
        return known

    def _is_hashed_late(self, key: VariableTracker) -> bool:
        if isinstance(key, (TupleVariable, FrozenSetVariable)):
            return any(map(self._is_hashed_late, key.children()))
        if not isinstance(key, UserObjectVariable) or key.source is not None:
            return False
        if not isinstance(key.python_type().__hash__, types.FunctionType):
            return False
        return key.made_class is not None or self.reaches_itself(key)  # methods of a new class may read the class

    def _is_filled_later(self, container: VariableTracker | None) -> bool:
        if container is None or not self.awaits_keys(container):
            return False
        return container not in self._temporaries or container in self._awaiting_keys

    def _all_are_filled(self, values: Iterable[VariableTracker]) -> bool:
        return not self._unfilled and not self._filling_depth and all(value in self._temporaries for value in values)

    def reaches_itself(self, value: VariableTracker) -> bool:
        """Whether a value contains itself, so that it must be made before it is filled."""
        known = self._cyclic.get(value)
        if known is None:
            known = self._cyclic[value] = self._is_reached(value)
        return known

    def _is_reached(self, start: VariableTracker) -> bool:
        """Whether a value holds itself, directly or through others."""
        seen: set[VariableTracker] = set()
        todo = self.effects.held_by(start)
        while todo:
            value = todo.pop()
            if value is start:
                return True
            if value not in seen and value.source is None:
                seen.add(value)
                todo.extend(self.effects.held_by(value))
        return False

    # -- objects -----------------------------------------------------------------------------------------------------

    def store_attributes(self, value: VariableTracker) -> None:
        """Stores the attributes that the trace stored. A __setattr__ of the class was traced through and must not run again."""
        for name, item in self.effects.attributes(value).items():
            if isinstance(item, Deleted) or self.effects.was_deleted_and_set(value, name):
                self.change_attribute(value, name, None)
            if not isinstance(item, Deleted):
                self.change_attribute(value, name, item)

    def change_attribute(self, value: VariableTracker, name: str, item: VariableTracker | None) -> None:
        """Stores `item`; deletes the attribute if `item` is None."""
        if name == "data" and isinstance(value, TensorVariable) and item is not None:
            self.call_object(assign_data, lambda: self.load(value), lambda: self.load(item))
            self.asm.pop()
            return
        if self._stores_plainly(value):
            if item is not None:
                self.load(item)
            self.load(value)
            self.asm.emit("DELETE_ATTR" if item is None else "STORE_ATTR", name)
            return
        loads: list[Load] = [lambda: self.load(value), lambda: self.asm.load_const(name)]
        if item is not None:
            loads.append(lambda: self.load(item))
        bases: tuple[Any, ...] = (type, threading.local, object)
        base = next(base for base in bases if issubclass(value.python_type(), base))
        self.call_object(base.__delattr__ if item is None else base.__setattr__, *loads)
        self.asm.pop()

    def _stores_plainly(self, value: VariableTracker) -> bool:
        if not isinstance(value, (UserObjectVariable, ClassVariable)):
            return True
        cls = value.python_type()
        return all(lookup(cls, name)[0] in (object, BaseException, type) for name in ("__setattr__", "__delattr__"))

    def store_attributes_of_function(self, value: VariableTracker) -> None:
        if not isinstance(value, (UserObjectVariable, CellVariable)) and self.effects.attributes(value):
            self.store_attributes(value)

    def fill_storage(self, value: UserObjectVariable, base: type) -> None:
        """Fills an instance of a subclass of list, set, deque or dict through the methods of the built-in class."""
        storage = value.storage
        assert storage is not None
        if isinstance(storage, SetVariable):
            storage.repeat_changes(self, lambda: self.load(value))
            return
        if issubclass(base, (list, collections.deque)):
            self.call_object(base.extend, lambda: self.load(value), lambda: self.load(storage))
            self.asm.pop()
            return
        assert isinstance(storage, DictVariable) and issubclass(base, dict)
        for key, item in storage.entries.values():
            self.call_object(base.__setitem__, *[functools.partial(self.load, part) for part in (value, key, item)])
            self.asm.pop()

    def build_generator(self, generator: GeneratorVariable) -> None:
        build_generator(self, generator)

    def build_traceback(self, traceback: TracebackVariable) -> None:
        build_traceback(self, traceback)

    # -- what sources ask for (SourceCodegen) --------------------------------------------------------------------------

    def load_local(self, name: str) -> None:
        self.asm.load_fast(name)

    def load_global(self, name: str) -> None:
        self.asm.load_global(name)

    def load_drawn(self, number: int) -> None:
        self.asm.load_fast(self.random_results[number])

    def load_builtin(self, name: str) -> None:
        """-> the builtin. Not through the globals, where the module may have another object under that name."""
        if name in vars(builtins):
            self.load_object(vars(builtins)[name])
        else:
            self.asm.load_global(name)

    def load_cell_contents(self, name: str) -> None:
        self.asm.load_deref(name)

    def load_closure_cell(self, name: str) -> None:
        self.asm.load_closure(name)

    def load_callable(self, obj: object) -> None:
        self.asm.load_callee(lambda: self.load_object(obj))

    def getitem(self) -> None:
        self.asm.subscript()

    def call(self, nargs: int) -> None:
        self.asm.call(nargs)

    def source(self, source: Source) -> None:
        source.emit(self)
