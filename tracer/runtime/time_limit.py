"""How long a compile may take. A trace checks the clock as it proceeds. A backend runs on a thread of its own, which is abandoned
when the time is up: its result is thrown away.

torch's compilers keep state for the whole process. So nothing else is compiled while an abandoned backend still runs.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from tracer import _C
from tracer.effects.torch_state import read_state, write_state
from tracer.errors import CompileTimeout
from tracer.runtime.ending_threads import end_now
from tracer.runtime.tracing_lock import TRACING, Delegation

T = TypeVar("T")
_abandoned: list[threading.Thread] = []


@atexit.register
def _end_abandoned() -> None:
    end_now(_abandoned)


def is_compiling() -> bool:
    """Whether an abandoned backend is still running."""
    for thread in list(_abandoned):
        if not thread.is_alive():
            with contextlib.suppress(ValueError):  # another thread has removed it
                _abandoned.remove(thread)
    return bool(_abandoned)


class TimeLimit:
    """The time that one compile has, counted from now; 0 seconds: no limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends = time.perf_counter() + seconds if seconds else float("inf")

    def refuse_while_abandoned_runs(self) -> None:
        """Raises CompileTimeout while an abandoned backend is still running."""
        if is_compiling():
            raise CompileTimeout(
                "a backend that exceeded its compile_timeout is still running; until it ends, nothing else is compiled"
            )

    def check(self) -> None:
        """Raises CompileTimeout when the time is up."""
        if time.perf_counter() > self.ends:
            raise self.exceeded("the trace")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What is done within takes no time."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.ends += time.perf_counter() - began

    def exceeded(self, what: str) -> CompileTimeout:
        return CompileTimeout(f"compiling took longer than the {self.seconds:g} seconds of compile_timeout; {what} was given up")

    def run(self, work: Callable[[], T]) -> T:
        """`work()`, or CompileTimeout when the time is up before it ends."""
        self.check()
        if not self.seconds:
            return work()
        task = _ThreadedWork(work)
        try:
            task.thread.start()
        except RuntimeError:  # no thread can be started: the work is done here, without a limit
            return work()
        try:
            with TRACING.delegate(task.delegation):
                task.may_begin.set()
                task.done.wait(max(0.0, self.ends - time.perf_counter()))
        finally:  # also on Ctrl-C while waiting
            task.may_begin.set()
            given_up = task.give_up()
            if given_up:
                _abandoned.append(task.thread)
        if given_up:
            raise self.exceeded("the backend")
        try:
            found: T = task.result()
            return found
        except _NotMovable:
            return work()


class _NotMovable(Exception):
    """Part of torch's state cannot be set on another thread, so the work has to be done on the caller's, without a limit."""


class _ThreadedWork:
    """Work on a thread of its own, under the settings and the torch state of the calling thread."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.may_begin, self.done, self.delegation = threading.Event(), threading.Event(), Delegation(active=False)
        self.thread = threading.Thread(target=self._run, name="tracer-backend", daemon=True)
        self._work: Callable[[], Any] | None = work
        self._context = contextvars.copy_context()
        self._state, self._inference, self._snapshot = read_state(), torch.is_inference_mode_enabled(), _C.GlobalState()
        self._lock = threading.Lock()
        self._given_up = False
        self._outcome: tuple[Any, BaseException | None] | None = None

    def give_up(self) -> bool:
        """Whether the work has no outcome yet; if so, a later one is discarded."""
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
        self.may_begin.wait()
        TRACING.act_for_owner(self.delegation)
        try:
            outcome = self._context.run(self._run_under_state), None
        except BaseException as error:
            outcome = None, error
        with self._lock:
            if not self._given_up:
                self._outcome = outcome
        self._work = None
        self.done.set()

    def _run_under_state(self) -> Any:
        assert self._work is not None
        with torch.inference_mode() if self._inference else contextlib.nullcontext():
            write_state(self._state)
            if not self._snapshot.check():
                raise _NotMovable
            return self._work()
