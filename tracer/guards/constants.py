"""Plain values: which they are, and when two are the same, in exact type and value, nan and -0.0 included."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import time
import types
from collections.abc import Callable
from typing import Any

import torch

from tracer.guards.base import CheckScope, type_check
from tracer.guards.references import ObjectRef
from tracer.sources.reading import type_mro

SINGLETONS = (
    type(None),
    bool,
    type(...),
    type(NotImplemented),
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch.qscheme,
)
_SCALARS = (int, float, complex, str, bytes, torch.device)


def _native_enums() -> tuple[type, ...]:
    """The enums that torch's bindings define. They are no `enum.Enum`: a member may be several objects, which are equal."""
    spaces = (torch._C, *(each for each in vars(torch._C).values() if isinstance(each, types.ModuleType)))
    values = [value for space in spaces if space.__name__.startswith("torch._C") for value in vars(space).values()]
    made = [value for value in values if isinstance(value, type) and isinstance(value, type(torch._C.DispatchKey))]
    return tuple(dict.fromkeys(value for value in made if "__members__" in vars(value)))


NATIVE_ENUMS = _native_enums()
LIBRARY_VALUES = (
    datetime.date,
    datetime.time,
    datetime.datetime,
    datetime.timedelta,
    datetime.timezone,
    time.struct_time,
    type(datetime.date.min.isocalendar()),
    decimal.Decimal,
    *NATIVE_ENUMS,
)
_SEQUENCES = (tuple, torch.Size, frozenset)
_LONGEST_LITERAL = 200
_MOST_INLINE_LEAVES = 8


def is_enum_member(value: object) -> bool:
    return enum.Enum in type_mro(type(value))


def is_guardable_constant(value: object) -> bool:
    """Whether `EqualsMatch` can hold it: comparing it never runs user code."""
    cls = type(value)
    if cls in SINGLETONS or cls in _SCALARS or is_enum_member(value):
        return True
    if cls in _SEQUENCES:
        return all(is_guardable_constant(item) for item in value)  # type: ignore[attr-defined]  # a sequence
    if cls is slice:
        return all(is_guardable_constant(part) for part in _slice_parts(value))
    if cls in LIBRARY_VALUES:  # a time zone may be an object of the program
        return all(type(part) in _PARTS_OF_VALUES for part in _value_parts(value))
    return cls is range


def same_constant(seen: Any, expected: Any) -> bool:
    """Whether two plain values have the same exact type and value; `expected` is a guardable constant."""
    cls = type(expected)
    if type(seen) is not cls:
        return False
    if seen is expected:
        return True
    if cls is float:
        return _same_float(seen, expected)
    if cls is complex:
        return _same_float(seen.real, expected.real) and _same_float(seen.imag, expected.imag)
    if cls in (tuple, torch.Size):
        return len(seen) == len(expected) and all(map(same_constant, seen, expected))
    if cls is frozenset:
        return _same_frozenset(seen, expected)
    if cls is slice:
        return all(map(same_constant, _slice_parts(seen), _slice_parts(expected)))
    if cls is range:
        return (seen.start, seen.stop, seen.step) == (expected.start, expected.stop, expected.step)
    if cls in _SCALARS:
        return bool(seen == expected)
    if cls in LIBRARY_VALUES:
        parts, wanted = _value_parts(seen), _value_parts(expected)
        return len(parts) == len(wanted) and all(map(same_constant, parts, wanted))
    return False  # singletons and enum members: identity was tried above


def _same_float(a: float, b: float) -> bool:
    return (a == b or (a != a and b != b)) and math.copysign(1.0, a) == math.copysign(1.0, b)


def _same_frozenset(seen: frozenset[Any], expected: frozenset[Any]) -> bool:
    """Compares only members of plain types, so that no `__eq__` of the user runs."""
    if len(seen) != len(expected) or not all(map(is_guardable_constant, seen)):
        return False
    return all(any(same_constant(a, b) for b in seen) for a in expected)


def _slice_parts(value: Any) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step


_PARTS_OF_VALUES = (int, bytes, str, type(None), datetime.timedelta, datetime.timezone)


def _value_parts(value: Any) -> tuple[Any, ...]:
    """The parts that make up a value. Equal times may still differ in their time zones, equal decimals in their digits."""
    match value:
        case datetime.timedelta():
            return value.days, value.seconds, value.microseconds
        case datetime.timezone():
            given: tuple[Any, ...] = value.__getinitargs__()  # type: ignore[attr-defined]  # has one, by its class
            return given
        case time.struct_time():
            return *value, value.tm_zone, value.tm_gmtoff
        case tuple():
            return tuple(value)
        case decimal.Decimal():
            sign, digits, exponent = value.as_tuple()
            return sign, "".join(map(str, digits)), str(exponent)
    if type(value) in NATIVE_ENUMS:
        return (int(value),)
    found: tuple[Any, ...] = value.__reduce_ex__(4)[1]
    return found


def constant_key(value: Any) -> Any:
    """A hashable stand-in that is equal exactly for the same type and value."""
    cls = type(value)
    if cls is float:
        return cls, "nan" if value != value else (value, math.copysign(1.0, value))
    if cls is complex:
        return cls, constant_key(value.real), constant_key(value.imag)
    if cls in (tuple, torch.Size):
        return cls, *map(constant_key, value)
    if cls is frozenset:
        return cls, frozenset(map(constant_key, value))
    if cls is slice:
        return cls, *map(constant_key, _slice_parts(value))
    if cls is range:
        return cls, value.start, value.stop, value.step
    if cls in LIBRARY_VALUES:
        return cls, *map(constant_key, _value_parts(value))
    return (cls, value) if cls in _SCALARS or cls in SINGLETONS else (cls, id(value))


# --------------------------------------------------------------------------------------------- the check


def equality(expr: str, value: Any, code: CheckScope, known_type: type | None = None) -> str:
    """The expression that says that `expr` has exactly this type and value."""
    cls = type(value)
    if cls in SINGLETONS:
        return f"{expr} is {_singleton_text(value, code)}"
    if is_enum_member(value):
        reference = ObjectRef(value)
        return f"{expr} is {code.const(value, 'member')}" if reference.bound else f"id({expr}) == {reference.id}"
    if not _inline(value):
        return f"___same_constant({expr}, {code.const(value, 'value')})"
    tests = [] if known_type is cls else [type_check(expr, cls, code)]
    tests += _VALUE_TESTS[cls](expr, value, code)
    return " and ".join(tests)


def _inline(value: Any) -> bool:
    """Whether the comparison is printed as an expression, which is easier to read than a call of a helper."""
    if type(value) is tuple:
        return _leaves(value) <= _MOST_INLINE_LEAVES and all(
            _inline(item) or type(item) in SINGLETONS or is_enum_member(item) for item in value
        )
    return type(value) in _VALUE_TESTS


def _leaves(value: Any) -> int:
    return sum(map(_leaves, value)) if type(value) is tuple else 1


def _singleton_text(value: Any, code: CheckScope) -> str:
    if value is None or type(value) is bool:
        return repr(value)
    return code.const(value, str(value).replace("torch.", ""))


def _test_literal(expr: str, value: Any, code: CheckScope) -> list[str]:
    text = repr(value)
    return [f"{expr} == {text if len(text) <= _LONGEST_LITERAL else code.const(value, 'value')}"]


def _test_float(expr: str, value: float, code: CheckScope) -> list[str]:
    sign = f"___copysign(1.0, {expr}) == {math.copysign(1.0, value)}"
    if value != value:
        return [f"{expr} != {expr}", sign]
    if value == 0.0:
        return [f"{expr} == 0.0", sign]
    return [f"{expr} == {value!r}" if math.isfinite(value) else f"{expr} == {code.const(value, 'inf')}"]


def _test_tuple(expr: str, value: tuple[Any, ...], code: CheckScope) -> list[str]:
    tests = [f"len({expr}) == {len(value)}"]
    return tests + [equality(f"{expr}[{i}]", item, code) for i, item in enumerate(value)]


def _test_range(expr: str, value: range, code: CheckScope) -> list[str]:
    return [f"({expr}.start, {expr}.stop, {expr}.step) == ({value.start}, {value.stop}, {value.step})"]


def _test_device(expr: str, value: torch.device, code: CheckScope) -> list[str]:
    return [f"{expr} == {code.const(value, 'device')}"]


_VALUE_TESTS: dict[type, Callable[[str, Any, CheckScope], list[str]]] = {
    int: _test_literal,
    str: _test_literal,
    bytes: _test_literal,
    float: _test_float,
    tuple: _test_tuple,
    range: _test_range,
    torch.device: _test_device,
}
