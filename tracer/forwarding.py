"""Functions of the tracer that only pass their arguments on to a function of the program."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

#  Code of such a function `(first, *args, **kwargs)` -> a function from `first` to the functions whose parameters name the
# arguments.
NAMED_BY: dict[types.CodeType, Callable[[Any], list[types.FunctionType]]] = {}

__all__ = ["NAMED_BY"]
