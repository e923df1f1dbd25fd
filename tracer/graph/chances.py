"""What is recorded in a graph for a compiler that this one may refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.graph.attempt import AttemptOptions


class Chances:
    """Indices that are read off tensors, and operations that compilers are not given (`operators.kept_from_compilers`), around
    which a graph is cut. If the backend then fails there is a second, careful trace, in which they break the graph."""

    def __init__(self, options: AttemptOptions) -> None:
        self._options = options
        self._taken = False

    def take(self) -> bool:
        """Whether to record such an operation, which is going to happen."""
        if self._options.runs_as_written:
            return True
        self._taken = not self._options.careful
        return self._taken

    @property
    def taken(self) -> bool:
        """Whether the backend may have failed because of one."""
        return self._taken
