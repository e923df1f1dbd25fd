"""One worker that traces what was missed, while the request that missed runs in CPython.

It traces the call as it was made, under the torch state of the thread that made it, and installs the entry in one step. What
an entry serves by the time its turn comes is not traced again, so that nothing is compiled twice.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import logging
import os
import threading
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from tracer import _C, metrics
from tracer.effects.torch_state import read_state, write_state
from tracer.runtime.guarded_code import entries_of, find_entry
from tracer.runtime.region_state import RegionState

MOST_WAITING = 64  # calls, of all regions, that wait to be traced; what is missed beyond that runs in CPython, and may come again
log = logging.getLogger("tracer")


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """A call to be traced, with the settings and the torch state of its thread."""

    state: RegionState
    function: types.FunctionType
    args: tuple[Any, ...]
    key: Any
    context: contextvars.Context
    torch_state: Any
    inference: bool
    snapshot: Any

    @classmethod
    def of(cls, state: RegionState, function: types.FunctionType, args: tuple[Any, ...], key: Any) -> Job:
        inference = torch.is_inference_mode_enabled()
        return cls(state, function, args, key, contextvars.copy_context(), read_state(), inference, _C.GlobalState())

    def is_served(self) -> bool:
        """Whether an entry that was made meanwhile serves the call."""
        entries = entries_of(self.state.region, self.function.__code__, self.function.__globals__)
        return find_entry(entries, self.function, self.args) is not None

    @contextlib.contextmanager
    def as_there(self) -> Iterator[None]:
        """Within, torch's state of this thread is that of the thread that made the call."""
        before = read_state()
        with torch.inference_mode(self.inference) if self.inference else contextlib.nullcontext():
            write_state(self.torch_state)
            try:
                yield
            finally:
                write_state(before)


class Worker:
    """The jobs that wait, in order, and the thread that does them: it starts with the first and ends when none is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._pending: set[Any] = set()
        self._thread: threading.Thread | None = None
        self._idle = threading.Condition(self._lock)

    def would_take(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether none like the call waits, and there is room. Cheap, without the lock: where everything misses, as after a cold
        start, what requests do about it is not to keep the worker from Python's lock."""
        return len(self._jobs) < MOST_WAITING and _key(state, function, args) not in self._pending

    def add(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether the call was taken; one like it that waits already is enough."""
        key = _key(state, function, args)
        with self._lock:
            if key in self._pending or len(self._jobs) >= MOST_WAITING:
                return False
            self._pending.add(key)
        job = Job.of(state, function, args, key)
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tracer-background", daemon=False)
                self._thread.start()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Until nothing waits; False if that took longer than `timeout` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: self._thread is None, timeout)

    def forget(self) -> None:
        """What waits is not traced; a miss of its kind comes again."""
        with self._lock:
            for job in self._jobs:
                self._pending.discard(job.key)
            self._jobs.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs or not threading.main_thread().is_alive():
                    self._jobs.clear()
                    self._pending.clear()
                    self._thread = None
                    self._idle.notify_all()
                    return
                job = self._jobs.popleft()
            try:
                outcome = job.context.run(_trace, job)
            except BaseException as error:  # a request that runs in CPython is not to suffer from it
                outcome = "failed"
                log.warning("tracing %s in the background failed: %s", job.function.__qualname__, error, exc_info=True)
            metrics.counters["background"][outcome] += 1
            with self._lock:
                self._pending.discard(job.key)
            del job


def _trace(job: Job) -> str:
    with job.as_there():
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
    """What calls that would get the same entry mostly have in common."""
    return tuple([(tuple(arg.shape), arg.dtype) if isinstance(arg, torch.Tensor) else type(arg) for arg in args])


WORKER = Worker()


def _begin_again() -> None:
    global WORKER
    WORKER = Worker()


os.register_at_fork(after_in_child=_begin_again)  # whose only thread is the one that forked
