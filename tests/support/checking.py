"""`check(fn, *args)`: a program run by CPython and traced, on equal arguments, must leave the same behind."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from typing import Any

import torch

from tests.support.comparing import Comparison, deep_copied, is_made
from tracer import _C
from tracer.api.callables import compiled
from tracer.api.settings import Settings
from tracer.backends.registry import RUNS_AS_WRITTEN


@dataclasses.dataclass
class Traced:
    """What the tracer made of a program."""

    graphs: list[torch.fx.GraphModule] = dataclasses.field(default_factory=list)
    breaks: list[Any] = dataclasses.field(default_factory=list)

    @property
    def break_ids(self) -> list[str]:
        return [reason.id for reason in self.breaks]

    @property
    def operations(self) -> list[str]:
        """The names of what the graphs call, in order."""
        nodes = [node for gm in self.graphs for node in gm.graph.nodes if node.op.startswith("call_")]
        return [node.target if isinstance(node.target, str) else node.target.__name__ for node in nodes]


@dataclasses.dataclass
class Checked(Traced):
    """What the tracer made of the program in the first call; `recompiles` counts the graphs that later calls added."""

    guards: list[Any] = dataclasses.field(default_factory=list)
    result: Any = None
    error: BaseException | None = None
    recompiles: int = 0
    raised: list[Exception] = dataclasses.field(default_factory=list)  # by graphs: the program ran again in CPython


@dataclasses.dataclass
class _Outcome:
    result: Any
    error: BaseException | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def collect_garbage() -> None:
    """All that other tests have left: what one collection lets go of may be what held the next."""
    for _ in range(10):
        if not gc.collect():
            break


def check(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Checked:
    """Runs `fn` in CPython and, twice, traced, each time on deep copies of the arguments, and compares everything."""
    return check_made(fn, lambda: deep_copied((args, kwargs)))


def check_made(
    fn: Callable[..., Any],
    make: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    *,
    dynamic: bool | None = None,
    calls: int = 2,
    reset: Callable[[], Any] = lambda: None,
    comparison: type[Comparison] = Comparison,
    as_written: bool = False,
) -> Checked:
    """As `check`, for arguments that cannot be copied: `make()` gives new ones. `reset` undoes what `fn` does to
    globals, before each run. `as_written`: the backend is known to run graphs as the eager one does."""
    checked = Checked()

    def keep(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        checked.graphs.append(gm)

        def run_graph(*inputs: Any) -> Any:
            try:
                return gm.forward(*inputs)
            except Exception as error:
                checked.raised.append(error)
                raise

        _C.never_trace(run_graph.__code__)
        return run_graph

    setattr(keep, RUNS_AS_WRITTEN, as_written)
    hooks: dict[str, Callable[..., Any]] = {
        "on_break": checked.breaks.append,
        "on_guards": lambda manager: checked.guards.extend(manager.guards),
    }
    traced = compiled(fn, Settings(backend=keep, dynamic=dynamic, name="check", hooks=hooks))
    first = 0
    for number in range(calls):
        reset()
        expected = _run(fn, make)
        reset()
        seen = _run(traced, make)
        if number == 0:
            checked.result, checked.error = seen.result, seen.error
            first = len(checked.graphs)
            breaks = len(checked.breaks)
        _compare(expected, seen, comparison())
    checked.recompiles = len(checked.graphs) - first
    del checked.graphs[first:], checked.breaks[breaks:]
    return checked


def captured(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Checked:
    """As `check`, and all of it is one graph without a break."""
    return captured_made(fn, lambda: deep_copied((args, kwargs)))


def captured_made(fn: Callable[..., Any], make: Callable[[], Any], **options: Any) -> Checked:
    checked = check_made(fn, make, **options)
    assert not checked.breaks, "\n".join(map(str, checked.breaks))
    assert len(checked.graphs) == 1, f"{len(checked.graphs)} graphs"
    if checked.error is None and checked.raised:
        raise checked.raised[0]
    assert not checked.recompiles, "the second call traced again"
    return checked


def breaks(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Checked:
    """As `check`, and the graph breaks at least once."""
    checked = check(fn, *args, **kwargs)
    assert checked.breaks, "no graph break"
    return checked


def _run(fn: Callable[..., Any], make: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]) -> _Outcome:
    args, kwargs = make()
    torch.manual_seed(0)
    try:
        return _Outcome(fn(*args, **kwargs), None, args, kwargs)
    except Exception as error:
        return _Outcome(None, error, args, kwargs)


def _compare(expected: _Outcome, seen: _Outcome, comparison: Comparison) -> None:
    if seen.error is not None and type(seen.error) is not type(expected.error) and not is_made(type(seen.error)):
        raise seen.error
    comparison.sequence(list(expected.args), list(seen.args), "args")
    comparison.sequence(list(expected.kwargs.values()), list(seen.kwargs.values()), "kwargs")
    comparison.same(expected.result, seen.result, "result")
    if expected.error is not None or seen.error is not None:
        comparison.same(expected.error, seen.error, "error")
