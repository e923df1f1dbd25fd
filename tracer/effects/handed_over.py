"""Lists that an operation of the graph keeps, or has made and kept.

The operation has a list of its own while the program knows another one with the same items. The program sees no difference while
it changes neither, and takes no such list out of the frame. Where it does, the graph breaks at the operation instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


class HandedOver:
    """Those of one trace, each with the step of the program that gave it to the graph, or read it there."""

    def __init__(self) -> None:
        self._steps: dict[VariableTracker, tuple[str, int | None]] = {}

    def keep(self, value: VariableTracker, owner: str, step: int | None) -> None:
        """`owner`: the class of what keeps the list; `step`: where to break the graph if that can be seen. Breaks it for a list
        that something else keeps, too: each would get another one."""
        if value in self._steps:
            self._refuse(value, "kept twice")
        self._steps[value] = owner, step

    def __contains__(self, value: VariableTracker) -> bool:
        return value in self._steps

    def refuse_change(self, value: VariableTracker) -> None:
        if value in self._steps:
            self._refuse(value, "changed")

    def refuse_escape(self, value: VariableTracker) -> NoReturn:
        self._refuse(value, "needed outside of the graph")

    def _refuse(self, value: VariableTracker, what: str) -> NoReturn:
        owner, step = self._steps[value]
        unsupported("tensor-subclass", break_step=step, cls=owner, source=f"it holds {value.describe()} that is {what}")
