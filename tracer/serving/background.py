"""A worker thread that traces missed calls, while the requests that missed run in CPython.

It traces a call under the torch state of the thread that made it, and installs the entry when it is complete. A call that some
entry serves by the time its turn comes is not traced. `metrics.counters["background"]` counts what became of the calls.
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
    key: Any  # see `_key`
    context: contextvars.Context  # with the overlays of `config`
    thread_state: ThreadState  # the part of torch's state that can be set on another thread
    snapshot: Any  # all of torch's state: whether setting that part has restored it

    @classmethod
    def of(cls, state: RegionState, function: types.FunctionType, args: tuple[Any, ...], key: Any) -> Job:
        return cls(state, function, args, key, contextvars.copy_context(), ThreadState.now(), _C.GlobalState())

    def is_served(self) -> bool:
        """Whether some entry serves the call by now."""
        entries = entries_of(self.state.region, self.function.__code__, self.function.__globals__)
        return find_entry(entries, self.function, self.args) is not None


@dataclasses.dataclass
class _Failures:
    """Calls with one key for which tracing gave no entry. Each failure doubles the number of misses until the next attempt."""

    missed: int = 0  # since the last attempt
    wanted: int = 1  # misses until the next one

    def count_miss(self) -> bool:
        """Counts a miss; returns whether it is time for another attempt."""
        self.missed += 1
        return self.missed >= self.wanted


class Worker:
    """A queue of jobs, and the thread that does them. The thread starts with the first job and ends when the queue is empty."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._pending: set[Any] = set()
        self._failures: dict[Any, _Failures] = {}  # by key, in the order of the last attempt
        self._thread: threading.Thread | None = None
        self._idle = threading.Condition(self._lock)
        self._ended = False

    def has_room_for(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether the call can be queued now: there is room, no call with its key waits, and none has failed too recently. Called
        once for each miss, which it counts. A cheap check without the lock: after a cold start, when every request misses, the
        requests should leave the GIL to the worker."""
        key = _key(state, function, args)
        failures = self._failures.get(key)
        if failures is not None and not failures.count_miss():
            return False
        return len(self._jobs) < MOST_WAITING and key not in self._pending

    def add(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Queues a call; returns whether it was queued. It is not if the queue is full or holds a call with its key."""
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
        """At the end of the process: empties the queue and stops the thread, in the middle of a trace if need be."""
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
        failures = self._failures.pop(key, None) or _Failures()
        if outcome in ("failed", "refused"):
            failures.missed, failures.wanted = 0, 2 * failures.wanted
            self._failures[key] = failures
            while len(self._failures) > MOST_WAITING:
                self._failures.pop(next(iter(self._failures)))


def _trace(job: Job) -> str:
    """Traces a call and installs the entry. Returns what became of it: "compiled"; "served" by another entry meanwhile;
    "skipped", because the code is never traced; "refused", because it is not traced now; or "another torch state", because that
    of the calling thread cannot be set on this one."""
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
    """Calls with the same key are queued once. A job keeps alive what its key names by address. A key in `_failures` may outlive
    these objects: at worst, a call of others with their addresses is traced later."""
    return id(state), id(function.__code__), id(function.__globals__), _signature(args)


def _signature(args: tuple[Any, ...]) -> Any:
    """The types of the arguments, and the shapes and dtypes of tensors. Calls that one entry would serve may differ in it: then
    both are queued, and `Job.is_served` finds the entry of the first."""
    return tuple([(tuple(arg.shape), arg.dtype) if isinstance(arg, torch.Tensor) else type(arg) for arg in args])


WORKER = Worker()


def _end() -> None:
    WORKER.end()


def _start_anew_in_child() -> None:
    global WORKER
    WORKER = Worker()


atexit.register(_end)
os.register_at_fork(after_in_child=_start_anew_in_child)  # whose only thread is the one that forked
