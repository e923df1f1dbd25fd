"""Events: data about what happened, filled, that show no value of the program and keep none alive."""

from __future__ import annotations

import json
import pickle
import sys
import threading
import weakref

import pytest
import torch

import tracer
from tests.support.checking import collect_garbage
from tracer.metrics import EVENTS, Event, Input

PROMPT = "the secret prompt"
TOKEN = 8128496


def scored(x, tokens, prompt, n):
    return x * tokens[0] * n if prompt.startswith("the") else x


@pytest.fixture
def events():
    seen: list[Event] = []
    remove = tracer.add_callback(seen.append)
    yield seen
    remove()


def call(compiled, x, tokens=(TOKEN, 2), prompt=PROMPT, n=3):
    return compiled(x, list(tokens), prompt, n)


def provoke(tmp_path):
    """All kinds of events, of calls with secrets."""
    compiled = tracer.compile(scored, name="scored", recompile_limit=3, dynamic=False)
    for size in (2, 3):
        call(compiled, torch.ones(size))
    call(compiled, torch.ones(2), tokens=(TOKEN + 1, 2))
    with pytest.warns(UserWarning, match="recompile_limit"):
        call(compiled, torch.ones(2), prompt=PROMPT + "!")
    tracer.save(compiled, tmp_path / "entries")
    tracer.load(tracer.compile(scored), tmp_path / "entries")
    call(small := tracer.compile(scored, capacity=1), torch.ones(2))
    call(small, torch.ones(2), prompt=PROMPT + "?")
    compiled.seal()
    for bad in ({"tokens": (TOKEN + 2, 2)}, {"prompt": PROMPT * 2}, {"n": 4}):
        with pytest.raises(tracer.exc.SealedError):
            call(compiled, torch.ones(2), **bad)
    two = tracer.compile(lambda x: x * 2 if x.shape[0] else x, shapes="x: B; B in 1..64")
    two(torch.ones(1))
    breaking = tracer.compile(lambda x, prompt: print(end=prompt[:0]) or x + 1)
    breaking(torch.ones(2), PROMPT)
    tracer.compile(lambda x, prompt: (sys._getframe(), x)[1])(torch.ones(2), PROMPT)


def test_every_event_is_filled_and_shows_no_value(events, tmp_path):
    provoke(tmp_path)
    assert {"compile", "load", "recompile", "break", "miss", "skip", "limit", "evict"} <= {event.kind for event in events}
    for event in events:
        assert event.kind in EVENTS and event.detail and event.thread == threading.current_thread().name
        if event.kind in ("miss", "recompile", "limit", "evict", "compile", "load"):
            text = f"{event!r} {event.detail} {event.data()}"
            assert PROMPT not in text and str(TOKEN)[:4] not in text, text


def test_a_recording_shows_no_value_of_a_call_that_missed(tmp_path):
    stop = tracer.record(tmp_path / "records")
    try:
        provoke(tmp_path)
    finally:
        stop()
    (file,) = (tmp_path / "records").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    misses = [line for line in lines if line["kind"] in ("miss", "recompile", "limit", "requests")]
    assert len(misses) > 5 and PROMPT not in str(misses) and str(TOKEN)[:4] not in str(misses)
    assert all(line["dtypes"]["L['x']"] == "torch.float32" for line in lines if line["kind"] == "miss" and "dtypes" in line)


def test_an_event_keeps_no_tensor_alive(events):
    x = torch.ones(3)
    gone = weakref.ref(x)
    tracer.compile(lambda x: x + 1)(x)
    del x
    collect_garbage()
    assert gone() is None and [event.kind for event in events] == ["miss", "compile"]


def test_a_miss_says_why_by_whom_and_for_what(events):
    compiled = tracer.compile(scored, shapes="x: B; B in 2..8", name="mine")
    call(compiled, torch.ones(3))
    compiled.seal("eager")
    bad = {
        "undeclared": (torch.ones(9), "is 9, but it was declared as 2 <= B <= 8"),
        "guards": (torch.ones(3, dtype=torch.float64), "dtype mismatch. expected torch.float32, actual torch.float64"),
    }
    with pytest.warns(UserWarning, match="sealed"):
        for x, _ in bad.values():
            call(compiled, x)
    first, compiling, seal, *others = events
    assert (seal.kind, seal.policy) == ("seal", "eager")
    assert (first.reason, first.policy, compiling.kind) == ("no entry", "trace", "compile")
    assert first.inputs == (Input("L['x']", "torch.float32", (3,)), Input("L['n']", "int", None, 3))
    assert compiling.entry == tracer.stats(compiled)["entries"][0]["graph"] and compiling.seconds > 0
    assert [(event.kind, event.reason, event.policy) for event in others] == [("miss", reason, "eager") for reason in bad]
    assert all(words in event.detail for event, (_, words) in zip(others, bad.values(), strict=True))
    assert "L['x']: float64[3]" in map(str, others[1].inputs) and others[0].region == "mine"


def test_a_call_with_a_nested_tensor_is_told_without_its_sizes(events):
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    doubled = tracer.compile(lambda x, y: (x * 2, y * 2))(nested, torch.ones(3))
    assert doubled[0].is_nested and [str(each) for each in events[0].inputs] == ["L['y']: float32[3]"]


def test_the_policy_is_the_stance_where_that_decides(events):
    compiled = tracer.compile(scored)
    with tracer.set_stance("fail_on_recompile"), pytest.raises(tracer.exc.RecompileError):
        call(compiled, torch.ones(3))
    assert [event.policy for event in events] == ["fail_on_recompile"]


def test_events_are_pickled_as_data(events):
    call(tracer.compile(scored), torch.ones(3))
    again = pickle.loads(pickle.dumps(events))
    assert [each.data() for each in again] == [each.data() for each in events] and not again[0].about
    assert repr(again) == repr(events) and "L['x']" in repr(again)
