"""`threading.local` and classes of it: each thread has its own attributes."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.support import captured, check
from tracer import optimize
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(3.0)
PER_THREAD = threading.local()


class Initialised(threading.local):
    def __init__(self):
        self.scale = 3


PER_THREAD_OF_A_CLASS = Initialised()


def test_a_thread_local_holds_what_this_thread_put_there(monkeypatch):
    monkeypatch.setattr(PER_THREAD, "weight", torch.full((2,), 3.0), raising=False)

    def program(x):
        return x * PER_THREAD.weight

    assert captured(program, torch.ones(2)).operations == ["mul"]
    traced = compiled(program, Settings())
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 3.0))
    seen = []

    def in_another_thread():
        with pytest.raises(AttributeError):
            traced(torch.ones(2))
        PER_THREAD.weight = 5
        seen.append(traced(torch.ones(2)))

    thread = threading.Thread(target=in_another_thread)
    thread.start(), thread.join()
    assert torch.equal(seen[0], torch.full((2,), 5.0))
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 3.0))


def test_what_a_thread_local_lacks_or_makes_itself_is_asked_of_it():
    def program(x):
        try:
            found = PER_THREAD.missing
        except AttributeError:
            found = 2
        return x + found + PER_THREAD_OF_A_CLASS.scale

    check(program, torch.ones(2))
    PER_THREAD.missing = 7
    try:
        check(program, torch.ones(2))
    finally:
        del PER_THREAD.missing


def test_an_attribute_that_a_thread_may_lack_is_asked_for_and_set():
    state = threading.local()
    state.scale = 3.0

    def fn(x):
        depth = getattr(state, "depth", 0)
        state.depth = depth + 1
        return x * state.scale + state.depth, hasattr(state, "nothing")

    run = optimize("eager", fullgraph=True)(fn)
    seen = [run(X)[0], run(X)[0]]
    del state.depth
    assert torch.equal(seen[0], fn(X)[0]) and torch.equal(seen[1], fn(X)[0]) and state.depth == 2


def test_the_dict_of_a_thread_local_is_that_of_this_thread():
    state = threading.local()

    def program(x):
        names = state.__dict__
        names["calls"] = names.get("calls", 0) + 1
        held = "scale" in names
        return x * names.get("scale", 2.0) + names.setdefault("bias", 1), held, list(names), vars(state)["calls"]

    run = optimize("eager", fullgraph=True)(program)

    def calls() -> list[object]:
        state.__dict__.clear()
        first = run(X)
        state.scale = 3.0
        second = run(X)
        del state.__dict__["scale"]
        return [*first[1:], *second[1:], *run(X)[1:], first[0].tolist(), second[0].tolist()]

    assert torch.equal(run(X)[0], X * 2 + 1) and state.calls == 1 and state.bias == 1
    here, elsewhere = calls(), []
    thread = threading.Thread(target=lambda: elsewhere.extend(calls()))
    thread.start(), thread.join()
    run = program
    assert here == elsewhere == calls()


def test_an_item_is_removed_from_the_dict_of_a_thread_local():
    state = threading.local()

    def program(x):
        state.depth = 4
        depth = state.__dict__.pop("depth")
        return x + depth, hasattr(state, "depth")

    check(program, X)
    assert not hasattr(state, "depth")


class OfEachThread(threading.local):
    depth = 0

    def __init__(self, scale=2.0):
        self.scale = scale

    @property
    def doubled(self):
        return self.scale * 2

    def scaled(self, x):
        return x * self.scale


class Answering(threading.local):
    def __getattr__(self, name):
        return f"no {name}"


@pytest.mark.parametrize("state", [OfEachThread(5.0), Answering()], ids=["with methods", "with __getattr__"])
def test_an_object_of_a_class_of_thread_locals_is_read_like_any_other(state):
    def program(x):
        missing = (
            hasattr(state, "missing"),
            getattr(state, "absent", None),
            sorted(state.__dict__),
            isinstance(state, threading.local),
        )
        return (state.scaled(x) if type(state) is OfEachThread else x + 1), missing, state.doubled, state.depth

    captured(program, X)


def test_each_thread_initialises_and_changes_an_object_of_its_own():
    state = OfEachThread(3.0)

    def program(x):
        state.depth += 1
        return state.scaled(x) + state.depth

    run = optimize("eager", fullgraph=True)(program)

    def calls(seen):
        seen.append(run(X).tolist())
        state.scale = 4.0
        seen.append(run(X).tolist())
        seen.append(dict(vars(state)))

    here, elsewhere = [], []
    calls(here)
    thread = threading.Thread(target=calls, args=(elsewhere,))
    thread.start(), thread.join()
    assert here == elsewhere == [(X * 3 + 1).tolist(), (X * 4 + 2).tolist(), {"scale": 4.0, "depth": 2}]
