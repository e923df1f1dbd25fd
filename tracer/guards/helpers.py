"""The names that a `check_fn` may use: its `__builtins__`, shared by all of them.

They are bound once, at import, so that a program that replaces `builtins.len` changes nothing here.
"""

from __future__ import annotations

import builtins
import contextvars
import gc
import math
import operator
import weakref
from typing import Any

from tracer import _C
from tracer.guards.constants import same_constant
from tracer.guards.containers import keys_match, ordered_keys_match, set_match, set_order
from tracer.guards.lifetimes import may_run_code
from tracer.guards.tensors import marks_within
from tracer.sources import reading, steps
from tracer.sources.builtin_iterators import items_left

_PLAIN = """
    abs all bool bytes complex dict float frozenset id int len list map max min range round set slice str tuple type
    bytearray object
"""


_UNSET = object()


def _weakref_alive(reference: Any) -> bool:
    if type(reference) is not weakref.ref:
        raise TypeError("not a plain weakref.ref")
    return reference() is not None


def _context_var_is_set(variable: contextvars.ContextVar[Any]) -> bool:
    return variable.get(_UNSET) is not _UNSET


def _has_attr(obj: object, name: str) -> bool:
    try:
        _C.raw_attr(obj, name)
    except AttributeError:
        return False
    return True


def _class_has_attr(cls: type, name: str) -> bool:
    return any(name in reading.type_dict(klass) for klass in reading.type_mro(cls))


HELPERS: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in _PLAIN.split()},
    **steps.HELPERS,
    "math": math,
    "___copysign": math.copysign,
    "___size": reading.size,
    "___items_left": items_left,
    "___is": operator.is_,
    "___contains": _C.has_plain_key,
    "___same_constant": same_constant,
    "___dict_keys": keys_match,
    "___ordered_keys": ordered_keys_match,
    "___set_match": set_match,
    "___set_order": set_order,
    "___weakref_alive": _weakref_alive,
    "___context_var_is_set": _context_var_is_set,
    "___has_attr": _has_attr,
    "___is_tracked": gc.is_tracked,
    "___may_run_code": may_run_code,
    "___class_has_attr": _class_has_attr,
    "___marks_within": marks_within,
    "___type_id": _C.type_id,
    "___distinct": _C.distinct,
    "___distinct_from": _C.distinct_from,
    "___memory_apart": _C.memory_apart,
    "___memory_shared": _C.memory_shared,
}
