"""`make zoo-community`: models and programs of many packages, captured by this tracer and by torch.compile(backend="eager").

    python -m benchmarks.zoo_community [NAME ...] [--package P] [--resume] [--only ours] [--write docs/zoo_community.md]

Each model is captured in three ways: with `fullgraph=True`, by default, and with `dynamic=True` at several batches.
Each way runs in a process of its own, forked before anything was called, so that every cache of the packages is cold;
results are compared bit by bit with eager's. Rows are kept in build/zoo_community.json: `--resume` goes on with the
models that have none, and `--only ours` repeats this tracer alone. The exit status counts the models in which
torch.compile captures more, or that give a wrong result or an error.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo.utils  # (in the parent: a child would take seconds for it)
from rich.console import Console

import tracer
from benchmarks import zoo_community_report as report
from benchmarks.zoo import Captured, difference, place_of, worst
from benchmarks.zoo_models.community import COMMUNITY
from benchmarks.zoo_models.registry import Model

BATCHES = (4, 6, 3)  # one would be another program: it is broadcast
WAYS: dict[str, dict[str, bool]] = {"fullgraph": {"fullgraph": True}, "default": {}, "dynamic": {"dynamic": True}}
TIME_LIMIT = 120  # seconds of a processor for one way
KEPT = Path("build/zoo_community.json")


@dataclasses.dataclass
class Outcome:
    """What one tracer did with one model in one way."""

    graphs: int = 0  # of the first call
    recompiled: int = 0  # graphs of the calls after it
    breaks: list[str] = dataclasses.field(default_factory=list)
    difference: float = 0.0  # largest, over all tensors of all calls; nan where something else differs
    random_state_equal: bool = True
    seconds: float = 0.0  # of a processor, over eager
    error: str = ""

    @property
    def is_captured(self) -> bool:
        """Whether the call gave one graph and nothing ran beside it."""
        return not self.error and self.graphs == 1 and not self.breaks

    @property
    def is_without_recompile(self) -> bool:
        return not self.error and self.graphs > 0 and self.recompiled == 0

    @property
    def is_equal(self) -> bool:
        return self.difference == 0 and self.random_state_equal


@dataclasses.dataclass
class Row:
    """One model: this tracer and the peer, by way."""

    name: str
    package: str
    ours: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    torch: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    failure: str = ""  # the model could not be built, or does not run eagerly

    @property
    def captures_less(self) -> list[str]:
        """The ways in which torch.compile captures more."""
        if not self.torch or not self.ours:
            return []
        less = [way for way in ("fullgraph", "default") if self.torch[way].is_captured and not self.ours[way].is_captured]
        if self.torch["dynamic"].is_without_recompile and not self.ours["dynamic"].is_without_recompile:
            less.append("dynamic")
        return less

    @property
    def is_wrong(self) -> bool:
        """Whether a result differs from eager's, and from torch.compile's: some programs ask whether they are compiled."""
        return any(
            not outcome.is_equal and outcome.difference != getattr(self.torch.get(way), "difference", 0.0)
            for way, outcome in self.ours.items()
        )

    @property
    def has_error(self) -> bool:
        """Whether a call raises what eager does not; with `fullgraph=True` a refusal is none."""
        refused = ("Unsupported:", "SideEffect")
        return any(
            outcome.error and not (way == "fullgraph" and outcome.error.startswith(refused)) for way, outcome in self.ours.items()
        )

    @property
    def is_good(self) -> bool:
        return not (self.failure or self.captures_less or self.is_wrong or self.has_error)


# -- one model, in this process and its children --------------------------------------------------------------------


def run_one(model: Model, who: list[str]) -> Row:
    """Builds a model and forks a process for each tracer and way."""
    row = Row(model.name, model.needs)
    try:
        torch.manual_seed(0)
        program, inputs = model.build()
        torch.manual_seed(0)
        reference, _ = model.build()
        for built in (program, reference):
            if isinstance(built, torch.nn.Module) and not model.trains:
                built.eval()
        _in_a_child(lambda: [_call(reference, inputs, n, model.trains) for n in BATCHES][:0])
    except Exception as error:  # a row of the table says so
        row.failure = f"{type(error).__name__}: {error}"
        return row
    for one in who:
        outcomes = row.ours if one == "ours" else row.torch
        for way, arguments in WAYS.items():
            if way == "default" and outcomes["fullgraph"].is_captured:  # the very same happens without `fullgraph=True`
                outcomes[way] = dataclasses.replace(outcomes["fullgraph"], seconds=0.0)
                continue
            try:
                outcomes[way] = Outcome(
                    **_in_a_child(functools.partial(_capture, one, model, program, reference, inputs, arguments))
                )
            except ChildFailed as error:
                outcomes[way] = Outcome(error=str(error))
    return row


class ChildFailed(Exception):
    """A forked process raised, was ended, or took too long."""


def _in_a_child(work: Callable[[], Any], limit: int = TIME_LIMIT) -> Any:
    """What work gives in a forked process, which is ended after `limit` seconds of a processor, or many more on the clock."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the programs print as they like
        try:
            answer = json.dumps({"result": work()})
        except BaseException as error:
            answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
        with contextlib.suppress(Exception), os.fdopen(writing, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(8 * limit)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    if not text:
        ended = os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)
        raise ChildFailed("took too long" if ended else f"ended with status {status}")
    told = json.loads(text)
    if "error" in told:
        raise ChildFailed(told["error"])
    return told["result"]


def _call(program: Callable[..., Any], inputs: Callable[[int], dict[str, Any]], n: int, trains: bool) -> Any:
    """One call with the inputs and the random numbers of a batch."""
    torch.manual_seed(n)
    random.seed(n)
    np.random.seed(n)
    arguments = inputs(n)
    with torch.set_grad_enabled(trains):
        return program(**arguments)


def _random_state() -> tuple[object, ...]:
    """Of the generators of torch, random and NumPy."""
    _, words, *rest = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), bytes(words), *rest


def _capture(
    who: str,
    model: Model,
    program: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Callable[[int], dict[str, Any]],
    arguments: dict[str, bool],
) -> dict[str, Any]:
    """Compiles a program and calls it beside eager, as a dict of an Outcome."""
    outcome = Outcome()
    captured = Captured()
    batches = BATCHES if arguments.get("dynamic") else BATCHES[:1]
    with _compiled(who, program, captured, arguments, outcome) as compiled:
        for index, n in enumerate(batches):
            start = time.process_time()
            try:
                result = _call(compiled, inputs, n, model.trains)
            except Exception as error:  # a row of the table says so
                outcome.error = f"{type(error).__name__}: {error}"[:2000]
                break
            random_state = _random_state()
            middle = time.process_time()
            expected = _call(reference, inputs, n, model.trains)
            outcome.seconds += 2 * middle - start - time.process_time()
            outcome.random_state_equal &= _random_state() == random_state
            outcome.difference = worst((outcome.difference, difference(expected, result)))
            if index == 0:
                outcome.graphs = captured.graphs
    outcome.recompiled = captured.graphs - outcome.graphs
    return dataclasses.asdict(outcome)


@contextlib.contextmanager
def _compiled(
    who: str, program: Callable[..., Any], captured: Captured, arguments: dict[str, bool], outcome: Outcome
) -> Iterator[Callable[..., Any]]:
    """The compiled program; leaves its breaks in the outcome."""
    if who == "torch":
        counters = torch._dynamo.utils.counters
        counters.clear()
        yield torch.compile(program, backend=captured, **arguments)
        outcome.breaks = [f"{count} x {reason.splitlines()[0]}" for reason, count in counters["graph_break"].items()]
        return
    with tracer.config.patch(suppress_errors=False), tracer.logs.capture("graph_breaks") as told:
        yield tracer.optimize(captured, **arguments)(program)
    places = [place_of(record.text) for record in told if "Graph break" in record.text]
    outcome.breaks = list(dict.fromkeys(f"{where} {why}" for where, why in places))


# -- all of them ---------------------------------------------------------------------------------------------------


def rows(models: list[Model], who: list[str]) -> Iterator[Row]:
    """Each model in a process of its own, one after another."""
    for model in models:
        try:
            yield row_of(_in_a_child(functools.partial(_run_as_dict, model, who), TIME_LIMIT * (2 + len(WAYS) * len(who))))
        except ChildFailed as error:
            yield Row(model.name, model.needs, failure=str(error))


def _run_as_dict(model: Model, who: list[str]) -> dict[str, Any]:
    return dataclasses.asdict(run_one(model, who))


def row_of(fields: dict[str, Any]) -> Row:
    """A row from its dict."""
    for who in ("ours", "torch"):
        fields[who] = {way: Outcome(**outcome) for way, outcome in fields[who].items()}
    return Row(**fields)


def is_there(model: Model) -> bool:
    """Whether the module that the model comes from is installed."""
    return importlib.util.find_spec(model.imports) is not None


def _kept(path: Path) -> dict[str, Row]:
    return {name: row_of(fields) for name, fields in json.loads(path.read_text()).items()} if path.exists() else {}


def _keep(path: Path, found: dict[str, Row]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({name: dataclasses.asdict(row) for name, row in found.items()}))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo_community", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--package")
    parser.add_argument("--resume", action="store_true", help="only models without a kept row")
    parser.add_argument("--only", choices=("ours", "torch"), help="this one alone; the outcomes of the other are the kept ones")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where rows are kept")
    parser.add_argument("--breaks", action="store_true", help="show every break and error")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    return parser.parse_args(arguments)


def _chosen(arguments: argparse.Namespace, kept: dict[str, Row]) -> list[Model]:
    unknown = set(arguments.names) - set(COMMUNITY)
    if unknown:
        sys.exit(f"No model {', '.join(sorted(unknown))} in the community zoo. It has: {', '.join(COMMUNITY)}")
    models = [COMMUNITY[name] for name in arguments.names] or list(COMMUNITY.values())
    models = [model for model in models if arguments.package in (None, model.needs)]
    wanted = [arguments.only] if arguments.only else ["ours", "torch"]
    done = {name for name, row in kept.items() if row.failure or all(getattr(row, who) for who in wanted)}
    return [model for model in models if not (arguments.resume and model.name in done)]


def main(arguments: list[str] | None = None) -> int:
    chosen = parse(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    console = Console()
    found = _kept(chosen.kept)
    models = _chosen(chosen, found)
    missing = sorted({model.needs for model in models if not is_there(model)})
    if missing:
        console.print(f"Left out: models of {', '.join(missing)} (make zoo-community installs them)")
    ran = []
    for row in rows([model for model in models if is_there(model)], [chosen.only] if chosen.only else ["ours", "torch"]):
        if row.name in found:
            row = dataclasses.replace(row, ours=row.ours or found[row.name].ours, torch=row.torch or found[row.name].torch)
        found[row.name] = row
        _keep(chosen.kept, found)
        ran.append(row)
        console.print(report.line(row), highlight=False, soft_wrap=True)
        if chosen.breaks:
            console.print(report.details(row), highlight=False, markup=False, soft_wrap=True)
    listed = [found[name] for name in COMMUNITY if name in found]
    console.print(report.summary(listed), highlight=False, soft_wrap=True)
    if chosen.write:
        chosen.write.write_text(report.markdown(listed))
    return sum(not row.is_good for row in ran)


if __name__ == "__main__":
    sys.exit(main())
