"""What is recorded in a graph for a compiler that this one may refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.graph.attempt import AttemptOptions


class Chances:
    """Indices that are read off tensors, and operations that compilers are not given: the functions in
    `operators.kept_from_compilers`, and what works on sparse tensors. The graph is cut around these. If the backend then fails
    there is a second, careful trace, in which they break the graph."""

    def __init__(self, options: AttemptOptions) -> None:
        self._options = options
        self.taken = False  # whether the backend may fail because of one
        self.met_sparse = False

    def take(self) -> bool:
        """Whether to record such an operation, which is going to happen."""
        if self._options.runs_as_written:
            return True
        self.taken = not self._options.careful
        return self.taken

    def take_sparse(self) -> bool:
        """As `take`, for operations on a sparse tensor that exists before the trace."""
        taken = self.take()
        self.met_sparse |= taken
        return taken
