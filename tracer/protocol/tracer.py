"""What variables and library models see of the running frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from tracer.effects.log import Effects
    from tracer.graph.output_graph import OutputGraph
    from tracer.guards import Guard
    from tracer.protocol.variable import VariableTracker
    from tracer.sources import Source


class Tracer(Protocol):
    output: OutputGraph
    effects: Effects
    trace: Any  # what all frames of one trace share

    def wrap(self, value: Any, source: Source) -> VariableTracker:
        """The tracked form of a value that existed before the frame ran, with the guards that it relies on."""

    def guard(self, guard: Guard) -> None: ...

    def new_exception(self, cls: type[BaseException], *args: VariableTracker) -> Any: ...

    def raise_error(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raises `cls(*args)` in the traced program."""

    def inline(
        self,
        function: Any,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
        direct: bool = False,
    ) -> VariableTracker:
        """Traces through a call of a Python function. `direct`: the call instruction only pushes its result."""

    def __getattr__(self, name: str) -> Any:
        """Everything else that `interpreter.operations.Operations` offers; listing it here twice would keep nobody safe."""
