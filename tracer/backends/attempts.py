"""How a graph is given to a compiler, and what is tried next where the compiler fails on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer import logs
from tracer.backends.float_inputs import WAYS, WAYS_OF_INTS, FixedFloat, computes_floats, floats_fixed, needs_values_of_floats
from tracer.backends.refusals import is_refusal
from tracer.backends.repeated_blocks import NotInPieces
from tracer.backends.result_gradients import is_about_inplace_changes
from tracer.backends.view_strides import is_about_views, views_may_be_copies

FLAT = "flat"


@dataclasses.dataclass
class Attempt:
    """One way to give a graph to a compiler. `repeated` and `unrolls` as for `outlining.outlined`."""

    repeated: str = FLAT
    unrolls: bool = False
    floats: Callable[..., Any] = WAYS[0]
    checks_each_result: bool = False
    views_are_copies: bool = False
    _more_ways: list[Callable[..., Any]] = dataclasses.field(default_factory=lambda: list(WAYS[1:]))

    def has_next(self, error: Exception, graph: fx.Graph, example_inputs: list[Any]) -> bool:
        """Makes this the next attempt after one that ended with an error. False where none is left and the graph is to run as it
        is written. Raises the error where it is of another kind."""
        if isinstance(error, NotInPieces) and self.repeated != FLAT:
            logs.emit("repeated", f"left whole: {error}")
            self.repeated = FLAT
        elif self.floats is not WAYS[0] and self._more_ways:  # a value of a float was needed, or the compiler has no code for it
            self.floats = self._more_ways.pop(0)
        elif is_about_inplace_changes(error) and not self.checks_each_result:
            self.checks_each_result = True
        elif is_about_views(error) and not self.views_are_copies and views_may_be_copies(graph):
            self.views_are_copies = True
        elif is_refusal(error, graph):
            return False
        elif self.floats is WAYS[0] and any(isinstance(example, torch.SymFloat) for example in example_inputs):
            self.floats = self._more_ways.pop(0)  # the compiler needs the value of one that is known, or has no code for it
            if isinstance(error, FixedFloat):
                self._more_ways[-1] = floats_fixed
        elif self.floats is WAYS[0] and computes_floats(graph, example_inputs):
            self.floats, *self._more_ways = WAYS_OF_INTS
        elif needs_values_of_floats(error):
            return False
        else:
            raise error
        return True
