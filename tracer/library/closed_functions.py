"""Functions whose result depends on their arguments alone, whatever the program has changed: all that their code can reach are
constants, functions of this kind, and modules and classes that nobody changes."""
from __future__ import annotations

import builtins
import dis
import functools
import math
import operator
import re
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer.guards.constants import is_guardable_constant
from tracer.guards.references import is_class, lasts
from tracer.variables.functions import CellVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

_MODULES = (math, operator, re, torch)
_REACH_ALL = frozenset(["globals", "locals", "vars", "eval", "exec", "__import__"])


def is_closed(tx: Tracer, value: Any, known: dict[int, Any] | None = None) -> bool:
    """Whether a value, called or read, gives what it would have given before the trace changed anything."""
    known = {} if known is None else known
    if id(value) in known or is_guardable_constant(value):
        return True
    known[id(value)] = value
    if isinstance(value, functools._lru_cache_wrapper):
        return is_closed(tx, value.__wrapped__, known)
    if type(value) is types.FunctionType:
        return _is_closed_function(tx, value, known)
    if type(value) is types.BuiltinFunctionType or is_class(value):
        return lasts(value)
    return type(value) is types.ModuleType and value in _MODULES


def _is_closed_function(tx: Tracer, function: types.FunctionType, known: dict[int, Any]) -> bool:
    if function.__closure__ and any(isinstance(target, CellVariable) for target in tx.effects.mutated):
        return False
    names: set[str] = set()
    for code in _codes(function.__code__):
        if any(each.opname == "IMPORT_NAME" for each in dis.get_instructions(code)):
            return False
        names.update(code.co_names)
    if names & _REACH_ALL:
        return False
    reached: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for name in names:
        if tx.effects.global_value(function.__globals__, name) is not None:
            return False
        if name in function.__globals__:
            reached.append(function.__globals__[name])
        elif name in vars(builtins):
            reached.append(vars(builtins)[name])
    try:
        reached += [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # an empty cell
        return False
    return all(is_closed(tx, each, known) for each in reached)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
