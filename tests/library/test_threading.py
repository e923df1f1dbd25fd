"""Locks made inside, and locks that other threads know."""

from __future__ import annotations

import threading

import torch

import tracer
from tests.support import breaks, captured, check

X = torch.arange(3.0)
LOCK = threading.Lock()


class Counter:
    def __init__(self):
        self.lock = threading.Lock()
        self.again = threading.RLock()
        self.n = 0

    def add(self):
        with self.lock, self.again, self.again:
            self.n += 1
            return self.n, self.lock.locked()


def test_the_trace_takes_a_lock_that_it_made():
    def f(x):
        counter = Counter()
        first = counter.add()
        counter.lock.acquire()
        held = counter.lock.locked()
        counter.lock.release()
        return x * 2, first, held, counter.lock.locked()

    captured(f, X)


def test_a_lock_that_is_held_where_the_graph_breaks_is_held_behind_it():
    def f(x):
        lock = threading.Lock()
        with lock:
            tracer.graph_break()
            inside = lock.locked()
        return x + 1, inside, lock.locked()

    check(f, X)


def test_cpython_takes_a_lock_that_other_threads_know_and_one_that_is_not_held():
    def f(x):
        with LOCK:
            return x + 1

    assert set(breaks(f, X).break_ids) == {"lock"}
    assert not LOCK.locked()

    def g(x):
        try:
            threading.Lock().release()
        except RuntimeError as error:
            return x + 1, str(error)

    breaks(g, X)
