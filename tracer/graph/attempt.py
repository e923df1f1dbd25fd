"""The options of one attempt to trace a frame."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.errors import TraceAnew


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptOptions:
    """The backend sets the first two options. The others change from one attempt to the next, see `after`."""

    runs_as_written: bool = True  # the backend runs the graph operation by operation
    loops_carry_only_tensors: bool = False
    keeps_branches: bool = True  # both branches of a `torch.cond` on sizes, not only the one that this call takes
    asks_layout: bool = False  # layouts of results are decided by conditions on sizes, not guessed
    holds_leaves: bool = False  # leaves that require gradients are made by the output code
    caches_taken: frozenset[int] = frozenset()  # ids of functions whose cache is not traced through where it has the result
    called_whole: frozenset[int] = frozenset()  # ids of functions a call of which is one node
    replays: bool = True  # a module like one that was traced is not traced again
    careful: bool = False  # what a compiler may refuse breaks the graph, see `graph.chances`
    seeds_inside: bool = False  # states of torch's generator are set and read by operations of the graph
    refuses_wrappers: str = ""  # why operations on wrappers break the graph, though the classes can be taken apart

    def after(self, anew: TraceAnew) -> AttemptOptions:
        """The options of the next attempt, after `anew` has ended this one."""
        functions = anew.takes_cache, anew.calls_whole
        whether = anew.asks_layout, anew.holds_leaves, functions != (None, None), not anew.replays, bool(anew.refuses_wrappers)
        needs_more = any(whether) or anew.careful or anew.seeds_inside
        return dataclasses.replace(
            self,
            keeps_branches=self.keeps_branches and needs_more,
            asks_layout=self.asks_layout or anew.asks_layout,
            replays=self.replays and anew.replays,
            careful=self.careful or anew.careful,
            seeds_inside=(self.seeds_inside or anew.seeds_inside) and not anew.careful,
            refuses_wrappers=self.refuses_wrappers or anew.refuses_wrappers,
            holds_leaves=self.holds_leaves or anew.holds_leaves,
            caches_taken=self.caches_taken if anew.takes_cache is None else self.caches_taken | {anew.takes_cache},
            called_whole=self.called_whole if anew.calls_whole is None else self.called_whole | {anew.calls_whole},
        )
