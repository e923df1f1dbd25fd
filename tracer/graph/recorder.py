"""What the graph of a trace needs from the trace that records it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tracer.graph.compiled_wrappers import Flattens

if TYPE_CHECKING:
    from torch import fx

    from tracer.graph.fakes.wrapper_fakes import WrapperFake
    from tracer.locations import UserLocation
    from tracer.protocol.variable import VariableTracker


class Recorder(Flattens, Protocol):
    """What the graph needs from the trace that records it."""

    def location(self) -> UserLocation | None:
        """The current line of the traced program."""

    def module_stack(self) -> dict[str, tuple[str, type]]:
        """The modules whose code is running, outermost first: name -> (path, class)."""

    def break_step(self) -> int | None:
        """The step at which to break the graph if the current instruction cannot be traced."""

    def check_time(self) -> None:
        """Raises when the trace has taken too long."""

    def wrap_result(self, node: fx.Node, example: Any) -> VariableTracker:
        """The tracked form of what a node gives."""

    def hold_leaf(self, leaf: VariableTracker) -> None:
        """Has the output code make a leaf whose gradient would be lost if the graph made it."""

    def dispatched(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], met: list[WrapperFake]) -> Any:
        """The result of the program's `__torch_dispatch__` that torch's dispatcher would call for `func`. It is traced."""
