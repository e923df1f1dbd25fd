"""Parts of copy, written so that they can be traced: of objects whose state C writes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any


def copied_partial(x: functools.partial[Any]) -> functools.partial[Any]:
    return functools.partial(x.func, *x.args, **x.keywords)


def deeply_copied_partial(x: functools.partial[Any], memo: dict[int, Any]) -> functools.partial[Any]:
    parts = copy.deepcopy((x.func, x.args, x.keywords), memo)
    return functools.partial(parts[0], *parts[1], **parts[2])


def remembered(x: Any, memo: dict[int, Any], make: Callable[..., Any], *args: Any) -> Any:
    """`make(x, *args)`, once for each object."""
    found = memo.get(id(x), memo)
    if found is memo:
        found = memo[id(x)] = make(x, *args)
    return found
