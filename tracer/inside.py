"""Functions meant for the body of traced programs. Eagerly they do nothing; the tracer knows them by identity."""

from __future__ import annotations


def graph_break(msg: str = "") -> None:
    """Ends the graph here when traced, with `msg` in the log; an error under fullgraph=True. Eagerly: nothing."""


def is_compiling() -> bool:
    """True in code that is being traced, False when it runs eagerly."""
    return False
