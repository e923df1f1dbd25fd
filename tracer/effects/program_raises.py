"""Where the program itself raises if data say so. The graph tests there that they do not.

If they do, the graph fails, the inputs that it has written to are restored, and CPython runs the program from its start, which
then raises the exception that it names. Inputs that cannot be restored are reasons to break the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.effects import rollback

if TYPE_CHECKING:
    from tracer.graph.output_graph import OutputGraph


class ProgramRaises:
    """The places in one trace, and the inputs to restore at them."""

    def __init__(self, output: OutputGraph) -> None:
        self._output = output
        self._first: int | None = None
        self._written: frozenset[int] = frozenset()  # storages that were written to before one of the places

    def can_be_tested(self) -> bool:
        """Whether the graph may raise at this place, for all that it has written to so far."""
        written = self._output.world.fake_mode.written_storages
        inputs = self._output.inputs.values() if written else ()
        return rollback.can_restore([item.real for item in inputs if item.storage in written])

    def note(self, step: int) -> None:
        """The graph raises here. `step` is that of the instruction that decides about it."""
        self._first = step if self._first is None else self._first
        self._written = frozenset(self._output.world.fake_mode.written_storages)

    def step_to_break_at(self) -> int | None:
        """That of the first place, where the graph has to break for what a compiled graph may have written to by then: a compiler
        knows no order between a test and a write."""
        if self._first is None or self._output.runs_as_written or self.can_be_tested():
            return None
        return self._first

    def restores(self, storage: int | None) -> bool:
        """Whether an input with this storage, which the graph writes to, has to be restored."""
        return storage in self._written or self._first is not None and not self._output.runs_as_written
