"""Calls, in traced code, of callables that the user has marked to be kept out of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer import user_marks
from tracer.errors import UserError
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def heed_marks(tx: Tracer, called: Any, name: str | None = None) -> None:
    """Breaks the graph if `called` is marked with `disallow_in_graph`. Raises UserError if `forbid_in_graph` marks it."""
    policy = user_marks.graph_policy.get(called)
    if policy == "disallow":
        unsupported("disallowed-in-graph", function=name or name_of(called))
    if policy == "forbid":
        raise UserError(
            f"{name or name_of(called)} is called in traced code, and tracer.forbid_in_graph forbids that",
            hint="call it outside of what is compiled, or let the graph break there: tracer.disallow_in_graph.",
            stack=tx.trace.user_stack(),
        )


def name_of(function: Any) -> str:
    """The name of a function or class, with its module."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{module}.{name}" if module else name
