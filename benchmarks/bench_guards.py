"""What pruning guards with z3 costs in a trace, and how many guards are left, beside torch.compile's.

`python -m benchmarks.bench_guards [LAYERS]` traces BERT, GPT2 and Llama (small width, all sizes symbolic), with duck
shaping and without, in turns with torch.compile. CPU time, medians of warm rounds; the first trace of the process, which
imports z3, stands by itself. Exits with 1 if z3 takes more than a tenth of a trace, or if more guards are emitted than
torch emits, or one that the others imply.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.fx.experimental import symbolic_shapes

import tracer
from benchmarks.bench_shapes import BATCH, SEQUENCE, models
from shapes import emission, solver
from shapes.env import ShapeEnv
from tracer import config

ROUNDS = 5
SHARE = 0.1  # of the trace, for z3
SHAPES = [(BATCH, SEQUENCE), (4, 9)]  # none of them a width or a number of heads


class Meter:
    """Seconds spent inside one function, and what it returned last."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.result: Any = None
        self.receiver: Any = None

    @contextlib.contextmanager
    def on(self, owner: Any, name: str) -> Iterator[Meter]:
        original = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            self.receiver = args[0]
            self.result = original(*args, **kwargs)
            self.seconds += time.process_time() - start
            return self.result

        setattr(owner, name, timed)
        try:
            yield self
        finally:
            setattr(owner, name, original)


def inputs(shape: tuple[int, int]) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, 200, shape), "attention_mask": torch.ones(shape, dtype=torch.long)}


def first_call(compiled: Callable[..., Any]) -> float:
    """CPU seconds that the first call takes above the second."""
    args = inputs(SHAPES[0])
    start = time.process_time()
    with torch.no_grad():
        compiled(**args)
        middle = time.process_time()
        compiled(**args)
    return (middle - start) - (time.process_time() - middle)


def own(model: torch.nn.Module) -> dict[str, Any]:
    pruning, emitting = Meter(), Meter()
    with pruning.on(emission.solver, "prune"), emitting.on(ShapeEnv, "produce_guards"):
        seconds = first_call(tracer.compile(model, dynamic=True))
    guards = emitting.result
    return {
        "trace": seconds,
        "z3": pruning.seconds,
        "emission": emitting.seconds,
        "recorded": len(emission.recorded_facts(emitting.receiver)),
        "guards": len(guards),
        "implied": sum(implied([guard.condition for guard in guards])),
        "texts": [guard.readable for guard in guards],
    }


def of_sizes(texts: list[str]) -> list[str]:
    """Without torch's guards on floats of modules, which are not shape guards here."""
    return [text for text in texts if ".size()" in text or ".stride()" in text or "storage_offset" in text]


def implied(conditions: list[Any]) -> Iterator[bool]:
    for index, condition in enumerate(conditions):
        yield solver.implies(conditions[:index] + conditions[index + 1 :], condition) is True


def theirs(model: torch.nn.Module) -> dict[str, Any]:
    torch._dynamo.reset()
    emitting = Meter()
    with emitting.on(symbolic_shapes.ShapeEnv, "produce_guards_verbose"):
        seconds = first_call(torch.compile(model, backend="eager", dynamic=True))
    texts = of_sizes(emitting.result[0].exprs)
    return {"trace": seconds, "guards": len(texts), "texts": texts}


def rows(layers: int) -> list[dict[str, Any]]:
    found = []
    for name, model in models(layers):
        for duck in (True, False):
            with config.patch(duck_shape=duck), torch.fx.experimental._config.patch(use_duck_shape=duck):
                cold, peer = own(model), theirs(model)
                warm = [own(model) for _ in range(ROUNDS)]
            row = {key: statistics.median(run[key] for run in warm) for key in ("trace", "z3", "emission")}
            kept = {key: cold[key] for key in ("recorded", "guards", "implied", "texts")}
            case = {"case": name if duck else f"{name}, no duck shaping", "cold z3": cold["z3"]}
            found.append({**case, **row, **kept, **{f"torch {key}": value for key, value in peer.items()}})
    return found


def holds(row: dict[str, Any]) -> bool:
    return row["z3"] <= SHARE * row["trace"] and row["guards"] <= row["torch guards"] and not row["implied"]


def main(layers: int = 12) -> int:
    table = Table(title=f"Guards of {layers} layers (ms of CPU time)")
    milliseconds = ("trace", "emission", "z3", "cold z3", "torch trace")
    counts = ("recorded", "guards", "torch guards", "implied")
    for column in ("case", *milliseconds, "z3 / trace", *counts):
        table.add_column(column, justify="left" if column == "case" else "right")
    measured = rows(layers)
    for row in measured:
        times = [f"{row[key] * 1e3:.1f}" for key in milliseconds]
        table.add_row(row["case"], *times, f"{row['z3'] / row['trace']:.4f}", *(str(row[key]) for key in counts))
    Console(width=150).print(table)
    if "--texts" in sys.argv:
        for row in measured:
            print(row["case"], "own:", *row["texts"], "torch:", *row["torch texts"], sep="\n  ")
    return 0 if all(map(holds, measured)) else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:] if argument.isdigit())))
