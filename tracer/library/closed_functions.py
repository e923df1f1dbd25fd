"""Closed functions: their result depends on their arguments alone, whatever the program has changed. Their code can reach only
constants, functions that are closed or marked as constant, and modules and classes that nobody changes."""

from __future__ import annotations

import builtins
import dis
import functools
import math
import operator
import re
import types
from typing import TYPE_CHECKING, Any

import torch

from tracer import user_marks
from tracer.guards.constants import is_guardable_constant
from tracer.guards.references import is_class, lasts
from tracer.sources.reading import codes_in
from tracer.variables.functions.python_functions import CellVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_MODULES = (math, operator, re, torch)
_REACH_ALL = frozenset(["globals", "locals", "vars", "eval", "exec", "__import__"])


def is_closed(tx: Tracer, value: Any) -> bool:
    """Whether a value, called or read, gives what it would have given before the trace changed anything."""
    return _Reach(tx).is_closed(value)


class _Reach:
    """A walk over the objects that a value can reach."""

    def __init__(self, tx: Tracer) -> None:
        self.effects = tx.effects
        self.changed = {id(target.identity()) for target in tx.effects.mutated}
        self.cells_changed = any(isinstance(target, CellVariable) for target in tx.effects.mutated)
        self.seen: set[int] = set()

    def is_closed(self, value: Any) -> bool:
        if id(value) in self.changed:
            return False
        if id(value) in self.seen or is_guardable_constant(value) or user_marks.has_constant_result(value):
            return True
        self.seen.add(id(value))
        if isinstance(value, functools._lru_cache_wrapper):
            return all(map(self.is_closed, _attributes(value)))  # these include __wrapped__
        if type(value) is types.FunctionType:
            reached = self._reached(value)
            return reached is not None and all(map(self.is_closed, reached))
        if type(value) is types.BuiltinFunctionType or is_class(value):
            return lasts(value)
        return type(value) is types.ModuleType and value in _MODULES

    def _reached(self, function: types.FunctionType) -> list[Any] | None:
        """The objects that a function's code can reach; None if they may be anything, or the trace has stored one of them."""
        names: set[str] = set()
        for code in codes_in(function.__code__):
            if any(each.opname == "IMPORT_NAME" for each in dis.get_instructions(code)):
                return None
            names.update(code.co_names)
        stored = any(self.effects.global_value(function.__globals__, name) is not None for name in names)
        if stored or names & _REACH_ALL or (function.__closure__ and self.cells_changed):
            return None
        reached = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *_attributes(function)]
        known = {**vars(builtins), **function.__globals__}
        reached += [known[name] for name in names if name in known]
        try:
            return reached + [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:  # an empty cell
            return None


def _attributes(function: Any) -> list[Any]:
    return [value for name, value in vars(function).items() if name != "__annotations__"]
