"""`@dataclass` of a class that the trace made: the library processes the prototype while tracing, and the class itself in the
output code. No code of the program may run in it: no descriptor, no `__repr__` of a default."""

from __future__ import annotations

import abc
import dataclasses
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import has_from_python, lookup
from tracer.protocol.models import models
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.classes.class_parts import part_of
from tracer.variables.classes.given_annotations import applied, mentions
from tracer.variables.classes.made_classes import MadeClassVariable, Placeholder
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker
Options = tuple[tuple[str, Any], ...]


@models(dataclasses.dataclass)
def _dataclass(tx: Tracer, cls: Value | None = None, /, **options: Value) -> Value:
    if not all(value.is_constant() for value in options.values()):
        _refuse("dataclass with options that are not constants")
    plain = tuple([(name, value.constant()) for name, value in options.items()])
    return DataclassDecorator(plain) if cls is None or cls.is_none() else _decorate(tx, cls, plain)


class DataclassDecorator(VariableTracker):
    """dataclass(**options)"""

    def __init__(self, options: Options) -> None:
        self.options = options

    def python_type(self) -> type:
        return types.FunctionType

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            unsupported("call-arguments", error="dataclass()() takes a class")
        return _decorate(tx, args[0], self.options)


class SlottedDataclassVariable(MadeClassVariable):
    """The new class that `dataclass(slots=True)` makes from the class `of`."""

    def __init__(self, made: type, of: MadeClassVariable, options: Options) -> None:
        super().__init__(made, of.metaclass, of.bases, of.namespace)
        self.of = of
        self.options = options

    def children(self) -> Iterable[VariableTracker]:
        return (self.of, *super().children())

    def _load_made(self, cg: ValueCodegen) -> None:
        loads = [lambda: cg.load(self.of), lambda: cg.load_object(self.options)]
        cg.call_object(apply, *loads, *self.of.load_annotated(cg))


def apply(cls: type, options: Options, annotations: dict[str, Any] | None = None) -> type:
    """Runs the decorator, on the prototype while tracing and on the class in output code."""
    made: type = applied(dataclasses.dataclass(**dict(options)), cls, annotations)
    return made


def _stay_abstract(cls: Any, names: frozenset[str]) -> None:
    cls.__abstractmethods__ = names


def _decorate(tx: Tracer, cls: Value, options: Options) -> Value:
    """dataclasses.dataclass(**options)(cls), of a class that the trace made."""
    if not isinstance(cls, MadeClassVariable):
        _refuse("dataclass of a class that was made before the traced call")
    _refuse_code_of_the_program(tx, cls, dict(options))
    fields = [value for value in cls.namespace.values() if _is_field(value)]
    prototype: Any = cls.value
    try:
        if dict(options).get("slots"):
            slotted = apply(prototype, options, cls.annotation_forms(tx))
            made: MadeClassVariable = SlottedDataclassVariable(slotted, cls, options)
            made.annotations = cls.annotations  # both classes have one dict
            tx.trace.findings.made[id(slotted)] = slotted
            tx.trace.builder.remember(slotted, made)
            for name, value in vars(slotted).items():
                if id(value) not in tx.trace.stand_ins:
                    tx.trace.stand_ins[id(value)] = (value, part_of(tx, made, name, value))
        else:
            made = cls
            cls.apply_step(tx, apply, options)
    except Exception as error:
        unsupported("makes-a-class", cause=error, function=f"dataclass, which fails ({error}),")
    if type(prototype) is abc.ABCMeta:
        made.apply_step(tx, _stay_abstract, made.value.__dict__["__abstractmethods__"])
    for field in fields:
        field.__class__ = DoneFieldVariable
    return made


class DoneFieldVariable(UserObjectVariable):
    """The result of `field()` after the library has written to it. Only the output code has what was written."""

    def find_attr(self, tx: Tracer, name: str) -> VariableTracker | None:
        unsupported("unsupported-attribute", value=self.describe(), name=name)


def _is_field(value: Value) -> bool:
    return isinstance(value, UserObjectVariable) and value.cls is dataclasses.Field


def _refuse_code_of_the_program(tx: Tracer, cls: MadeClassVariable, options: dict[str, Any]) -> None:
    prototype = cls.value
    slots = options.get("slots")
    if type(prototype) not in (type, abc.ABCMeta):
        _refuse("dataclass of a class with a metaclass")
    if cls.stored:
        _refuse("dataclass of a class whose attributes have been set since the class statement")
    if slots and (cls.steps or lookup(prototype, "__init_subclass__", prototype)[0] is not object):
        _refuse("dataclass with slots of a class with such a base")
    own_init = "__init__" in cls.namespace or not options.get("init", True)
    if "__doc__" not in cls.namespace and (own_init or lookup(prototype, "__new__")[0] is not object):
        _refuse("dataclass without a docstring of a class with an __init__ or a __new__ of its own")
    for name, value in cls.namespace.items():
        defaults = [value]
        if _is_field(value):
            parts = [tx.effects.attribute(value, part) for part in ("default", "default_factory")]
            defaults = [part for part in parts if part is not None]
        elif slots and _has_python(value, "__set_name__"):
            _refuse(f"dataclass with {value.describe()} in it")
        for default in defaults:
            _refuse_default(name, default)
    _find_annotations(tx, cls)


def _find_annotations(tx: Tracer, cls: MadeClassVariable) -> None:
    """Has them where the library looks for them, of the prototype and of the class that the output code makes."""
    try:
        given = cls.given_annotations(tx, keeps=False)
    except ObservedException:  # the library takes what it can of these
        _refuse("dataclass with annotations that raise")
    if isinstance(given, DictVariable):
        cls.annotated = {key.constant(): value for key, value in given.pairs(tx)}
    forms = cls.annotation_forms(tx) or cls.value.__dict__.get("__annotations__", {})
    if any(isinstance(form, Placeholder) or mentions(form, cls.value) for form in forms.values()):
        _refuse("dataclass with an annotation that is not known while tracing")


def _refuse_default(name: str, value: Value) -> None:
    if _has_python(value, "__get__"):
        _refuse(f"dataclass with a descriptor for {name}")
    if not name.startswith("__") and lookup(value.python_type(), "__hash__")[1] is None:
        _refuse(f"dataclass with {value.describe()} for {name}")
    if isinstance(value, (UserObjectVariable, ConstantVariable)) and _has_python(value, "__repr__", "__class__"):
        if not (isinstance(value, UserObjectVariable) and value.cls.__module__ == dataclasses.__name__):
            _refuse(f"dataclass with {value.describe()} for {name}, which has a __repr__,")


def _has_python(value: Value, *names: str) -> bool:
    """Whether the class of a value has one of these methods written in Python."""
    return any(has_from_python(value.python_type(), name) for name in names)


def _refuse(what: str) -> NoReturn:
    unsupported("makes-a-class", function=what)
