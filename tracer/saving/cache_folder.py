"""The folder of `config.cache_dir`: entries that processes of one user leave for each other, without being asked.

A file holds one entry. It lies in a folder that is named after what was compiled and how, so that a miss reads only what may
serve it. It is written by a thread of its own, once the entry is installed. The least recently used files go when the folder is
full.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import hashlib
import logging
import os
import queue
import stat
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracer import _C, config, logs, metrics
from tracer.errors import UserError
from tracer.runtime import twins
from tracer.runtime.guarded_code import passes
from tracer.runtime.misses import note_sizes
from tracer.runtime.region_state import RegionState
from tracer.runtime.tracing_lock import TRACING
from tracer.saving.entries import check_readable, load_entry, save_entry
from tracer.saving.fingerprints import Differs, Refused
from tracer.saving.format import decoded, encoded, header_for, mismatch, variants_text
from tracer.serving.target import Target
from tracer.whole_files import write_whole

MOST_TRIED = 64  # files that one miss reads, the newest first
_ENDING = ".entries"
_ABANDONED = 3600  # seconds after which a file that was never finished is removed
log = logging.getLogger("tracer")


def find(state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> _C.Entry | None:
    """See `Store.find`. Raises UserError for a folder that others may write to."""
    if not _takes_part(state, args):
        return None
    target = _target(state, function, args)
    for path in _newest_first(_folder(target))[:MOST_TRIED]:
        key = path.name, id(function.__code__), id(function.__globals__)
        if key not in state.stored:
            state.stored[key] = _loaded(path, target)
        entry = state.stored[key]
        if entry is not None and entry.valid and passes(entry.guarded_code, function, args):
            with contextlib.suppress(OSError):  # a folder that may only be read
                os.utime(path)
            note_sizes(state.frame_state(function), function, args)
            metrics.counters["saving"]["loaded"] += 1
            state.record_event("load", function, f"an entry was loaded from {path}", entry=entry, args=args)
            return entry
    return None


def keep(state: RegionState, function: types.FunctionType, args: tuple[Any, ...], entry: _C.Entry) -> None:
    """See `Store.keep`. What cannot be written is told in the log artifact `cache`."""
    if _takes_part(state, args) and not _is_followed(state, entry):
        _WRITER.put(_target(state, function, args), entry)


def flush() -> None:
    """Waits until all that was compiled is written."""
    _WRITER.flush()


def _takes_part(state: RegionState, args: tuple[Any, ...]) -> bool:
    """Whether entries of a region are stored: nobody watches its traces, and it is no call that is only thought of."""
    told_of_breaks = state.shapes is not None  # by the break that a certificate sees in the entry
    watched = any(getattr(state, hook) is not None for hook in twins.HOOKS if hook != "on_break" or not told_of_breaks)
    return state.backend.is_built_in and not watched and not config.verify_correctness and id(args) not in state.ahead


def _is_followed(state: RegionState, entry: _C.Entry) -> bool:
    """Whether a certificate follows an entry through its break, by what the trace knew of the values that it hands over."""
    return state.shapes is not None and bool(entry.guarded_code.broken)


def _target(state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> Target:
    code = function.__code__
    of_object = state.is_of_module and code in state.roots and code not in state.resume_codes
    return Target(types.SimpleNamespace(function=function), state, args[:1] if of_object else ())


def _loaded(path: Path, target: Target) -> _C.Entry | None:
    """The entry of a file; None if it is not for here, and the log artifact `cache` says why."""
    reason = ""
    try:
        header, parts, damage = decoded(path.read_bytes(), None, path)
        reason = "".join(damage) if header is None or damage else mismatch(header, header_for(target)) or ""
        if not reason:
            data, _ = parts[0]
            assert data is not None  # else there is damage
            return load_entry(data, target)
    except Differs as error:
        reason = str(error)
    except Exception as error:
        reason = f"it cannot be read ({type(error).__name__}: {error})"
    metrics.counters["saving"]["refused"] += 1
    logs.emit("cache", lambda: f"NOT LOADED {path.name} for {target.function.__qualname__}: {reason}")
    return None


# -- the folder ---------------------------------------------------------------------------------------------------


def _folder(target: Target) -> Path:
    """The folder for a function that is compiled in one way. What may differ within it, the heads of its files say."""
    state, function = target.state, target.function
    about = (
        function.__module__, function.__qualname__, state.backend.name, state.backend.described_options(),
        state.fullgraph, state.dynamic, state.shapes,
    )  # fmt: skip
    return checked_folder(Path(config.cache_dir)) / hashlib.sha256(repr(about).encode()).hexdigest()[:32]


def checked_folder(path: Path) -> Path:
    """The folder, which is made if there is none. Raises UserError if others than its user may write to it: what lies there is
    code that is run."""
    try:
        path = Path(os.path.expanduser(path))
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = path.stat()
    except OSError as error:
        raise UserError(f"config.cache_dir: {path} cannot be used: {error}", hint="name a folder of yours.") from None
    if hasattr(os, "geteuid") and about.st_uid != os.geteuid():
        raise UserError(
            f"config.cache_dir: {path} belongs to user {about.st_uid}, and this process runs as {os.geteuid()}. What is there is "
            "run as code",
            hint="name a folder of your own.",
        )
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(
            f"config.cache_dir: others may write to {path} ({stat.filemode(about.st_mode)}). What lies there is run as code",
            hint=f"chmod go-w {path}",
        )
    return path


def _newest_first(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry, _ in sorted(_files(folder), key=lambda found: -found[1].st_mtime_ns)]


def _files(folder: Path, ending: str = _ENDING) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                if entry.name.endswith(ending):
                    yield entry, entry.stat(follow_symlinks=False)


def _keep_within_bounds(root: Path) -> None:
    """Removes files that were never finished, and the least recently used ones while there is more than `config.cache_size`."""
    found, now = [], time.time()
    with os.scandir(root) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        found += list(_files(folder))
        for entry, about in _files(folder, ".new"):
            if now - about.st_mtime > _ABANDONED:
                Path(entry.path).unlink(missing_ok=True)
    total = sum(about.st_size for _, about in found)
    for entry, about in sorted(found, key=lambda each: each[1].st_mtime_ns):
        if total <= config.cache_size * 2**20:
            return
        Path(entry.path).unlink(missing_ok=True)
        total -= about.st_size


# -- writing ------------------------------------------------------------------------------------------------------


class _Writer:
    """A thread that writes entries. The process waits for it when it ends."""

    def __init__(self) -> None:
        self.todo: queue.Queue[tuple[Target, _C.Entry, dict[str, Any], contextvars.Context]] = queue.Queue()
        self.thread: threading.Thread | None = None

    def put(self, target: Target, entry: _C.Entry) -> None:
        # Settings of torch's compilers, even those of the whole program, are in the context of the thread that set them.
        self.todo.put((target, entry, config.snapshot(), contextvars.copy_context()))
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self._run, name="tracer-cache", daemon=True)
            self.thread.start()

    def flush(self) -> None:
        if self.thread is not None and self.thread.is_alive():
            self.todo.join()

    def _run(self) -> None:
        while True:
            self._write_next()
            self.todo.task_done()

    def _write_next(self) -> None:
        """A function of its own, so that nothing is kept alive while the thread waits."""
        target, entry, settings, context = self.todo.get()
        try:
            context.run(_write, target, entry, settings)
        except Exception as error:
            log.warning("config.cache_dir: what was compiled is not kept for other processes: %s", error)


def _write(target: Target, entry: _C.Entry, settings: dict[str, Any]) -> None:
    with config.patch(settings):
        _write_with_settings(target, entry)


def _write_with_settings(target: Target, entry: _C.Entry) -> None:
    try:
        with TRACING:
            part = save_entry(entry, target)
            check_readable(part, entry, target)
    except Refused as error:
        reason = str(error)
        logs.emit("cache", lambda: f"NOT KEPT {target.function.__qualname__}: {reason}")
        return
    data = encoded(header_for(target) | {"variants": variants_text([])}, [(part, None)])
    folder = _folder(target)
    folder.mkdir(mode=0o700, exist_ok=True)
    write_whole(folder / f"{hashlib.sha256(data).hexdigest()[:32]}{_ENDING}", data)
    logs.emit("cache", lambda: f"KEPT {target.function.__qualname__}: {len(data)} bytes")
    _keep_within_bounds(folder.parent)


def _in_child() -> None:
    global _WRITER
    _WRITER = _Writer()  # the thread has stayed with the parent


_WRITER = _Writer()
atexit.register(flush)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
