"""Calls of compiled functions under torch-function modes: traced through, as modes that the program enters inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import tracer
from tracer.guards.state import GlobalStateMatch


class Log(TorchFunctionMode):
    """Writes down what it is asked, and scales results of torch.sin."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.scale = scale

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        result = func(*args, **(kwargs or {}))
        return result * self.scale if func is torch.sin else result


def run(fn: Callable[..., Any], modes: list[Any], *args: Any) -> tuple[Any, list[list[str]]]:
    """The result of a call under modes, and what those have seen."""
    for mode in modes:
        mode.__enter__()
    try:
        result = fn(*args)
    finally:
        for mode in reversed(modes):
            mode.__exit__(None, None, None)
    return result, [mode.seen for mode in modes if isinstance(mode, Log)]


def same(compiled: Callable[..., Any], fn: Callable[..., Any], make: Callable[[], list[Any]], *args: Any) -> None:
    modes, others = make(), make()
    for _ in range(3):  # traced, then hit
        result, seen = run(compiled, modes, *args)
        expected, also_seen = run(fn, others, *args)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
        assert seen == also_seen


def waves(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + x.shape[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_call_under_a_mode_is_captured_whole_and_the_mode_sees_what_it_would(backend: str) -> None:
    compiled = tracer.optimize(backend, fullgraph=True)(waves)
    log, other = Log(2.0), Log(2.0)
    for size in (3, 4, 5, 3):
        x = torch.randn(size)
        assert run(compiled, [log], x)[1] == run(waves, [other], x)[1] and torch.equal(compiled(x), waves(x))
    entries = [entry for entry in tracer.region_of(compiled).entries() if entry.guarded_code.graph is not None]
    assert len(entries) == 4 and log.seen.count("sin") == 4  # static and dynamic, under the mode and without


def test_an_entry_serves_calls_under_modes_that_are_alike() -> None:
    compiled = tracer.optimize("eager", fullgraph=True)(waves)
    x = torch.randn(3)
    expected = {scale: torch.sin(x) * scale + 3 for scale in (2.0, 3.0)}
    for _ in range(3):
        for scale in expected:
            result, seen = run(compiled, [Log(scale)], x)  # a new object each time
            assert torch.equal(result, expected[scale]) and seen[0] == ["sin", "__get__", "add"]
        assert torch.equal(compiled(x), waves(x))
    assert len(tracer.region_of(compiled).entries()) == 3

    class Other(Log):
        pass

    assert torch.equal(run(compiled, [Other(2.0)], x)[0], expected[2.0]) and len(tracer.region_of(compiled).entries()) == 4


def test_two_modes_of_one_class_are_told_apart_from_one_that_is_on_twice() -> None:
    compiled = tracer.optimize("eager", fullgraph=True)(waves)
    x = torch.randn(3)
    for modes in ([Log(2.0), Log(2.0)], [Log(2.0)] * 2, [Log(2.0), Log(2.0)], [Log(2.0)] * 2):
        others = [Log(2.0) for _ in modes] if modes[0] is not modes[1] else [Log(2.0)] * 2
        result, seen = run(compiled, modes, x)
        expected, also_seen = run(waves, others, x)
        assert torch.equal(result, expected) and seen == also_seen


def test_several_modes_are_asked_from_the_inside_out_beside_a_default_device() -> None:
    def made(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.ones(2) + torch.zeros(2, device=x.device)).to("meta")

    compiled = tracer.optimize("eager", fullgraph=True)(made)
    same(compiled, made, lambda: [Log(2.0), Log(3.0)], torch.randn(2))
    result, seen = run(compiled, [torch.device("meta"), log := Log()], torch.ones(2, device="meta"))
    assert result.device.type == "meta" and seen == [log.seen] and log.seen[0] == "ones"


def test_a_mode_entered_inside_is_asked_before_those_at_the_entry() -> None:
    def nested(x: torch.Tensor, log: Log) -> torch.Tensor:
        with log:
            y = torch.sin(x)
        return y + 1

    compiled = tracer.optimize("eager", fullgraph=True)(nested)
    inner, other = Log(2.0), Log(2.0)
    x = torch.randn(3)
    for _ in range(2):
        result, seen = run(compiled, [outer := Log(7.0)], x, inner)
        expected, also_seen = run(nested, [Log(7.0)], x, other)
        assert torch.equal(result, expected) and seen == also_seen == [outer.seen] and inner.seen == other.seen


def test_a_break_leaves_the_calls_under_that_mode_to_cpython() -> None:
    told: list[float] = []

    def breaking(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        told.append(y.sum().item())
        print(end="")
        return y.cos()

    compiled = tracer.optimize("eager")(breaking)
    same(compiled, breaking, lambda: [Log(2.0)], torch.randn(3))
    with pytest.raises(tracer.exc.Unsupported):
        run(tracer.optimize("eager", fullgraph=True)(breaking), [Log()], torch.randn(3))
    x = torch.randn(3)
    assert torch.equal(compiled(x), breaking(x)) and told[-1] == told[-2]


def test_a_graph_that_fails_is_run_by_cpython_under_the_modes() -> None:
    def indexed(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)[index]

    compiled = tracer.optimize("eager", fullgraph=True)(indexed)
    x, log = torch.randn(3), Log(2.0)
    assert torch.equal(run(compiled, [log], x, torch.tensor([0]))[0], torch.sin(x)[:1] * 2.0)
    log.seen.clear()
    with pytest.raises(IndexError):
        run(compiled, [log], x, torch.tensor([9]))
    assert log.seen == ["sin", "__getitem__"] and torch._C._len_torch_function_stack() == 0
    assert torch._C._is_torch_function_enabled()


def test_a_program_that_leaves_the_mode_of_its_caller_runs_right() -> None:
    def leaves(x: torch.Tensor, log: Log) -> torch.Tensor:
        log.__exit__(None, None, None)
        y = torch.sin(x)
        log.__enter__()
        return y + torch.sin(x)

    compiled = tracer.optimize("eager")(leaves)
    x = torch.randn(3)
    for _ in range(2):
        log = Log(2.0)
        result, seen = run(compiled, [log], x, log)
        assert torch.equal(result, torch.sin(x) + torch.sin(x) * 2.0) and seen == [["sin", "add"]]


def test_gradients_and_attributes_of_tensors_are_read_without_asking_the_mode_twice() -> None:
    def uses(x: torch.Tensor) -> tuple[Any, ...]:
        return x.grad * 2, x.shape[0] + 1, torch.sin(x).sum()

    compiled = tracer.optimize("eager", fullgraph=True)(uses)
    x = torch.randn(3, requires_grad=True)
    x.grad = torch.ones(3)
    same(compiled, uses, lambda: [Log(2.0)], x)


def test_what_follows_a_break_within_a_mode_runs_in_cpython_until_the_mode_is_left() -> None:
    def entered(x: torch.Tensor, log: Log) -> torch.Tensor:
        with log:
            y = torch.sin(x)
            print(end="")
            y = y.cos()
        return y.exp()

    compiled = tracer.optimize("eager")(entered)
    x = torch.randn(3)
    for _ in range(3):
        log, other = Log(2.0), Log(2.0)
        assert torch.equal(compiled(x, log), entered(x, other)) and log.seen == other.seen
    entries = tracer.region_of(compiled).entries()
    assert sorted(entry.guarded_code.graph is not None for entry in entries if entry.name == "entered") == [False, True]


def test_a_filter_that_drops_the_guard_on_torchs_state_drops_those_on_modes() -> None:
    def without_state(guards: list[Any]) -> list[bool]:
        return [not isinstance(guard, GlobalStateMatch) for guard in guards]

    compiled = tracer.optimize("eager", fullgraph=True, guard_filter_fn=without_state)(waves)
    x = torch.randn(3)
    assert torch.equal(run(compiled, [Log()], x)[0], waves(x))
    assert torch.equal(compiled(x), waves(x)) and len(tracer.region_of(compiled).entries()) == 1
