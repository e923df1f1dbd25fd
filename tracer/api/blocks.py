"""Settings for a block of code, also inside traced functions, which are traced through what stands here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracer import config


class SettingsOfBlock:
    """A context manager and decorator: within, these settings of `tracer.config` hold, for the running thread. Inside a traced
    function they hold for the trace of what stands in the block."""

    def __init__(self, changes: dict[str, Any]) -> None:
        self.changes = tuple(changes.items())

    def __enter__(self) -> None:
        for name, value in self.changes:
            config.begin_setting(name, value)

    def __exit__(self, *exc_info: object) -> None:
        for _ in self.changes:
            config.end_setting()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inner


def error_on_graph_break(error_on_graph_break: bool) -> SettingsOfBlock:
    """A graph break in the block is an error, or is none, as with `config.error_on_graph_break`."""
    return SettingsOfBlock({"error_on_graph_break": error_on_graph_break})


def no_settings(fn: Any = None) -> Any:
    """A block or decorator without effect."""
    nothing = SettingsOfBlock({})
    return nothing if fn is None else nothing(fn)
