"""`make demo`: BERT and Llama, decorated, serve requests of many shapes; what was captured, how right, how fast.

    python -m benchmarks.demo [--quick] [--seeds N] [--requests N] [--layers N] [--models bert llama] [--no-mask]

Each model serves once more as `torch.compile` decorates it while the tracer is installed.
Every request also runs eagerly and is compared bit by bit. The exit status says whether everything held that is
promised: one graph per entry, no graph break, at most 4 entries, no recompile once both dims have varied and a batch
of one has come, results and random state equal to eager's.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import tracer
from benchmarks import demo_report
from benchmarks.demo_models import MODELS, Request, build, stream
from benchmarks.side_by_side import first_call, medians

MAX_ENTRIES = 4


@dataclasses.dataclass
class Capture:
    """One entry that was made: at which request, why, and what it holds."""

    request: int
    shape: Request
    reason: str
    operations: int
    seconds: float


@dataclasses.dataclass
class Serving:
    """What one stream of requests did to one decorated model."""

    model: str
    seed: int
    requests: list[Request]
    captures: list[Capture] = dataclasses.field(default_factory=list)
    entries: int = 0
    breaks: int = 0
    largest_difference: float = 0.0
    bitwise: bool = True
    random_state_equal: bool = True
    warnings: list[str] = dataclasses.field(default_factory=list)
    check_fn: str = ""

    @property
    def settled(self) -> int:
        """The request after which no recompile is due: both dims have varied and a batch of one has come."""
        batches, lengths, all_lengths, single = set(), set(), set(), False
        for index, request in enumerate(self.requests):
            all_lengths.add(request.length)
            if request.batch == 1:
                single |= len(all_lengths) > 1
            else:
                batches.add(request.batch)
                lengths.add(request.length)
            if single and len(batches) > 1 and len(lengths) > 1:
                return index
        return len(self.requests)

    def promises(self) -> dict[str, bool]:
        """What must hold, and whether it does."""
        return {
            "one graph per entry": len(self.captures) == self.entries > 0,
            "no graph break": self.breaks == 0,
            "no warning": not self.warnings,
            f"at most {MAX_ENTRIES} entries": self.entries <= MAX_ENTRIES,
            "no recompile once settled": all(capture.request <= self.settled for capture in self.captures),
            "bitwise equal to eager": self.bitwise,
            "random state equal": self.random_state_equal,
        }


class Recorder:
    """A backend that runs graphs as they are and remembers the latest, and the hook that says why a recompile came."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.reason = "first call"

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward

    def guard_failed(self, failure: Any) -> None:
        self.reason = str(failure)


def by_optimize(model: torch.nn.Module, recorder: Recorder) -> Any:
    return tracer.optimize(recorder, guard_fail_fn=recorder.guard_failed)(model)


def by_torch_compile(model: torch.nn.Module, recorder: Recorder) -> Any:
    """As a program decorates that knows torch.compile alone."""
    with tracer.install():
        return torch.compile(model, backend=recorder)


def serve(
    name: str,
    model: torch.nn.Module,
    seed: int,
    requests: list[Request],
    masked: bool,
    advance: Callable[[], None],
    decorate: Callable[[torch.nn.Module, Recorder], Any] = by_optimize,
) -> Serving:
    """Sends the requests to a freshly decorated model, each beside its eager run."""
    recorder, serving = Recorder(), Serving(name, seed, requests)
    decorated = decorate(model, recorder)
    breaks_before = sum(tracer.counters["graph_break"].values())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for index, request in enumerate(requests):
            known = len(recorder.graphs)
            seconds = _beside_eager(serving, model, decorated, request.inputs(masked))
            serving.captures += [
                Capture(index, request, recorder.reason, _operations(gm), seconds) for gm in recorder.graphs[known:]
            ]
            advance()
    serving.warnings = [str(warning.message) for warning in caught]
    state = tracer.region_of(decorated)
    entries = state.entries() if state is not None else []
    serving.entries = len(entries)
    serving.breaks = sum(tracer.counters["graph_break"].values()) - breaks_before
    serving.check_fn = _newest_check_fn(entries, recorder.graphs)
    return serving


def _beside_eager(serving: Serving, model: Any, decorated: Any, inputs: dict[str, torch.Tensor]) -> float:
    """Runs a request both ways from the same random state, compares, and returns the seconds of the decorated call."""
    random_state = torch.get_rng_state()
    expected = model(**inputs)
    random_after = torch.get_rng_state()
    torch.set_rng_state(random_state)
    start = time.perf_counter()
    result = decorated(**inputs)
    seconds = time.perf_counter() - start
    serving.random_state_equal &= torch.equal(torch.get_rng_state(), random_after)
    _compare(serving, expected, result)
    return seconds


def _compare(serving: Serving, expected: Any, result: Any) -> None:
    tensors = {key: value for key, value in expected.items() if isinstance(value, torch.Tensor)}
    for key, value in tensors.items():
        same = torch.equal(value, result[key])
        serving.bitwise &= same
        if not same:
            difference = float((value - result[key]).abs().max()) if value.shape == result[key].shape else math.inf
            serving.largest_difference = max(serving.largest_difference, difference)


def _operations(gm: torch.fx.GraphModule) -> int:
    return sum(node.op not in ("placeholder", "output", "get_attr") for node in gm.graph.nodes)


def _newest_check_fn(entries: list[Any], graphs: list[torch.fx.GraphModule]) -> str:
    newest = graphs[-1] if graphs else None
    for entry in entries:
        if entry.guarded_code.graph is newest:
            return entry.guarded_code.guards_text
    return entries[0].guarded_code.guards_text if entries else ""


# -- timing --------------------------------------------------------------------------------------------------------


def torch_compile(target: Any) -> Any:
    """The peer, with the backend that compiles nothing."""
    return torch.compile(target, backend="eager")


def time_calls(model: torch.nn.Module, requests: list[Request], masked: bool, rounds: int) -> list[dict[str, Any]]:
    """Medians per shape, of warm calls: eager, this tracer, torch.compile; the three take turns."""
    ours, theirs = tracer.compile(model), torch_compile(model)
    rows = []
    for request in requests:  # every entry is made before anything is measured
        ours(**request.inputs(masked)), theirs(**request.inputs(masked))
    for request in requests:
        inputs = request.inputs(masked)
        variants = {"eager": model, "ours": ours, "torch": theirs}
        calls = {key: (lambda call=call, inputs=inputs: call(**inputs)) for key, call in variants.items()}
        rows.append({"shape": str(request), **medians(calls, rounds)})
    torch.compiler.reset()
    return rows


def time_traces(model: torch.nn.Module, masked: bool) -> list[dict[str, Any]]:
    """Seconds to trace at the first call (static) and at the recompile where both dims have changed (dynamic)."""
    shapes = {"static": Request(4, 64, 1), "dynamic": Request(6, 48, 2)}
    rows: list[dict[str, Any]] = [{"trace": kind} for kind in shapes]
    for key, decorate in (("ours", tracer.compile), ("torch", torch_compile)):
        tracer.reset()  # a twin would hand over what it has
        _clear_fake_tensor_cache()
        decorated = decorate(model)
        for row, request in zip(rows, shapes.values(), strict=True):
            inputs = request.inputs(masked)
            row[key] = first_call(lambda: decorated(**inputs))  # noqa: B023  (called here)
    torch.compiler.reset()
    return rows


def _clear_fake_tensor_cache() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    FakeTensorMode.cache_clear()


def warm_up(decorate: Callable[[Any], Any]) -> None:
    """A tracer loads what it loads at a first trace, so that it is not counted as tracing."""
    decorated = decorate(lambda x: x.reshape(-1, 2) * x.shape[0])
    for size in (4, 6):
        decorated(torch.ones(size, 2))


# -- the command ---------------------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="streams of requests per model")
    parser.add_argument("--requests", type=int, default=200, help="requests per stream")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each timing")
    parser.add_argument("--threads", type=int, default=1, help="of torch; more make small calls jumpy on a busy machine")
    parser.add_argument("--mask", action=argparse.BooleanOptionalAction, default=True, help="requests bring a mask")
    parser.add_argument("--guards", type=int, default=40, help="lines of check_fn to show; 0 for all")
    parser.add_argument("--quick", action="store_true", help="two layers, 40 requests: a self-check in seconds")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.layers, chosen.requests, chosen.rounds = 2, min(chosen.requests, 40), 3
    return chosen


@torch.no_grad()
def main(arguments: list[str] | None = None) -> int:
    chosen = parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else 110)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(chosen.threads)
    try:
        return _run(chosen, console)
    finally:
        torch.set_num_threads(threads_before)


def _run(chosen: argparse.Namespace, console: Console) -> int:
    console.print(f"torch {torch.__version__}, {chosen.threads} thread(s), {chosen.layers} layers")
    models = {name: build(name, chosen.layers) for name in chosen.models}
    warm_up(tracer.compile)
    servings: list[Serving] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        for name, model in models.items():
            for seed in range(chosen.seeds):
                task = progress.add_task(f"{name}, seed {seed}", total=chosen.requests)
                advance = functools.partial(progress.advance, task)
                servings.append(serve(name, model, seed, stream(seed, chosen.requests), chosen.mask, advance))
        for name, model in models.items():
            label = f"{name}, by install"
            task = progress.add_task(label, total=chosen.requests)
            advance = functools.partial(progress.advance, task)
            servings.append(serve(label, model, 0, stream(0, chosen.requests), chosen.mask, advance, by_torch_compile))
    console.print(demo_report.summary(servings))
    warm_up(torch_compile)
    for name, model in models.items():
        serving = next(serving for serving in servings if serving.model == name)
        console.print(demo_report.captures(serving))
        console.print(demo_report.check_fn(serving, chosen.guards))
        shapes = _spread(serving.requests, 3 if chosen.quick else 6)
        console.print(demo_report.calls(name, time_calls(model, shapes, chosen.mask, chosen.rounds)))
        console.print(demo_report.traces(name, time_traces(model, chosen.mask)))
    broken = [(serving, [what for what, held in serving.promises().items() if not held]) for serving in servings]
    console.print(demo_report.verdict(broken))
    return int(any(promises for _, promises in broken))


def _spread(requests: list[Request], count: int) -> list[Request]:
    """Requests from the smallest to the largest, evenly over the stream."""
    ordered = sorted(set(requests), key=lambda request: request.batch * request.length)
    return [ordered[round(at * (len(ordered) - 1) / (count - 1))] for at in range(count)]


if __name__ == "__main__":
    sys.exit(main())
