"""What generated programs call and the tracer does not see into."""

from __future__ import annotations

from typing import Any

import tracer


@tracer.disable
def opaque(value: Any) -> Any:
    """The value itself."""
    return value


@tracer.disable
def noted(log: list[Any], value: Any) -> None:
    """A change of an argument, made where nobody traces."""
    log.append(("noted", value))


@tracer.disable
def calls(function: Any, *args: Any) -> Any:
    """A call back into traced code."""
    return function(*args)
