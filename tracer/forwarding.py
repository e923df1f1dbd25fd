"""Frames of the tracer's own that stand before a function of the program, and hand on what they are given."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

#: code of a function `(first, *args, **kwargs)` -> given `first`, the functions of the program that name the arguments
NAMED_BY: dict[types.CodeType, Callable[[Any], list[types.FunctionType]]] = {}

__all__ = ["NAMED_BY"]
