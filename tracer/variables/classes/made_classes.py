"""Classes that the traced program made by a class statement, and the static methods, class methods and properties in them.

While tracing, each such class is represented by a *prototype*: a real class with the same bases. Its namespace has a function
with the same code for each function, and a placeholder for each value that is not known yet. Attribute lookup can therefore
follow CPython's own rules, but none of the functions run. The output code makes the class again if it is still reachable.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import MISSING, is_data_descriptor, lookup, storage_base
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.reading import is_heap_type
from tracer.variables.classes import given_annotations
from tracer.variables.classes.class_making import apply_steps, bare_class
from tracer.variables.classes.class_parts import part_of, tracked_form
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.type_forms import TypeFormVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.callables import BoundMethodVariable, BuiltinMethodVariable, CallableVariable
from tracer.variables.functions.python_functions import FunctionVariable, NestedFunctionVariable, UserFunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class StaticMethodVariable(VariableTracker):
    """staticmethod(function)"""

    cls: type = staticmethod

    def __init__(self, function: VariableTracker) -> None:
        self.function = function

    def children(self) -> Iterable[VariableTracker]:
        return (self.function,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("__func__", "__wrapped__"):
            return self.function
        return BuiltinMethodVariable(self, name) if name == "__get__" else super().get_attr(tx, name)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return self.function.call(tx, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.cls, lambda: cg.load(self.function))


class ClassMethodVariable(StaticMethodVariable):
    """classmethod(function)"""

    cls = classmethod

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        tx.raise_error(TypeError, "'classmethod' object is not callable")


class PropertyVariable(VariableTracker):
    """property(fget, fset, fdel)"""

    PARTS = {"fget": "getter", "fset": "setter", "fdel": "deleter"}

    def __init__(self, parts: dict[str, VariableTracker]) -> None:
        self.parts = {name: parts.get(name, NONE) for name in self.PARTS}

    def python_type(self) -> type:
        return property

    def children(self) -> Iterable[VariableTracker]:
        return self.parts.values()

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in self.parts:
            return self.parts[name]
        if name in (*self.PARTS.values(), *_ACCESSES):
            return BuiltinMethodVariable(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        part = next((part for part, method in self.PARTS.items() if method == name), None)
        if name in _ACCESSES:
            return _access(tx, self, name, args, kwargs)
        if part is None or kwargs or len(args) != 1:
            return super().call_method(tx, name, args, kwargs)
        return PropertyVariable({**self.parts, part: args[0]})

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(property, *[lambda part=part: cg.load(part) for part in self.parts.values()])


class ExistingPropertyVariable(VariableTracker):
    """A property that existed before the frame ran, read by hand: `Cls.size.fget(obj)`."""

    def __init__(self, value: property, source: Source) -> None:
        self.value = value
        self.source: Source = source

    def python_type(self) -> type:
        return property

    def identity(self) -> Any:
        return self.value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in (*PropertyVariable.PARTS, "__doc__", "__isabstractmethod__"):
            return tx.wrap(getattr(self.value, name), GenericAttrSource(self.source, name))
        if name in _ACCESSES:
            return BuiltinMethodVariable(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        return _access(tx, self, name, args, kwargs) if name in _ACCESSES else super().call_method(tx, name, args, kwargs)


# What reads, sets and deletes through a property by hand: the function it calls, and how many arguments that takes.
_ACCESSES = {"__get__": ("fget", 1), "__set__": ("fset", 2), "__delete__": ("fdel", 1)}


def _access(
    tx: Tracer, self: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """property.__get__ and the like"""
    part, count = _ACCESSES[name]
    function = self.get_attr(tx, part)
    if kwargs or not count <= len(args) <= count + (name == "__get__") or function.is_none() or args[0].is_none():
        unsupported("unsupported-method", value=self.describe(), name=name)
    return function.call(tx, args[:count], {})


class ExistingMethodVariable(VariableTracker):
    """A classmethod or staticmethod that existed before the frame ran, read by hand: `vars(Cls)["make"].__func__`."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source: Source = source

    def python_type(self) -> type:
        return type(self.value)

    def identity(self) -> Any:
        return self.value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("__func__", "__wrapped__"):
            return tx.wrap(self.value.__func__, GenericAttrSource(self.source, "__func__"))
        if name == "__get__":
            return BuiltinMethodVariable(self, name)
        return super().get_attr(tx, name)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        if type(self.value) is not staticmethod:
            tx.raise_error(TypeError, "'classmethod' object is not callable")
        return self.get_attr(tx, "__func__").call(tx, args, kwargs)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name != "__get__" or kwargs or not 1 <= len(args) <= 2:
            return super().call_method(tx, name, args, kwargs)
        function = self.get_attr(tx, "__func__")
        if type(self.value) is staticmethod:
            return function
        if all(arg.is_none() for arg in args):
            unsupported("unsupported-method", value=self.describe(), name=name)
        owner = args[1] if len(args) == 2 and not args[1].is_none() else tx.class_variable(args[0].python_type(), args[0])
        if not isinstance(function, FunctionVariable):  # 3.11 and 3.12 bind another descriptor by its own __get__
            unsupported("unsupported-method", value=self.describe(), name=name)
        return BoundMethodVariable(function, owner)


class Placeholder:
    """Represents, in the namespace of a prototype, a value that is not known while tracing."""


class MadeClassVariable(ClassVariable):
    """A class that the trace made; `value` is its prototype."""

    def __init__(
        self,
        prototype: type,
        metaclass: VariableTracker,
        bases: list[VariableTracker],
        namespace: dict[str, VariableTracker],
        make: Callable[..., type] = bare_class,
    ) -> None:
        super().__init__(prototype)
        self.metaclass = metaclass
        self.bases = bases
        self.namespace = namespace
        self.make = make  # called with metaclass, name, bases and namespace
        # What the standard library did to the finished class, such as a decorator: (function, its arguments after the class).
        self.steps: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.stored: dict[str, VariableTracker | None] = {}  # attributes set after it was made; None if deleted
        self.annotations: VariableTracker | None = None  # what a function gave for them, once it was asked
        self.annotated: dict[str, VariableTracker] = {}  # the same as the first of the steps found it

    def children(self) -> Iterable[VariableTracker]:
        stored = [value for value in self.stored.values() if value is not None]
        asked = () if self.annotations is None else (self.annotations,)
        return (self.metaclass, *self.bases, *self.namespace.values(), *stored, *asked, *self.annotated.values())

    def is_known_to_its_bases(self) -> bool:
        """Whether a base is a class of the program, which could see this class in its `__subclasses__()`."""
        return any(is_heap_type(base) for base in self.value.__bases__)

    def store(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        has_setter = is_data_descriptor(lookup(type(self.value), name)[1]) and name not in _SETTABLE  # on the metaclass
        if name in _FIXED or has_setter or self.changes_stores(name, value):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        stand_in = stand_in_for(tx, name, value)
        tx.effects.mutate(self)
        type.__setattr__(self.value, name, stand_in)
        self.stored[name] = value

    def del_attr(self, tx: Tracer, name: str) -> None:
        if lookup(type(self.value), "__delattr__")[0] is not type or name.startswith("__"):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        if name not in self.value.__dict__:
            tx.raise_error(AttributeError, name)
        tx.effects.mutate(self)
        type.__delattr__(self.value, name)
        self.stored[name] = None

    def given_annotations(self, tx: Tracer, keeps: bool = True) -> VariableTracker | None:
        """`keeps`: puts them into the prototype, as CPython does where the program asks for them."""
        name = given_annotations.annotate_name(self.namespace)
        if name is None or name in self.stored or "__annotate__" in self.stored or "__annotations__" in self.stored:
            return None
        if self.annotations is None:
            function = self.namespace[name]
            if self.make is bare_class:
                self.annotations = found = given_annotations.traced(tx, function)
                if keeps:
                    given_annotations.keep(self.value, _stand_in(tx, found))
            elif given_annotations.reads_cells(function):  # it is called for the class of the output code, later
                unsupported("unsupported-attribute", value=self.describe(), name="__annotations__")
            else:
                forms = self.value.__annotations__
                self.annotations = DictVariable(
                    {key: (ConstantVariable(key), tracked_form(tx, form)) for key, form in forms.items()}
                )
        return self.annotations

    def apply_step(self, tx: Tracer, step: Callable[..., Any], *args: Any) -> None:
        """Applies a step of the standard library to the prototype now, and to the class when the output code makes it."""
        before = dict(self.value.__dict__)
        given_annotations.applied(lambda cls: step(cls, *args), self.value, self.annotation_forms(tx))
        self.steps.append((step, args))
        self.adopt(tx, before)

    def annotation_forms(self, tx: Tracer) -> dict[str, Any] | None:
        """Stand-ins for the annotations that the steps find."""
        return {name: _stand_in(tx, value) for name, value in self.annotated.items()} if self.annotated else None

    def adopt(self, tx: Tracer, before: dict[str, Any]) -> None:
        """Registers tracked forms for the attributes that the standard library has added to the prototype. `before` is the
        prototype's namespace as it was then."""
        for name, value in self.value.__dict__.items():
            if before.get(name, MISSING) is not value and id(value) not in tx.trace.stand_ins:
                tx.trace.stand_ins[id(value)] = (value, part_of(tx, self, name, value))

    def reconstruct(self, cg: ValueCodegen) -> None:
        if not self.steps:
            self._load_made(cg)
            return
        steps = tuple(self.steps)
        loads = [lambda: self._load_made(cg), lambda: cg.load_object(steps)]
        cg.call_object(apply_steps, *loads, *self.load_annotated(cg))

    def load_annotated(self, cg: ValueCodegen) -> list[Callable[[], None]]:
        """What loads the annotations that the steps find, if a function gave them."""
        return [lambda: _load_dict(cg, self.annotated)] if self.annotated else []

    def _load_made(self, cg: ValueCodegen) -> None:
        """Emits the call that makes the class, without the steps that the standard library takes afterwards."""
        cg.call_object(
            self.make,
            lambda: cg.load(self.metaclass),
            lambda: cg.load_const(self.value.__name__),
            lambda: cg.build_sequence("BUILD_TUPLE", self.bases),
            lambda: _load_dict(cg, self.namespace),
        )

    def fill(self, cg: ValueCodegen) -> None:
        """Emits the stores and deletions that the program made on the finished class."""
        for name, value in self.stored.items():
            loads = [functools.partial(cg.load, self), functools.partial(cg.load_const, name)]
            if value is not None:
                loads.append(functools.partial(cg.load, value))
            elif name not in self.namespace:
                continue
            cg.call_object(type.__delattr__ if value is None else type.__setattr__, *loads)
            cg.asm.pop()
        if isinstance(self.annotations, DictVariable) and "__annotations__" not in self.stored:
            cg.call_object(given_annotations.keep, lambda: cg.load(self), functools.partial(cg.load, self.annotations))
            cg.asm.pop()


def _load_dict(cg: ValueCodegen, items: dict[str, VariableTracker]) -> None:
    for name, value in items.items():
        cg.load_const(name)
        cg.load(value)
    cg.asm.emit("BUILD_MAP", len(items))


# Attributes that break the graph when the program stores them on a finished class: CPython keeps them outside of the class's
# dict, or what depends on them was decided when the class was made.
_FIXED = (
    "__slots__", "__class__", "__bases__", "__mro__", "__dict__", "__name__", "__new__", "__init_subclass__", "__set_name__",
    "__del__", "__class_getitem__", "__classcell__", "__weakref__", "__prepare__", "__instancecheck__", "__subclasscheck__",
)  # fmt: skip
_SETTABLE = ("__doc__", "__annotations__", "__abstractmethods__")  # `type` has setters for these; the replayed store calls them


# -- prototypes --------------------------------------------------------------------------------------------------------

_DESCRIPTOR_METHODS = ("__get__", "__set__", "__delete__", "__set_name__")


def stand_in_for(tx: Tracer, name: str, value: VariableTracker) -> Any:
    """The object that represents `value` as attribute `name` in the namespace of a prototype. `trace.stand_ins` leads from it
    back to `value`."""
    if isinstance(value, StaticMethodVariable):
        return value.cls(stand_in_for(tx, name, value.function))
    if isinstance(value, PropertyVariable):
        return property(*(stand_in_for(tx, name, part) for part in value.parts.values()))
    stand_in = _stand_in(tx, value)
    if isinstance(stand_in, Placeholder):
        if any(lookup(value.python_type(), method)[1] is not MISSING for method in _DESCRIPTOR_METHODS):
            unsupported("makes-a-class", function=f"A class statement with {value.describe()} for a descriptor")
        if name.startswith("__") and name not in _MAY_BE_PLACEHOLDER:
            unsupported("makes-a-class", function=f"A class statement with {value.describe()} for {name}")
    tx.trace.stand_ins[id(stand_in)] = (stand_in, value)
    return stand_in


_MAY_BE_PLACEHOLDER = ("__annotations__", "__orig_bases__", "__doc__")  # making the class does not depend on these values


def _stand_in(tx: Tracer, value: VariableTracker) -> Any:
    """The value itself where it is known while tracing; a function with the same code; or a `Placeholder`."""
    if value.is_constant():
        return value.constant()
    if isinstance(value, (ClassVariable, TypeFormVariable)):
        return value.value
    if type(value) is TupleVariable:
        return tuple([_stand_in(tx, item) for item in value.items(tx)])
    if isinstance(value, DictVariable) and value.cls is dict and value.source is None:
        return {key.constant(): _stand_in(tx, item) for key, item in value.pairs(tx) if key.is_constant()}
    if isinstance(value, NestedFunctionVariable):
        cells = tuple([types.CellType() for _ in value.code.co_freevars])
        function: Any = types.FunctionType(value.code, value.globals, value.name, None, cells)
        abstract = tx.effects.attribute(value, "__isabstractmethod__")
        if abstract is not None:
            function.__isabstractmethod__ = abstract.is_constant() and abstract.constant()
        return function
    if isinstance(value, (UserFunctionVariable, CallableVariable)):
        return value.value
    if isinstance(value, UserObjectVariable) and value.value is dataclasses.KW_ONLY:
        return value.value
    if isinstance(value, UserObjectVariable) and value.cls is dataclasses.Field and value.value is None:
        return _field(tx, value)
    if isinstance(value, UserObjectVariable) and value.cls is dataclasses.InitVar and value.value is None:
        return dataclasses.InitVar(_registered(tx, tx.effects.attribute(value, "type")))
    if isinstance(value, UserObjectVariable) and any(
        isinstance(lookup(value.cls, method)[1], types.FunctionType) for method in _DESCRIPTOR_METHODS
    ):
        return _uninitialised(value)
    return Placeholder()


def _field(tx: Tracer, value: UserObjectVariable) -> Any:
    """A `dataclasses.Field` whose parts are stand-ins."""
    taken = [name for name in inspect.signature(dataclasses.Field).parameters if name != "metadata"]  # Python 3.14 adds `doc`
    parts = {name: tx.effects.attribute(value, name) for name in taken}
    if not all(isinstance(part, VariableTracker) for part in parts.values()):
        return Placeholder()
    made: Any = dataclasses.Field(metadata=None, **{name: _field_part(tx, part) for name, part in parts.items()})  # type: ignore[arg-type]  # parts were looked at above
    made.metadata = _registered(tx, tx.effects.attribute(value, "metadata"))
    return made


def _field_part(tx: Tracer, part: VariableTracker) -> Any:
    if part.python_type() is type(dataclasses.MISSING):
        return dataclasses.MISSING
    return _registered(tx, part)


def _registered(tx: Tracer, part: Any) -> Any:
    """The stand-in for a part of a field, from which `trace.stand_ins` leads back to the part."""
    stand_in = _stand_in(tx, part)
    tx.trace.stand_ins[id(stand_in)] = (stand_in, part)
    return stand_in


def _uninitialised(value: UserObjectVariable) -> Any:
    """An uninitialised object of a descriptor's class: lookup only needs to know which descriptor methods it has."""
    if value.storage is not None or lookup(value.cls, "__del__")[1] is not MISSING or storage_base(value.cls) is not object:
        unsupported("makes-a-class", function=f"A class statement with {value.describe()} for a descriptor")
    return object.__new__(value.cls)


def detach_prototype(cls: type) -> None:
    """Removes a prototype from `__subclasses__()` of its bases, where the program would see it while it is alive."""
    try:
        cls.__bases__ = (type("Prototype", (storage_base(cls),), {}),)
    except TypeError:  # CPython refuses bases of a different memory layout
        pass
