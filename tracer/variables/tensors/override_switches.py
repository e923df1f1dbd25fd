"""torch._C.DisableTorchFunctionSubclass() and similar context managers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class OverrideSwitchVariable(VariableTracker):
    """Disables overrides up to `level` while it is entered."""

    def __init__(self, cls: type, level: int) -> None:
        self.cls = cls
        self.level = level
        self._before: int | None = None

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("__enter__", "__exit__"):
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        state = tx.trace.overrides
        if name == "__enter__" and self._before is None:
            tx.output.refuse_on_trial()
            self._before = state.disable(self.level)
            state.switches.append(self)
        elif name == "__exit__" and state.switches and state.switches[-1] is self:
            tx.output.refuse_on_trial()
            assert self._before is not None
            state.restore(self._before)
            self._before = None
            state.switches.pop()
        else:
            unsupported("with-block", value=self.cls.__qualname__)
        return NONE

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.cls)
