"""How one case is measured: both tracers in this process, taking turns, in CPU time, medians of several rounds."""

from __future__ import annotations

import contextlib
import functools
import gc
import statistics
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import torch

import tracer
from benchmarks import trace_cases
from benchmarks.trace_cases import Traced
from benchmarks.warm_cases import CASES, Call, WarmCase
from tracer.graph.fakes.fake_mode import FakeMode

MANY_ENTRIES = 1000
SLICE = 0.01  # seconds that a variant runs in one round

_Key = TypeVar("_Key", bound=Hashable)


def own(target: Any, backend: Any = "eager", dynamic: bool | None = None) -> Any:
    """Decorated by this tracer."""
    return tracer.compile(target, backend=backend, dynamic=dynamic, recompile_limit=MANY_ENTRIES)


def theirs(target: Any, backend: Any = "eager", dynamic: bool | None = None) -> Any:
    """Decorated by torch.compile."""
    torch._dynamo.config.recompile_limit = MANY_ENTRIES
    torch._dynamo.config.accumulated_recompile_limit = MANY_ENTRIES
    return torch.compile(target, backend=backend, dynamic=dynamic)


def plain(target: Any, **_: Any) -> Any:
    return target


def doing_nothing(gm: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
    """A backend whose graph runs once, and from then on gives the same results at once."""
    results: list[Any] = []

    def graph(*inputs: Any) -> Any:
        if not results:
            results.append(gm(*inputs))
        return results[0]

    return graph


def nothing(_: Any, **__: Any) -> Any:
    return lambda *args, **kwargs: None


# ---- warm calls


def cpu_seconds(variants: Mapping[_Key, Call], rounds: int) -> dict[_Key, float]:
    """CPU seconds per call of each variant: the median over rounds in which all of them take turns."""
    counts = {name: _calls_in(call) for name, call in variants.items()}
    seconds: dict[_Key, list[float]] = {name: [] for name in variants}
    names = list(variants)
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                seconds[name].append(_timed(variants[name], counts[name]))
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in seconds.items()}


def _calls_in(call: Call) -> int:
    """As many as fill a slice. What the other variants have compiled meanwhile may make a first call slow."""
    return max(3, int(SLICE / max(min(_timed(call, 3) for _ in range(5)), 1e-8)))


def _timed(call: Call, count: int) -> float:
    turns = range(count)
    start = time.process_time_ns()
    for _ in turns:
        call()
    return (time.process_time_ns() - start) / count / 1e9


def warm(name: str, rounds: int) -> dict[str, Any]:
    """Nanoseconds over eager with the eager backend, and of dispatch to a graph that does nothing."""
    case = CASES[name]
    decorators: dict[str, Callable[..., Any]] = {
        "eager": plain,
        "own": own,
        "torch": theirs,
        "nothing": nothing,
        "own dispatch": functools.partial(own, backend=doing_nothing),
        "torch dispatch": functools.partial(theirs, backend=doing_nothing),
    }
    calls = {}
    for variant, decorate in decorators.items():
        torch.manual_seed(0)
        calls[variant] = case.make(decorate)
        for _ in range(2 * case.entries + 1):
            calls[variant]()
    seconds = cpu_seconds(calls, rounds)
    row = _warm_row(case, {variant: value * 1e9 for variant, value in seconds.items()})
    checked = _check_ns(case, rounds)
    return {**row, "check_fn_ns": checked} if checked is not None else row


def _warm_row(case: WarmCase, ns: dict[str, float]) -> dict[str, Any]:
    over = ns["own"] - ns["eager"], ns["torch"] - ns["eager"]
    dispatch = ns["own dispatch"] - ns["nothing"], ns["torch dispatch"] - ns["nothing"]
    return {
        "kind": "warm",
        "case": case.name,
        "eager_ns": ns["eager"],
        "own_ns": over[0],
        "torch_ns": over[1],
        "own_dispatch_ns": dispatch[0],
        "torch_dispatch_ns": dispatch[1],
        "ratio_over_eager": over[0] / over[1],
        "ratio_of_dispatch": dispatch[0] / dispatch[1],
        "ratio": dispatch[0] / dispatch[1] if case.by_dispatch else over[0] / over[1],
        "bar": case.bar,
    }


def _check_ns(case: WarmCase, rounds: int) -> float | None:
    """What the guards alone cost: check_fn of the only entry, called on the arguments of the call."""
    made: list[Any] = []
    seen: list[tuple[Any, ...]] = []

    def noting(target: Any, **options: Any) -> Any:
        made.append(own(target, **options))
        state = tracer.region_of(made[0])
        assert state is not None
        convert = state.find_or_make_entry

        def noted(function: Any, args: tuple[Any, ...]) -> Any:
            seen.append((*args, function.__closure__) if function.__code__.co_freevars else args)
            return convert(function, args)

        state.find_or_make_entry = noted  # type: ignore[method-assign]
        return made[0]

    call = case.make(noting)
    call()
    state = tracer.region_of(made[0])
    entries = [] if state is None else state.entries()
    if len(entries) != 1 or len(seen) != 1:
        return None
    arguments, check = seen[0], entries[0].check_fn
    if not check(*arguments):
        return None
    seconds = cpu_seconds({"check": lambda: check(*arguments), "nothing": lambda: _true(*arguments)}, rounds)
    return (seconds["check"] - seconds["nothing"]) * 1e9


def _true(*_: Any) -> bool:
    return True


# ---- cold traces


def forget() -> None:
    """Nothing that a trace may find ready: entries, and what fake tensors remember."""
    tracer.reset()
    torch._dynamo.reset()
    torch._subclasses.fake_tensor.FakeTensorMode.cache_clear()
    FakeMode.cache_of_static_sizes.clear()
    gc.collect()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within, torch's operators run in one thread. On a busy machine, threads that wait for others cost more CPU than a trace."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _first_call(case: Traced, decorate: Callable[..., Any], dynamic: bool) -> float:
    forget()
    call = decorate(case.model, dynamic=dynamic)
    with torch.no_grad(), one_thread():
        start = time.process_time()
        call(*case.args, **case.kwargs)
        return time.process_time() - start


def interleaved(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name in sorted(sides, reverse=bool(turn % 2)):
            seconds[name].append(sides[name]())
    return {name: statistics.median(values) for name, values in seconds.items()}


def cold(name: str, rounds: int, depth: int | None = None) -> list[dict[str, Any]]:
    """Seconds of the first call, the model's own run included, static and dynamic. A shallow model warms imports."""
    shallow, case = trace_cases.build(name, 1), trace_cases.build(name, depth)
    rows = []
    for dynamic in (False, True):
        for decorate in (own, theirs):
            _first_call(shallow, decorate, dynamic)
        sides = {
            "own": functools.partial(_first_call, case, own, dynamic),
            "torch": functools.partial(_first_call, case, theirs, dynamic),
        }
        seconds = interleaved(sides, rounds)
        own_s, torch_s = seconds["own"], seconds["torch"]
        rows.append(
            {
                "kind": "cold",
                "case": f"{name}, {'dynamic' if dynamic else 'static'}",
                "own_s": own_s,
                "torch_s": torch_s,
                "ratio": own_s / torch_s,
                "bar": 0.33,
            }
        )
    return rows


SHALLOW, DEEP = 6, 48


def deep(name: str, rounds: int) -> list[dict[str, Any]]:
    """Seconds of the first call of a model of many equal layers beside one of few, where equal layers are traced once."""
    rows = []
    for dynamic in (False, True):
        cases = {depth: trace_cases.build(name, depth) for depth in (SHALLOW, DEEP)}
        _first_call(cases[SHALLOW], own, dynamic)
        seconds = interleaved(
            {str(depth): functools.partial(_first_call, case, own, dynamic) for depth, case in cases.items()}, rounds
        )
        shallow, full = seconds[str(SHALLOW)], seconds[str(DEEP)]
        rows.append(
            {
                "kind": "deep",
                "case": f"{name}, {DEEP} layers beside {SHALLOW}, {'dynamic' if dynamic else 'static'}",
                "shallow_s": shallow,
                "deep_s": full,
                "ratio": full / shallow,
                "bar": 2.0,
            }
        )
    return rows


def loop(rounds: int, steps: int) -> dict[str, Any]:
    """Bytecodes that are interpreted in a second, of a loop in plain Python of so many turns."""
    case = Traced(trace_cases.python_loop, (torch.ones(2), steps))
    count = _instructions(trace_cases.python_loop, *case.args)
    for decorate in (own, theirs):
        _first_call(Traced(trace_cases.python_loop, (torch.ones(2), 10)), decorate, False)
    seconds = interleaved(
        {
            "own": functools.partial(_first_call, case, own, False),
            "torch": functools.partial(_first_call, case, theirs, False),
        },
        rounds,
    )
    rates = {name: count / value for name, value in seconds.items()}
    return {
        "kind": "loop",
        "case": f"Python loop of {steps} turns",
        "own_per_s": rates["own"],
        "torch_per_s": rates["torch"],
        "ratio": rates["own"] / rates["torch"],
        "bar": 3.0,
    }


def _instructions(function: Callable[..., Any], *args: Any) -> int:
    count = 0

    def note(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return note

    sys._getframe().f_trace_opcodes = True  # CPython 3.12 sends such events only if a frame asks before tracing begins
    before = sys.gettrace()
    sys.settrace(note)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return count


# ---- memory and imports


def memory(depth: int | None = None) -> dict[str, Any]:
    """Bytes that Python's allocator holds more of once BERT has an entry (a first entry, thrown away, filled caches)."""
    case = trace_cases.build("bert", depth)
    taken = {}
    for name, decorate in (("own", own), ("torch", theirs)):
        _first_call(case, decorate, False)
        tracer.reset()
        torch._dynamo.reset()
        gc.collect()
        tracemalloc.start()
        call = decorate(case.model, dynamic=False)
        with torch.no_grad():
            call(*case.args, **case.kwargs)
            call(*case.args, **case.kwargs)
        gc.collect()
        taken[name] = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        del call
    return {
        "kind": "memory",
        "case": "an entry of BERT",
        "own_bytes": taken["own"],
        "torch_bytes": taken["torch"],
        "ratio": taken["own"] / taken["torch"],
        "bar": 0.5,
    }


_IMPORT = """
import time, torch
start = time.process_time()
import tracer
print(time.process_time() - start)
"""


def import_seconds(rounds: int) -> dict[str, Any]:
    """CPU seconds that `import tracer` takes after `import torch`."""
    taken = [
        float(subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(rounds)
    ]
    seconds = statistics.median(taken)
    return {"kind": "import", "case": "import tracer", "own_s": seconds, "ratio": seconds, "bar": 0.3}


def quiet() -> None:
    """Neither warnings nor progress bars between the figures."""
    warnings.simplefilter("ignore")
    for module in ("transformers",):
        if module in sys.modules:
            sys.modules[module].logging.set_verbosity_error()
