"""What one attempt to trace a frame may do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.errors import TraceAnew


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptOptions:
    """The first two are the backend's wishes; the others change from one attempt to the next, as `after` says."""

    runs_as_written: bool = True  # the backend runs the graph operation by operation
    loops_carry_only_tensors: bool = False
    keeps_branches: bool = True  # of a `torch.cond` on sizes, both; otherwise the one that this call takes
    asks_layout: bool = False  # sizes are asked how a result lies in memory, which few programs look at
    holds_leaves: bool = False  # leaves that require gradients are made by the output code

    def after(self, anew: TraceAnew) -> AttemptOptions:
        """Those of the attempt that follows one which `anew` has ended."""
        needs_more = anew.asks_layout or anew.holds_leaves
        return dataclasses.replace(
            self,
            keeps_branches=self.keeps_branches and needs_more,
            asks_layout=self.asks_layout or anew.asks_layout,
            holds_leaves=self.holds_leaves or anew.holds_leaves,
        )
