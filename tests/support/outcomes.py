"""What a call gives, whether it returns or raises, as one value to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Raised(NamedTuple):
    """An exception as it can be compared: two are equal where class and text are."""

    kind: type[Exception]
    text: str


def outcome(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `fn(*args, **kwargs)`, or a `Raised`."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return Raised(type(error), str(error))
