"""`make zoo`: some sixty models, each run eagerly, by this tracer and by torch.compile(backend="eager").

    python -m benchmarks.zoo [NAME ...] [--family F] [--breaks] [--no-peer] [--write docs/zoo.md]

Each model runs in a process of its own, at the batches 1, 2, 5, 16, 3, 7 and 32; results are compared bit by bit with eager's.
A model is as it should be when it has no more graphs per call, breaks and recompiles than torch.compile gives, and no difference
from eager, or that of torch.compile, to the bit: a model that asks whether it is being compiled may compute otherwise then.
The exit status counts those that are not.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.utils import _pytree as pytree

from benchmarks import zoo_report
from benchmarks.zoo_models import ZOO, Model

BATCHES = (1, 2, 5, 16, 3, 7, 32)
TIME_LIMIT = 300  # seconds of a processor for one model


@dataclasses.dataclass
class Run:
    """What one tracer did with one model over all batches."""

    graphs: int = 0  # of the first call
    compiled: int = 0  # graphs over all calls
    breaks: list[str] = dataclasses.field(default_factory=list)  # a line for each place
    recompiles: list[str] = dataclasses.field(default_factory=list)
    entries: int = 0
    first_call: float = 0.0  # seconds
    all_calls: float = 0.0
    difference: float = 0.0  # largest, over all tensors; nan where something else differs
    random_state_equal: bool = True
    error: str = ""


@dataclasses.dataclass
class Row:
    """One model: this tracer and the peer."""

    name: str
    family: str
    ours: Run
    torch: Run | None = None
    apart: float = math.nan  # the largest difference between what both gave
    failure: str = ""  # the process ended, or the model could not be built

    @property
    def verdict(self) -> str:
        """In a word, and worst first."""
        if self.failure or self.ours.error:
            return "crash"
        if self.ours.difference != 0 or not self.ours.random_state_equal:
            return "as torch.compile" if self.apart == 0 and self.ours.random_state_equal else "differs"
        if self.torch is not None and not self.torch.error and self.torch.graphs:
            if len(self.ours.breaks) > len(self.torch.breaks) or self.ours.graphs > self.torch.graphs:
                return "more breaks"
            if self.ours.compiled > self.torch.compiled:
                return "more recompiles"
        return "one graph" if self.ours.graphs == 1 and not self.ours.breaks else "breaks"

    @property
    def is_good(self) -> bool:
        return self.verdict in ("one graph", "breaks", "as torch.compile")


# -- one model, in this process ------------------------------------------------------------------------------------


class Captured:
    """A backend that runs graphs as they are and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return gm.forward


def run_one(model: Model, peer: bool) -> Row:
    """Runs a model by this tracer and, if asked, by torch.compile; not asked, only where results differ
    from eager's, which those of torch.compile may do, too."""
    torch.manual_seed(0)
    module, inputs = model.build()
    module.eval()
    row = Row(model.name, model.family, Run())
    calls = [(lambda n=n: _seeded(n, inputs)) for n in BATCHES]
    with torch.no_grad():
        ours = _run_ours(row.ours, module, calls)
        if peer or row.verdict == "differs":
            row.torch = Run()
            theirs = _run_torch(row.torch, module, calls)
            if len(ours) == len(theirs) == len(calls):
                row.apart = worst(map(difference, theirs, ours))
    return row


def _seeded(n: int, inputs: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    torch.manual_seed(n)
    return inputs(n)


def _run_ours(run: Run, module: torch.nn.Module, calls: list[Callable[[], dict[str, Any]]]) -> list[Any]:
    import tracer

    captured = Captured()
    places: dict[tuple[str, str], str] = {}
    with tracer.logs.capture("graph_breaks") as told:
        decorated = tracer.optimize(captured, guard_fail_fn=lambda failure: run.recompiles.append(str(failure)))(module)
        results = _call_all(run, module, decorated, calls, captured)
        for where, why in [place_of(record.text) for record in told if "Graph break" in record.text]:
            places.setdefault((where, why.rpartition("[")[2]), f"{where} {why}")  # the values at fault have other names each time
    run.breaks = list(places.values())
    region = tracer.region_of(decorated)
    run.entries = len(region.entries()) if region is not None else 0
    return results


def _run_torch(run: Run, module: torch.nn.Module, calls: list[Callable[[], dict[str, Any]]]) -> list[Any]:
    from torch._dynamo.utils import counters

    captured = Captured()
    counters.clear()
    results = _call_all(run, module, torch.compile(module, backend=captured), calls, captured)
    run.breaks = [f"{count} x {reason.splitlines()[0]}" for reason, count in counters["graph_break"].items()]
    run.entries = captured.graphs
    return results


def _call_all(
    run: Run, module: torch.nn.Module, decorated: Any, calls: list[Callable[[], dict[str, Any]]], captured: Captured
) -> list[Any]:
    """The results of the calls, as far as they came."""
    results: list[Any] = []
    start = time.process_time()
    eagerly = 0.0
    try:
        for index, inputs in enumerate(calls):
            eager_start = time.process_time()
            expected = module(**inputs())
            random_state = torch.get_rng_state()
            eagerly += time.process_time() - eager_start
            result = decorated(**inputs())
            results.append(result)
            run.random_state_equal &= torch.equal(torch.get_rng_state(), random_state)
            run.difference = worst((run.difference, difference(expected, result)))
            if index == 0:
                run.graphs = captured.graphs
                run.first_call = time.process_time() - start - eagerly
    except Exception as error:  # a row of the table says so
        run.error = f"{type(error).__name__}: {error}"
    run.compiled = captured.graphs
    run.all_calls = time.process_time() - start - eagerly
    return results


def place_of(text: str) -> tuple[str, str]:
    """The line of the user's code and the reason of a break, from what the log says."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    where = next((line for line in lines if "user code at" in line), lines[0])
    why = next((line for line in lines if line.startswith("Reason") or line.endswith("]")), lines[-1])
    return where, why


def difference(expected: Any, result: Any) -> float:
    """The largest difference between the tensors of two results; nan where they differ in anything else."""
    left, shape = pytree.tree_flatten(expected)
    right, other_shape = pytree.tree_flatten(result)
    if type(expected) is not type(result) or len(left) != len(right) or shape != other_shape:
        return math.nan
    return worst(_leaf_difference(a, b) for a, b in zip(left, right))


def worst(differences: Iterable[float]) -> float:
    """The largest, where nan is larger than any."""
    return max(differences, default=0.0, key=lambda d: math.inf if math.isnan(d) else d)


def _leaf_difference(a: Any, b: Any) -> float:
    if not isinstance(a, torch.Tensor):
        return 0.0 if type(a) is type(b) and (a == b or not isinstance(a, (int, float, str, bool))) else math.nan
    if a.shape != b.shape or a.dtype != b.dtype or a.stride() != b.stride():
        return math.nan
    if torch.equal(a, b) or torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num()):
        return 0.0
    return float((a.double() - b.double()).abs().max())


# -- all of them ---------------------------------------------------------------------------------------------------


def rows(models: list[Model], peer: bool) -> Iterator[Row]:
    """Each model in a process of its own, one after another."""
    for model in models:
        command = [sys.executable, "-m", "benchmarks.zoo", "--one", model.name, *([] if peer else ["--no-peer"])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=4 * TIME_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            yield Row(model.name, model.family, Run(), failure=f"took more than {4 * TIME_LIMIT} s")
            continue
        answer = done.stdout.strip().splitlines()
        if done.returncode or not answer:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            yield Row(model.name, model.family, Run(), failure=last)
            continue
        yield _row(json.loads(answer[-1]))


def _row(fields: dict[str, Any]) -> Row:
    theirs = fields.pop("torch")
    return Row(ours=Run(**fields.pop("ours")), torch=None if theirs is None else Run(**theirs), **fields)


def _chosen(arguments: argparse.Namespace) -> list[Model]:
    unknown = set(arguments.names) - set(ZOO)
    if unknown:
        sys.exit(f"No model {', '.join(sorted(unknown))} in the zoo. It has: {', '.join(ZOO)}")
    models = [ZOO[name] for name in arguments.names] or list(ZOO.values())
    return [model for model in models if arguments.family in (None, model.family)][: arguments.first]


def is_there(model: Model) -> bool:
    """Whether the package that the model comes from is installed."""
    return not model.needs or importlib.util.find_spec(model.needs.replace("-", "_")) is not None


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--family")
    parser.add_argument("--first", type=int, help="so many of these models")
    parser.add_argument("--breaks", action="store_true", help="show every break and recompile")
    parser.add_argument(
        "--peer", action=argparse.BooleanOptionalAction, default=True, help="run torch.compile also where nothing differs"
    )
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    chosen = parse(arguments)
    if chosen.one:
        resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT, TIME_LIMIT))
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        print(json.dumps(dataclasses.asdict(run_one(ZOO[chosen.one], chosen.peer))))
        return 0
    console = Console()
    models = _chosen(chosen)
    missing = sorted({model.needs for model in models if not is_there(model)})
    if missing:
        console.print(f"Left out: models of {', '.join(missing)} (pip install 'shapetracer[zoo]')")
    found = []
    for row in rows([model for model in models if is_there(model)], chosen.peer):
        found.append(row)
        console.print(zoo_report.line(row), highlight=False, soft_wrap=True)
        if chosen.breaks:
            console.print(zoo_report.details(row), highlight=False, markup=False, soft_wrap=True)
    console.print(zoo_report.summary(found))
    if chosen.write:
        chosen.write.write_text(zoo_report.markdown(found))
    return sum(not row.is_good for row in found)


if __name__ == "__main__":
    sys.exit(main())
