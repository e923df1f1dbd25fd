"""Another thread changes something between the check of the guards and the reads of the output code. Nothing has been done yet,
so the program's own code runs. Here the output code is called without its guards, or the graph makes the change."""

from __future__ import annotations

import gc
import random
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tracer import config

X = torch.ones(2)


def output_code(fn: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """What runs for such arguments, without the guards: a function of the same arguments."""
    with config.patch(convert_every_frame=True):
        compiled = tracer.optimize("eager")(fn)
        compiled(*args)
    (entry,) = tracer.region_of(compiled).region.entries(fn.__code__)
    assert entry.code is not None
    return types.FunctionType(entry.code, entry.globals, fn.__name__, None, (*(fn.__closure__ or ()), *entry.extras))


def graph_that_changes(fn: Callable[..., Any], change: Callable[[], Any], *args: Any) -> Any:
    """What the second call gives, when `change` is made while the graph runs."""
    ran = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            ran.append(True)
            if len(ran) == 2:
                change()
            return gm(*inputs)

        return run

    compiled = tracer.optimize(backend)(fn)
    compiled(*args)
    result = compiled(*args)
    assert len(ran) == 2
    return result


class Thing:
    pass


def test_a_key_that_went_away_before_it_was_read_is_missed_by_the_program_itself() -> None:
    def get(d: dict[str, Any], default: Any) -> Any:
        try:
            found = d["k"]
        except KeyError:
            return default
        return found

    run = output_code(get, {"k": [1]}, None)
    assert run({"k": [2]}, None) == [2]
    assert run({}, "default") == "default"


def test_the_error_is_that_of_the_programs_own_line() -> None:
    def get(d: dict[str, Any]) -> Any:
        """Reads."""
        return [d["k"]]

    run = output_code(get, {"k": [1]})
    with pytest.raises(KeyError) as caught:
        run({})
    last = caught.traceback[-1]
    assert (last.path, last.lineno, len(caught.traceback)) == (caught.traceback[0].path, get.__code__.co_firstlineno + 1, 2)


def test_nothing_is_stored_twice() -> None:
    def store(d: dict[str, Any], log: list[Any]) -> Any:
        log.append(d.get("a"))
        log.append(d.get("b"))
        d["c"] = log

    run = output_code(store, {"a": [1], "b": [2]}, [])
    d: dict[str, Any] = {"a": [1]}
    log: list[Any] = []
    run(d, log)
    assert log == [[1], None]
    assert d["c"] is log


def test_an_item_and_an_attribute_that_went_away_are_missed_by_the_program_itself() -> None:
    def item(items: list[Any]) -> Any:
        return items[1] if len(items) > 1 else "none"

    def attribute(thing: Thing) -> Any:
        return getattr(thing, "x", "none")

    assert output_code(item, [1, [2]])([1]) == "none"
    thing = Thing()
    thing.x = [1]  # type: ignore[attr-defined]
    assert output_code(attribute, thing)(Thing()) == "none"


def test_the_target_of_a_weak_reference_that_has_died() -> None:
    def target(reference: Any) -> Any:
        found = reference()
        return "dead" if found is None else found

    thing = Thing()
    run = output_code(target, weakref.ref(thing))
    assert run(weakref.ref(thing)) is thing
    gone = weakref.ref(Thing())
    gc.collect()
    assert run(gone) == "dead"


def test_a_read_that_fails_before_a_break_leaves_the_frame_to_the_program() -> None:
    def f(d: dict[str, Any], log: list[Any]) -> Any:
        found = d["k"] if "k" in d else "none"
        print("break", end="")
        log.append(found)
        return log

    run = output_code(f, {"k": [1]}, [])
    assert run({}, []) == ["none"]
    assert run({"k": [2]}, []) == [[2]]


def test_a_key_that_goes_away_while_the_graph_runs_is_missing() -> None:
    def f(x: torch.Tensor, d: dict[str, Any]) -> Any:
        y = x + 1
        return y, d.get("k")

    d = {"k": [1]}
    y, found = graph_that_changes(f, d.clear, X, d)
    assert torch.equal(y, X + 1)
    assert found is None


def test_numbers_that_were_drawn_are_drawn_again() -> None:
    def f(x: torch.Tensor, d: dict[str, Any]) -> Any:
        return random.random(), x + torch.rand(2), d.get("k")

    d = {"k": [1]}
    torch.manual_seed(0)
    expected = [torch.rand(2), torch.rand(2)]
    torch.manual_seed(0)
    random.seed(3)
    drawn, numbers, found = graph_that_changes(f, d.clear, torch.zeros(2), d)
    own = random.Random(3)
    own.random()
    assert drawn == own.random()
    assert torch.equal(numbers, expected[1])
    assert found is None


def test_a_graph_that_writes_runs_behind_all_reads() -> None:
    def f(x: torch.Tensor, d: dict[str, Any]) -> Any:
        x += 1
        return d.get("k")

    d = {"k": [1]}
    x = torch.zeros(2)
    assert graph_that_changes(f, d.clear, x, d) == [1]
    assert torch.equal(x, torch.full((2,), 2.0))


def test_an_error_of_replayed_effects_is_raised() -> None:
    """A store may raise. The effects before it stay, as in CPython."""

    def f(log: list[Any], d: dict[str, Any]) -> Any:
        log.append(1)
        del d["k"]

    log: list[Any] = []
    run = output_code(f, [], {"k": 1})
    with pytest.raises(KeyError):
        run(log, {})
    assert log == [1]
