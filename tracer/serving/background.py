"""A worker thread that traces missed calls, while the requests that missed run in CPython.

It traces a call under the torch state of the thread that made it, and installs the entry when it is complete. A call that some
entry serves by the time its turn comes is not traced.
"""

from __future__ import annotations

import atexit
import contextvars
import dataclasses
import logging
import os
import threading
import types
from collections import deque
from typing import Any

import torch

from tracer import _C, metrics
from tracer.runtime.ending_threads import end_now
from tracer.runtime.guarded_code import entries_of, find_entry
from tracer.runtime.region_state import RegionState
from tracer.runtime.thread_state import ThreadState

MOST_WAITING = 64  # length of the queue, for all regions; further misses are dropped, and queued when they happen again
log = logging.getLogger("tracer")


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """A call to be traced, with the settings and the torch state of the thread that made it."""

    state: RegionState
    function: types.FunctionType
    args: tuple[Any, ...]
    key: Any
    context: contextvars.Context
    thread_state: ThreadState
    snapshot: Any

    @classmethod
    def of(cls, state: RegionState, function: types.FunctionType, args: tuple[Any, ...], key: Any) -> Job:
        return cls(state, function, args, key, contextvars.copy_context(), ThreadState.now(), _C.GlobalState())

    def is_served(self) -> bool:
        """Whether some entry serves the call by now."""
        entries = entries_of(self.state.region, self.function.__code__, self.function.__globals__)
        return find_entry(entries, self.function, self.args) is not None


@dataclasses.dataclass
class _InVain:
    """Of calls alike that gave no entry: how often they missed since, and how often they are to miss until one is tried again."""

    missed: int = 0
    wanted: int = 1

    def is_due(self) -> bool:
        self.missed += 1
        return self.missed >= self.wanted


class Worker:
    """A queue of jobs, and the thread that does them. The thread starts with the first job and ends when the queue is empty."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._pending: set[Any] = set()
        self._in_vain: dict[Any, _InVain] = {}  # calls that gave no entry, the last tried at the end
        self._thread: threading.Thread | None = None
        self._idle = threading.Condition(self._lock)
        self._ended = False

    def has_room_for(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether the queue has room for the call and holds none like it. A cheap check without the lock: after a cold start,
        when every request misses, the requests should leave the GIL to the worker."""
        key = _key(state, function, args)
        known = self._in_vain.get(key)
        if known is not None and not known.is_due():
            return False
        return len(self._jobs) < MOST_WAITING and key not in self._pending

    def add(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Queues a call; returns whether it was queued. It is not if the queue is full or holds a call like it."""
        key = _key(state, function, args)
        with self._lock:
            if key in self._pending or len(self._jobs) >= MOST_WAITING:
                return False
            self._pending.add(key)
        job = Job.of(state, function, args, key)
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tracer-background", daemon=True)
                self._thread.start()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the queue is empty and the worker idle. False if that takes longer than `timeout` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: self._thread is None, timeout)

    def forget(self) -> None:
        """Empties the queue."""
        with self._lock:
            for job in self._jobs:
                self._pending.discard(job.key)
            self._jobs.clear()

    def end(self) -> None:
        """As the process ends: nothing more is traced, and what is being traced is given up."""
        self.forget()
        thread, self._ended = self._thread, True
        if thread is not None:
            end_now([thread])

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._pending.clear()
                    self._thread = None
                    self._idle.notify_all()
                    return
                job = self._jobs.popleft()
            try:
                outcome = job.context.run(_trace, job)
            except BaseException as error:  # the request runs in CPython and needs no entry
                outcome = "failed"
                if self._ended:
                    return
                log.warning("tracing %s in the background failed: %s", job.function.__qualname__, error, exc_info=True)
            metrics.counters["background"][outcome] += 1
            with self._lock:
                self._pending.discard(job.key)
                self._note(job.key, outcome)
            del job

    def _note(self, key: Any, outcome: str) -> None:
        known = self._in_vain.pop(key, None) or _InVain()
        if outcome in ("failed", "refused"):
            known.missed, known.wanted = 0, 2 * known.wanted
            self._in_vain[key] = known
            while len(self._in_vain) > MOST_WAITING:
                self._in_vain.pop(next(iter(self._in_vain)))


def _trace(job: Job) -> str:
    with job.thread_state.entered():
        if not job.snapshot.check():
            return "another torch state"
        if job.is_served():
            return "served"
        answer = job.state.trace_in_background(job.function, job.args)
    code = job.function.__code__
    if answer is _C.SKIP:
        job.state.region.skip(code)
        return "skipped"
    if answer is None:
        return "refused"
    job.state.region.install(code, job.function.__globals__, answer, True)
    return "compiled"


def _key(state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
    return id(state), id(function.__code__), id(function.__globals__), _signature(args)


def _signature(args: tuple[Any, ...]) -> Any:
    """A key that is mostly the same for calls that one entry would serve."""
    return tuple([(tuple(arg.shape), arg.dtype) if isinstance(arg, torch.Tensor) else type(arg) for arg in args])


WORKER = Worker()


def _end() -> None:
    WORKER.end()


def _start_anew_in_child() -> None:
    global WORKER
    WORKER = Worker()


atexit.register(_end)
os.register_at_fork(after_in_child=_start_anew_in_child)  # whose only thread is the one that forked
