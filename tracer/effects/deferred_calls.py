"""Calls that the output code makes after the graph, in the order of the program: warnings and records of loggers, which tell
of the user's line as if they were given from there."""

from __future__ import annotations

import logging
import warnings
from typing import Any, NamedTuple

from tracer.protocol.variable import VariableTracker


class DeferredCall(NamedTuple):
    """`function(*values, *arguments)`: arguments are tracked values that nothing changes meanwhile."""

    function: Any
    values: tuple[Any, ...]
    arguments: tuple[VariableTracker, ...]


def warn(filename: str, line: int, namespace: dict[str, Any], message: str, category: type[Warning]) -> None:
    """warnings.warn in the frame with these globals"""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, namespace.get("__name__") or "<string>", registry)


def list_of_warnings() -> Any:
    """What warnings.catch_warnings(record=True) has given the program: a warning is in it at once."""
    return getattr(warnings._showwarnmsg_impl, "__self__", None)  # type: ignore[attr-defined]  # private in warnings


def ignored_warning(namespace: dict[str, Any]) -> None:
    """What a warning leaves behind that a filter drops."""
    namespace.setdefault("__warningregistry__", {})


def log(filename: str, line: int, function: str, logger: logging.Logger, level: int, message: str, *args: Any) -> None:
    """logger._log at the user's line"""
    logger.handle(logger.makeRecord(logger.name, level, filename, line, message, args, None, function, None, None))
