"""CPython's garbage collector while a frame is traced."""

from __future__ import annotations

import gc
import os

import pytest
import torch

import tracer
from tracer.runtime.collector import OBJECTS, collecting_as_before, seldom_collecting


def long_chain(x):
    for number in range(400):
        x = x * number + 1
    return x


@pytest.fixture
def collections():
    """The generations that were collected."""
    seen = []

    def note(phase, info):
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_a_long_trace_is_not_interrupted_by_collections(collections):
    compiled = tracer.optimize("eager")(long_chain)
    before = gc.get_threshold()
    gc.collect()
    collections.clear()
    compiled(torch.ones(2))
    assert len(collections) < 3
    assert gc.get_threshold() == before


def test_a_backend_finds_the_collector_as_the_program_has_set_it():
    found = []

    def backend(gm, inputs):
        found.append(gc.get_threshold())
        return gm.forward

    tracer.optimize(backend)(long_chain)(torch.ones(2))
    assert found == [gc.get_threshold()]


@pytest.mark.parametrize("set_by_program", [(0, 10, 10), (OBJECTS + 1, 5, 5)])
def test_a_program_that_collects_by_hand_or_more_seldom_is_left_alone(set_by_program):
    before = gc.get_threshold()
    gc.set_threshold(*set_by_program)
    try:
        with seldom_collecting():
            assert gc.get_threshold() == set_by_program
        assert gc.get_threshold() == set_by_program
    finally:
        gc.set_threshold(*before)


def test_what_another_thread_sets_meanwhile_stays():
    before = gc.get_threshold()
    try:
        with seldom_collecting():
            gc.set_threshold(50, 5, 5)
        assert gc.get_threshold() == (50, 5, 5)
    finally:
        gc.set_threshold(*before)


def test_a_trace_in_a_trace_leaves_the_collector_as_it_finds_it():
    before = gc.get_threshold()
    with seldom_collecting():
        raised = gc.get_threshold()
        with collecting_as_before():
            assert gc.get_threshold() == before
            with seldom_collecting():
                assert gc.get_threshold() == raised
            assert gc.get_threshold() == before
        with seldom_collecting():
            pass
        assert gc.get_threshold() == raised
    assert gc.get_threshold() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked on this platform")
def test_a_child_that_is_forked_during_a_trace_collects_as_before():
    before = gc.get_threshold()
    with seldom_collecting():
        child = os.fork()
        if not child:
            os._exit(int(gc.get_threshold() != before))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
