"""A backend that keeps what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tracer


class Graphs(list[torch.fx.GraphModule]):
    """The graphs that `backend` was given, in order. It runs each as it is."""

    def backend(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.append(gm)
        return gm.forward

    @property
    def operations(self) -> int:
        """How many nodes all graphs have besides inputs, attributes and outputs."""
        inert = ("placeholder", "output", "get_attr")
        return sum(node.op not in inert for gm in self for node in gm.graph.nodes)


def graphs_of(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Graphs]:
    """`fn` compiled, and the graphs that its calls will give."""
    graphs = Graphs()
    return tracer.optimize(graphs.backend)(fn), graphs
