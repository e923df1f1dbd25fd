"""What a profile of torch's profiler shows of the tracer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tracer import _C
from tracer.profile_labels import OWN


def shown(call: Callable[[], Any]) -> list[str]:
    """The labels of the tracer in a profile of a call, in the order in which the ranges began."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    events = sorted(profile.events(), key=lambda event: event.time_range.start)
    return [event.name for event in events if event.name.startswith("shapetracer") and "::" not in event.name]  # no operator


def scaled(x):
    return x.sin() * 2


def test_a_first_call_shows_the_trace_and_in_it_the_backend_and_then_the_run():
    compiled = tracer.optimize("eager")(scaled)
    assert shown(lambda: compiled(torch.ones(3))) == [OWN.trace, OWN.compile, "shapetracer: scaled"]


def test_a_served_call_shows_one_lookup_and_one_run():
    compiled = tracer.optimize("eager")(scaled)
    compiled(torch.ones(3))
    assert shown(lambda: compiled(torch.ones(3))) == [OWN.lookup, "shapetracer: scaled"]
    assert shown(lambda: None) == []


def test_the_profiler_of_autograd_shows_them_too():
    compiled = tracer.optimize("eager")(scaled)
    compiled(torch.ones(3))
    with torch.autograd.profiler.profile() as profile:
        compiled(torch.ones(3))
    assert [event.name for event in profile.function_events].count(OWN.lookup) == 1


def test_frames_behind_a_break_have_ranges_of_their_own_within_that_of_the_call():
    def broken(x):
        x = x.sin()
        print(end="")
        return x.cos()

    compiled = tracer.optimize("eager")(broken)
    compiled(torch.ones(3))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(torch.ones(3))
    runs = [event for event in profile.events() if event.name.startswith("shapetracer: ")]
    assert len(runs) == 2
    outer, inner = sorted(runs, key=lambda event: event.time_range.start)
    assert outer.name == f"shapetracer: {broken.__qualname__}"
    assert outer.time_range.end >= inner.time_range.end


def test_a_range_ends_where_the_call_raises():
    def failing(x, index):
        return x.sin()[index]

    compiled = tracer.optimize("eager")(failing)
    compiled(torch.ones(3), torch.tensor([1]))

    def call():
        with pytest.raises(IndexError):
            compiled(torch.ones(3), torch.tensor([7]))
        compiled(torch.ones(3), torch.tensor([1]))

    assert shown(call)[-2:] == [OWN.lookup, f"shapetracer: {failing.__qualname__}"]


def test_labels_are_texts():
    with pytest.raises(TypeError, match="set_profile_labels"):
        _C.set_profile_labels(OWN.lookup)  # type: ignore[call-arg]
