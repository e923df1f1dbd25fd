"""Compiled functions and what is cached for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tracer


def dynamic(fn: Callable[..., Any], **settings: Any) -> Any:
    """`fn` compiled with every size a symbol."""
    return tracer.compile(fn, dynamic=True, **settings)


def entries(compiled: Any) -> list[Any]:
    """The entries of a decorated function or module, of all its frames."""
    return tracer.region_of(compiled).entries()
