"""How long a compile may take. A trace looks at the clock as it goes on; a backend, which cannot be made to, is run on a thread
of its own and left behind when its time is up: what it gives in the end is thrown away.

torch's compilers keep state for the whole process. So while one that was left behind still runs, nothing else is compiled.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from tracer import _C
from tracer.effects.torch_state import read_state, write_state
from tracer.errors import CompileTimeout
from tracer.runtime.tracing_lock import TRACING, Stay

T = TypeVar("T")
_left_behind: list[threading.Thread] = []


def is_compiling() -> bool:
    """Whether a backend that was given up is still at work."""
    for thread in list(_left_behind):
        if not thread.is_alive():
            with contextlib.suppress(ValueError):  # another thread was faster
                _left_behind.remove(thread)
    return bool(_left_behind)


class TimeLimit:
    """The time that one compile has, from now on; 0 seconds: as long as it takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends = time.perf_counter() + seconds if seconds else float("inf")

    def begin(self) -> None:
        """Raises CompileTimeout while a backend that was given up is still at work."""
        if is_compiling():
            raise CompileTimeout("a backend that was given up at its compile_timeout is still at work; nothing else is compiled")

    def check(self) -> None:
        """Raises CompileTimeout when the time is up."""
        if time.perf_counter() > self.ends:
            raise self.exceeded("the trace")

    def exceeded(self, what: str) -> CompileTimeout:
        return CompileTimeout(f"compiling took longer than the {self.seconds:g} seconds of compile_timeout; {what} was given up")

    def run(self, work: Callable[[], T]) -> T:
        """`work()`, or CompileTimeout when the time is up before it ends."""
        self.check()
        if not self.seconds:
            return work()
        task = _Task(work)
        try:
            task.thread.start()
        except RuntimeError:  # there are too many threads: as where there is no limit
            return work()
        try:
            with TRACING.host(task.stay):
                task.begin.set()
                task.done.wait(max(0.0, self.ends - time.perf_counter()))
        finally:  # Ctrl-C while it waits, too, leaves it behind
            task.begin.set()
            given_up = task.give_up()
            if given_up:
                _left_behind.append(task.thread)
        if given_up:
            raise self.exceeded("the backend")
        try:
            found: T = task.result()
            return found
        except _StaysHere:
            return work()


class _StaysHere(Exception):
    """Part of torch's state cannot be set on another thread: the work is done on its own, as long as it takes."""


class _Task:
    """Work on a thread of its own, under the settings and the torch state of the one that asks for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.begin, self.done, self.stay = threading.Event(), threading.Event(), Stay(welcome=False)
        self.thread = threading.Thread(target=self._run, name="tracer-backend", daemon=True)
        self._work: Callable[[], Any] | None = work
        self._context = contextvars.copy_context()
        self._state, self._inference, self._snapshot = read_state(), torch.is_inference_mode_enabled(), _C.GlobalState()
        self._lock = threading.Lock()
        self._given_up = False
        self._outcome: tuple[Any, BaseException | None] | None = None

    def give_up(self) -> bool:
        """Whether there is no outcome yet; there never will be one then."""
        with self._lock:
            self._given_up = self._outcome is None
            return self._given_up

    def result(self) -> Any:
        assert self._outcome is not None
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def _run(self) -> None:
        outcome: tuple[Any, BaseException | None]
        self.begin.wait()
        TRACING.visit(self.stay)
        try:
            outcome = self._context.run(self._under_its_state), None
        except BaseException as error:
            outcome = None, error
        with self._lock:
            if not self._given_up:
                self._outcome = outcome
        self._work = None
        self.done.set()

    def _under_its_state(self) -> Any:
        assert self._work is not None
        with torch.inference_mode() if self._inference else contextlib.nullcontext():
            write_state(self._state)
            if not self._snapshot.check():
                raise _StaysHere
            return self._work()
