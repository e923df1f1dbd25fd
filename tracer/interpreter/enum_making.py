"""Making enums: class statements with `enum.EnumMeta` for their metaclass, and `Enum("Color", "RED GREEN")`.

The namespace is filled by the `__setitem__` of the enum module, which is traced through. What is left is to make the members. The
library does that, while tracing for a prototype, and in the output code for the class itself; so it is refused where the
library would run code of the program meanwhile. Members are constants in the trace, those of the prototype.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import lookup
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import type_dict, type_mro
from tracer.variables.classes.class_making import made_enum
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.made_classes import PropertyVariable, StaticMethodVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import FunctionVariable
from tracer.variables.objects.objects import UserObjectVariable

_MEMBER_TYPES = (object, int, float, str, bytes)
_VALUES = (int, float, bool, complex, str, bytes, type(None))
# Methods that the library calls while it makes the class and its members.
_CALLED = (
    "__new__", "__init__", "__init_subclass__", "__setattr__", "__delattr__", "__getattribute__", "__getattr__", "__set_name__",
    "__new_member__",
)  # fmt: skip
# Methods of the metaclass that it may call.
_CALLED_ON_THE_CLASS = ("__prepare__", "__iter__", "__getitem__", "__instancecheck__", "__subclasscheck__", "mro", *_CALLED[3:-2])
Namespace = dict[str, VariableTracker]


def maker(
    tx: Tracer,
    metaclass: ClassVariable,
    name: str,
    bases: list[VariableTracker],
    mapping: Any,
    names: Namespace,
    kwargs: Namespace,
) -> Any:
    """What makes the class of a namespace `names`, copied from `mapping`: a function as `bare_class`. Takes what the library
    would put there by itself out of `names`."""
    boundary = kwargs.pop("boundary").constant()
    if kwargs or not isinstance(mapping, UserObjectVariable):
        refuse(f"An enum with {', '.join(kwargs) or mapping.describe()}")
    _refuse_metaclass(metaclass.value)
    for base in bases:
        _refuse_base(base.identity())
    prepared: Any = enum.EnumMeta.__prepare__(name, tuple([base.identity() for base in bases]))
    given = names.get(_GIVEN)
    if given is not None and getattr(given, "value", None) is prepared.get(_GIVEN):
        del names[_GIVEN]
    members: Any = tx.effects.attribute(mapping, "_member_names")
    if not isinstance(members, DictVariable):
        refuse("An enum with another namespace")
    known = [key.constant() for key, _ in members.pairs(tx)]
    for key, value in names.items():
        _refuse_value(key, value, key in known)
        if value.is_constant() and not _is_special(key):
            prepared[key] = value.constant()
    if list(prepared._member_names) != known:  # `enum.nonmember`, say
        refuse("An enum with names that are no members")
    return made_enum if boundary is None else functools.partial(made_enum, boundary=boundary)


_GIVEN = "_generate_next_value_"


def _refuse_metaclass(metaclass: type) -> None:
    for base in type_mro(metaclass):
        if base is enum.EnumMeta:
            return
        if not type_dict(base).keys().isdisjoint(_CALLED_ON_THE_CLASS):
            refuse(f"An enum whose metaclass {metaclass.__qualname__} has methods that the library calls")


def _refuse_base(base: type) -> None:
    if base in _MEMBER_TYPES:
        return
    if not issubclass(base, enum.Enum):
        refuse(f"An enum that is a {base.__qualname__}")
    for name in _CALLED:
        owner, static = lookup(base, name)
        if getattr(owner, "__module__", None) not in (enum.__name__, "builtins") and static is not enum.Enum.__new__:
            if owner is not None:
                refuse(f"An enum derived from {base.__qualname__}, which has {name},")


def _refuse_value(name: str, value: VariableTracker, is_member: bool) -> None:
    if name in _CALLED:
        refuse(f"An enum with {name}")
    if is_member:
        if not value.is_constant() or not _is_plain(value.constant()):
            refuse(f"An enum with {value.describe()} for a member")
        return
    functions = (FunctionVariable, StaticMethodVariable, PropertyVariable)
    if not (value.is_constant() or isinstance(value, functions) or _is_special(name)):
        refuse(f"An enum with {value.describe()} in it")


def _is_special(name: str) -> bool:
    return name.startswith("_") and name.endswith("_")


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _VALUES


def refuse(what: str) -> Any:
    unsupported("makes-a-class", function=what)
