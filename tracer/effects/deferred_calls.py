"""Calls that the output code makes after the graph, in the program's order: warnings and log records, attributed to the user's
line."""

from __future__ import annotations

import logging
import warnings
from typing import Any, NamedTuple

from tracer.protocol.variable import VariableTracker


class DeferredCall(NamedTuple):
    """`function(*values, *arguments)`. The arguments are tracked values that the rest of the trace does not change."""

    function: Any
    values: tuple[Any, ...]
    arguments: tuple[VariableTracker, ...]


def warn(filename: str, line: int, namespace: dict[str, Any], message: str, category: type[Warning]) -> None:
    """As `warnings.warn`, called at this line in a module with these globals."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, namespace.get("__name__") or "<string>", registry)


def list_of_warnings() -> Any:
    """The list that `warnings.catch_warnings(record=True)` gave the program, if it is active: warnings appear in it at once."""
    return getattr(warnings._showwarnmsg_impl, "__self__", None)  # type: ignore[attr-defined]  # private in warnings


def ignored_warning(namespace: dict[str, Any]) -> None:
    """The side effect of a warning that a filter drops: the module gets a registry."""
    namespace.setdefault("__warningregistry__", {})


Attributes = tuple[tuple[str, Any], ...]


def log(
    filename: str,
    line: int,
    function: str,
    extra: Attributes,
    logger: logging.Logger,
    level: int,
    message: str,
    *args: Any,
) -> None:
    """As `logger._log`, called at the user's line."""
    logger.handle(logger.makeRecord(logger.name, level, filename, line, message, args, None, function, dict(extra), None))
