"""Writes events to a file, one line each. Each process has a file of its own, so that many may share a directory.

Recording never makes a call fail: an error (a full disk, a directory that cannot be written) is logged once and ends the
recording.
"""

from __future__ import annotations

import atexit
import itertools
import json
import logging
import os
import platform
import secrets
import sys
import threading
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tracer import metrics
from tracer.metrics import Event
from tracer.report import contents
from tracer.report.records import SUFFIX, VERSION

if TYPE_CHECKING:
    from tracer import _C
    from tracer.runtime.guarded_code import GuardedCode
    from tracer.runtime.missed_calls import MissedCall
    from tracer.runtime.region_state import RegionState

PERIOD = 1.0  # seconds between two records of the requests that hit
LONGEST_RUN = 3600.0  # seconds: what is noted of runs for whose length there is no bound, as JSON has no infinity
MOST_CAUSES_EXPLAINED = 50  # misses of one function, each of another cause, that are recorded with the guards that fail
MOST_POINTS = 4096  # different sizes of calls of one entry in that time; further ones are counted together
MOST_MISSES = 500  # misses of one function with a record of their own; further ones are counted as requests are
log = logging.getLogger("tracer")


class Recorder:
    """Records the events of this process to a directory, from `start` to `stop`."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._lock = threading.RLock()  # reentrant, since a garbage collection may run finalizers that cause events
        self._file: int | None = None  # opened with the first record: a process that compiles nothing leaves none
        self._name = ""
        self._parent = ""  # the name of the file of the process that this one was forked from
        self._ended = False
        self._numbers = itertools.count(1)
        self._known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # regions, and the managers of entries
        self._hit_counts: dict[tuple[int, int, int], _Hits] = {}
        self._timed: dict[int, tuple[weakref.ref[_C.Entry], _Latencies]] = {}  # by number; the latencies that were written
        self._misses: Counter[tuple[str, int]] = Counter()
        self._explained: dict[tuple[str, int], set[Any]] = {}  # causes of misses
        self._writer: threading.Thread | None = None  # writes what calls were counted
        self._removals: list[Callable[[], None]] = []

    def start(self) -> None:
        self._removals = [metrics.add_callback(self._on_event)]
        metrics.watch = self._watch_hits

    def stop(self) -> None:
        """Writes what is left, and listens no more. A second call does nothing."""
        self._end_on_error(self._flush)
        self._end()

    def _end(self) -> None:
        self._ended = True
        for stop in self._removals:
            stop()
        self._removals = []
        if metrics.watch == self._watch_hits:
            metrics.watch = None
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)

    def after_fork(self) -> None:
        """In a forked child: begins a new file. The child uses the entries of its parent, so the file names the parent's."""
        self._lock = threading.RLock()
        self._hit_counts, self._writer = {}, None
        timed = [(number, reference, reference()) for number, (reference, _) in self._timed.items()]
        self._timed = {number: (reference, _latencies(entry)) for number, reference, entry in timed if entry is not None}
        if self._file is not None:
            os.close(self._file)
            self._file, self._parent = None, self._name

    # -- what happens ------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        self._end_on_error(self._record_event, event)

    def _record_event(self, event: Event) -> None:
        state, code = event.about.get("state"), event.about.get("code")
        if event.about.get("reported"):
            return  # the limit was reported before, and the miss has a record
        if event.kind == "miss" and code is not None:
            line = code.co_filename, code.co_firstlineno
            self._misses[line] += 1
            if self._misses[line] > MOST_MISSES:
                return self._count((0, self._number(state)), code, event.inputs)
        record = contents.record_of(event, self._number)
        if state is not None:
            record["region_number"] = self._number(state)
        entry = event.about.get("entry")
        if entry is not None:
            record["entry"] = number = self._number(entry.guarded_code.manager)
            if event.kind in contents.MAKING:
                self._timed[number] = weakref.ref(entry), _latencies(entry)
        if event.kind == "miss" and code is not None:
            self._explain(record, event.about["missed"], line)
        record["thread"] = event.thread
        self._write(record)

    def _explain(self, record: dict[str, Any], missed: MissedCall, line: tuple[str, int]) -> None:
        """Adds the guards that fail to the record of a miss that is not traced, once for each cause."""
        causes = self._explained.setdefault(line, set())
        if record["policy"] == "trace" or record["reason"] != "guards" or len(causes) >= MOST_CAUSES_EXPLAINED:
            return
        cause = missed.cause()
        if cause not in causes:
            causes.add(cause)
            record["failures"] = contents.failures_of(missed)

    def _number(self, thing: Any) -> int:
        with self._lock:
            if thing not in self._known:
                self._known[thing] = next(self._numbers)
            return self._known[thing]

    def _watch_hits(self, state: RegionState, guarded: GuardedCode) -> Callable[..., Any]:
        """The check_fn of an entry, wrapped so that it counts the sizes of the calls for which it holds."""
        code = guarded.manager.code
        check_fn: Callable[..., Any] = guarded.check_fn
        if not contents.is_root(state, code):
            return check_fn
        number, parameters = self._number(guarded.manager), contents.parameters_of(guarded.manager.guards)

        def watched(*slots: Any) -> Any:
            found = check_fn(*slots)
            if (found is True or type(found) is tuple) and not self._ended:
                self._end_on_error(self._count_hit, number, code, slots, parameters)
            return found

        return watched

    def _count_hit(self, number: int, code: types.CodeType, slots: tuple[Any, ...], parameters: dict[contents.Path, Any]) -> None:
        self._count((number, 0), code, contents.sizes_of(code, slots, parameters))

    def _count(self, key: tuple[int, int], code: types.CodeType, sizes: contents.Sizes) -> None:
        """Counts a call. `key`: the number of the entry that served it, 0 if none did, and the number of the region."""
        with self._lock:
            counts = self._hit_counts.setdefault((*key, id(code)), (code, Counter()))[1]
            counts[sizes if sizes in counts or len(counts) < MOST_POINTS else ()] += 1
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(target=self._write_counts, name="tracer recording", daemon=True)
                self._writer.start()

    def _write_counts(self) -> None:
        """Writes what was counted, until nothing was in one period: a process that is idle has no such thread."""
        while not self._ended:
            time.sleep(PERIOD)
            with self._lock:
                if not self._hit_counts:
                    self._writer = None
                    return
            self._end_on_error(self._flush)

    def _flush(self) -> None:
        with self._lock:
            called, self._hit_counts = self._hit_counts, {}
        for (entry, region, _), (code, counts) in called.items():
            points = [{"sizes": contents.sizes_by_name(sizes), "count": count} for sizes, count in counts.items()]
            content = {"frame": contents.frame_of(code), "entry": entry, "region_number": region, "points": points}
            self._write({"kind": "requests", **content})
        self._write_latencies()

    def _write_latencies(self) -> None:
        """How long the runs of each entry took since the last record of that kind."""
        with self._lock:
            for number, (reference, (seconds, ranges)) in list(self._timed.items()):
                entry = reference()
                if entry is None:
                    del self._timed[number]
                    continue
                now = _latencies(entry)
                if now[1] != ranges:
                    self._timed[number] = reference, now
                    since = [
                        [min(bound, LONGEST_RUN), count - ranges.get(bound, 0)]
                        for bound, count in now[1].items()
                        if count > ranges.get(bound, 0)
                    ]
                    self._write({"kind": "latencies", "entry": number, "seconds": now[0] - seconds, "ranges": since})

    # -- writing -----------------------------------------------------------------------------------------------------

    def _end_on_error(self, do: Callable[..., None], *args: Any) -> None:
        """Calls a function; an exception in it ends the recording."""
        if self._ended:
            return
        try:
            do(*args)
        except Exception as error:
            self._give_up(error)

    def _write(self, record: dict[str, Any]) -> None:
        """Appends a line."""
        line = _line(record)
        with self._lock:
            if self._ended:
                return
            if self._file is None:
                self._file = self._open()
                line = _line({"kind": "process", **_process(), "parent": self._parent}) + line
            while line:
                line = line[os.write(self._file, line) :]

    def _open(self) -> int:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._name = f"{platform.node() or 'host'}-{os.getpid()}-{secrets.token_hex(4)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return os.open(self.directory / f"{self._name}{SUFFIX}", flags, 0o644)

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
        try:
            self._end()
            content = f"{type(error).__name__}: {error}"
            log.warning("recording to %s has stopped: %s. The program is not affected.", self.directory, content)
        except Exception:  # a handler of the program's own, or a file that cannot be closed
            return


_Hits = tuple[types.CodeType, Counter[contents.Sizes]]
_Latencies = tuple[float, dict[float, int]]  # sum of seconds, and counts by upper bound


def _latencies(entry: _C.Entry) -> _Latencies:
    total, ranges = entry.latencies or (0.0, ())
    return total, dict(ranges)


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps({"v": VERSION, "t": time.time(), **record}).encode() + b"\n"


def _process() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


_current: Recorder | None = None


def record(directory: str | os.PathLike[str]) -> Callable[[], None]:
    """Writes what is compiled, broken and missed from now on to files in a directory; returns what ends that.

    `python -m tracer report DIRECTORY` makes a page of it. What was compiled before is not told, so begin early; the requests
    that hit are counted for entries that are made from now on. A process records to one place at a time: the last wins.

    ```python
    stop = tracer.record("records")
    tracer.compile(lambda x: x + 1)(torch.ones(3))
    stop()
    ```
    """
    global _current
    if _current is not None:
        _current.stop()
    recorder = _current = Recorder(directory)
    recorder.start()
    return recorder.stop


def _at_exit() -> None:
    if _current is not None:
        _current.stop()


def _after_fork() -> None:
    if _current is not None:
        _current.after_fork()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
