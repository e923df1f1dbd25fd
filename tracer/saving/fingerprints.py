"""What tells in another process whether a function, a class or a value is what it was: digests of code, and fingerprints; and
how members of enums are found again."""

from __future__ import annotations

import enum
import hashlib
import types
from typing import Any

from tracer.guards.constants import is_guardable_constant
from tracer.sources.reading import field_index, type_dict, type_mro

BUILTIN = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType,
            types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType)  # fmt: skip


class Refused(Exception):
    """An entry uses an object that cannot be found in another process."""


class Differs(Exception):
    """Something that an entry relies on differs from what it was in the process that saved it."""


def digest(code: types.CodeType) -> str:
    """A digest of everything in a code object except the name of its file."""
    return hashlib.sha256(repr(_contents(code)).encode()).hexdigest()[:32]


def _contents(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return (
            value.co_qualname, value.co_code, value.co_flags,
            value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount,
            value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars, value.co_exceptiontable,
            value.co_firstlineno, value.co_linetable, tuple(map(_contents, value.co_consts)),
        )  # fmt: skip
    if isinstance(value, tuple):
        return tuple(map(_contents, value))
    if isinstance(value, frozenset):
        return "frozenset", sorted(map(repr, value))
    return type(value).__name__, repr(value)


def fingerprint_of(value: Any) -> str:
    """A text that is equal for equal objects in two processes: of the code for a function, else of the class."""
    match value:
        case types.FunctionType():
            defaults = [*(value.__defaults__ or ()), *sorted((value.__kwdefaults__ or {}).items())]
            return f"function {digest(value.__code__)} {list(map(fingerprint_of, defaults))}"
        case property():
            return f"property {[fingerprint_of(part) for part in (value.fget, value.fset, value.fdel)]}"
        case staticmethod() | classmethod():
            return f"{type(value).__name__} {fingerprint_of(value.__func__)}"
        case type() if tuple in type_mro(value) and "_field_defaults" in type_dict(value):  # namedtuples are not traced through
            return f"class {value.__module__}.{value.__qualname__} {fingerprint_of(type_dict(value).get('__new__'))}"
        case type():
            return f"class {value.__module__}.{value.__qualname__}"
        case types.DynamicClassAttribute():  # `value` and `name` of enums
            return f"{type(value).__name__} {[fingerprint_of(part) for part in (value.fget, value.fset, value.fdel)]}"
        case enum.Enum():
            return f"member {type(value).__qualname__}.{value._name_} {fingerprint_of(value._value_)}"
    field = field_index(value)
    if field is not None:
        return f"field {field}"
    if type(value) in BUILTIN:
        return f"{type(value).__name__} {value.__qualname__}"
    if type(value) in (tuple, frozenset) and is_guardable_constant(value):
        items = map(fingerprint_of, value)
        return f"{type(value).__name__} {list(items) if type(value) is tuple else sorted(items)}"
    if is_guardable_constant(value):
        return f"{type(value).__name__} {value!r}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def name_with_place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


# -- members of enums -----------------------------------------------------------------------------------------------------


def member_place(member: enum.Enum) -> tuple[type, Any, str]:
    """The class, the name or (of flags that are combined) the number, and the fingerprint of the value. Raises Refused for a
    member that its class has under no name."""
    cls, value = type(member), member._value_
    if type_dict(cls)["_member_map_"].get(member._name_) is member:
        return cls, member._name_, fingerprint_of(value)
    if isinstance(member, enum.Flag) and type(value) is int:
        return cls, value, fingerprint_of(value)
    raise Refused(f"{member._name_!r} of {cls.__qualname__} is not the same object as the member of that name")


def member_at(cls: Any, place: Any, fingerprint: str) -> enum.Enum:
    """The member that `member_place` has described. Raises Differs if there is none, or its value is another one."""
    try:
        found: enum.Enum = cls(place) if type(place) is int else type_dict(cls)["_member_map_"][place]
    except (KeyError, ValueError):
        raise Differs(f"there is no {cls.__qualname__}.{place}") from None
    now = fingerprint_of(found._value_)
    if now != fingerprint:
        raise Differs(f"{cls.__qualname__}.{place} was {fingerprint}, and is {now}")
    return found
