"""`explain(fn)(*args)`: what the tracer makes of one call, as an object that prints as a report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch

from tracer.api.callables import compiled, original_of
from tracer.api.settings import Settings
from tracer.exc import Unsupported


@dataclasses.dataclass
class ExplainOutput:
    """The graphs of one call, why each ended, what its entries depend on."""

    graphs: list[torch.fx.GraphModule]
    break_reasons: list[Unsupported]
    out_guards: list[Any]
    compile_times: list[float]  # seconds that each graph's frame took to trace
    result: Any = dataclasses.field(repr=False, default=None)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        """The functions and methods that each graph calls, in order."""
        return [
            [node.target for node in gm.graph.nodes if node.op not in ("placeholder", "output", "get_attr")]
            for gm in self.graphs
        ]

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    def __str__(self) -> str:
        lines = [
            f"Graphs: {self.graph_count}, graph breaks: {self.graph_break_count}, operations: {self.op_count},"
            f" guards: {len(self.out_guards)}"
        ]
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"Graph {number}: {', '.join(map(_op_name, ops)) or 'no operation'}")
        for number, reason in enumerate(self.break_reasons, 1):
            lines.append(f"Break {number}: {_indented(str(reason))}")
        if self.out_guards:
            lines.append("Guards:")
            lines += [f"  {guard}" for guard in self.out_guards]
        return "\n".join(lines)


def explain(fn: Callable[..., Any]) -> Callable[..., ExplainOutput]:
    """A function that takes fn's arguments, runs it once in a region of its own, and returns an `ExplainOutput`."""

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        output = ExplainOutput([], [], [], [])

        def keep(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            output.graphs.append(gm)
            return gm.forward

        hooks: dict[str, Callable[..., Any]] = {
            "on_break": output.break_reasons.append,
            "on_guards": lambda manager: output.out_guards.extend(manager.guards),
        }
        settings = Settings(backend=keep, name="explain", hooks=hooks)
        start = time.perf_counter()
        output.result = compiled(original_of(fn), settings)(*args, **kwargs)
        output.compile_times.append(time.perf_counter() - start)
        return output

    return explained


def _op_name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
