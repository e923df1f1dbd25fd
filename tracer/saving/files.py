"""`save` and `load`: the file format, the check that a file is valid here, and the report about each entry.

A file is a magic line, a line of JSON (versions, settings, the function, and length and digest of each entry), and the entries.
It is code: whoever can write the file decides what the process that loads it runs.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import logging
import os
import pickle
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import shapes
import tracer
from tracer import _C, config, metrics
from tracer.errors import UserError
from tracer.runtime import upkeep
from tracer.runtime.tracing_lock import TRACING
from tracer.saving.entries import check_readable, load_entry, save_entry
from tracer.saving.fingerprints import Differs, Refused, digest, name_with_place
from tracer.serving.target import Target, target_of
from tracer.serving.variants import known_variants
from tracer.whole_files import write_whole

FORMAT = 5
MAGIC = b"shapetracer entries\n"
log = logging.getLogger("tracer")


@dataclasses.dataclass(frozen=True)
class Saving:
    """What was written: how many entries, and why each of the others was not."""

    saved: int
    refused: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.saved} entries saved", *(f"not saved: {reason}" for reason in self.refused)])


@dataclasses.dataclass(frozen=True)
class Loading:
    """What was installed: how many entries, and why each of the others was not. True in a condition if there are no others.
    `known`: how many were not needed, since what is there serves their calls."""

    loaded: int
    refused: tuple[str, ...]
    known: int = 0

    def __bool__(self) -> bool:
        return not self.refused

    def __str__(self) -> str:
        known = f", {self.known} were there" if self.known else ""
        return "\n".join([f"{self.loaded} entries loaded{known}", *(f"not loaded: {reason}" for reason in self.refused)])


def save(fn: Any, path: str | os.PathLike[str]) -> Saving:
    """Writes the entries of a compiled function or module to a file, for `tracer.load` in a process of the same versions.

    Entries that hold what no other process has (a graph that breaks, an object of the program's own, what another backend than
    eager made) are not saved, and the result says why. Each entry is read back before it counts. The file is written whole or not
    at all. Raises UserError for what was not compiled, and for a path that cannot be written.

    ```python
    def double(x):
        return x * 2

    compiled = tracer.compile(double)
    compiled(torch.ones(3))
    print(tracer.save(compiled, "entries"))
    again = tracer.compile(double)
    assert tracer.load(again, "entries")
    ```
    """
    data, result = written(target_of(fn))
    write_whole(path, data)
    return result


def written(target: Target) -> tuple[bytes, Saving]:
    """The contents of the file that `save` writes."""
    parts: list[bytes] = []
    refused: list[str] = []
    for entry in reversed(target.entries()):  # oldest first
        try:
            part = save_entry(entry, target)
            check_readable(part, entry, target)
            parts.append(part)
        except Refused as error:
            refused.append(f"{entry.qualname}: {error}")
        except Exception as error:
            log.debug("an entry of %s cannot be saved", entry.qualname, exc_info=True)
            refused.append(f"{entry.qualname}: it cannot be written ({type(error).__name__}: {error})")
    header = _header(target) | {"entries": [{"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()} for part in parts]}
    header["variants"] = _variants(target)
    return MAGIC + json.dumps(header).encode() + b"\n" + b"".join(parts), Saving(len(parts), tuple(refused))


def load(fn: Any, path: str | os.PathLike[str]) -> Loading:
    """Installs the entries of a file that `tracer.save` wrote, without tracing anything.

    A file is code: load none that others could have written. An entry is installed if Python, torch, the tracer, the settings and
    every function and class that its trace went through are what they were; the result says what was not, and calls that such an
    entry would have served are traced as ever. So it is where the file is damaged, or none of entries. What is loaded checks the
    guards that were saved; what is there already is not loaded again, and what a loaded entry covers is retired. Raises UserError
    where there is no such file.
    `save` has an example.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a null in it
        raise UserError(f"{path} cannot be read: {error}") from None
    return install_entries(target_of(fn), data, path)


def install_entries(target: Target, data: bytes, path: str | os.PathLike[str]) -> Loading:
    """As `load`, with what is in the file. `path` is how messages name it."""
    state, function = target.state, target.function
    header, parts, damage = _read(data, path)
    if header is None:
        return _reported(Loading(0, damage), target)
    reason = _mismatch(header, _header(target))
    if reason is not None:
        return _reported(Loading(0, (reason,) * max(1, len(parts) + len(damage))), target)
    made, refused = [], list(damage)
    try:
        target.state.loaded_variants = pickle.loads(base64.b64decode(header["variants"]))
    except Exception as error:
        refused.append(f"the calls that it is for cannot be read ({type(error).__name__}: {error})")
    for part in parts:
        try:
            made.append(load_entry(part, target))
        except Differs as error:
            refused.append(str(error))
        except Exception as error:
            log.debug("an entry of %s cannot be loaded", path, exc_info=True)
            refused.append(f"it cannot be read ({type(error).__name__}: {error})")
    with TRACING:
        there = target.entries()
        new = [entry for entry in made if not (there and upkeep.is_redundant(state, entry, there))]
        for entry in new:
            ready = entry is new[-1]  # makes the decision tree now, once, and not in the first call
            state.region.install(function.__code__, function.__globals__, entry, ready)
            state.record_event("load", function, f"an entry was loaded from {path}", entry=entry)
            if there or state.capacity is not None:
                upkeep.retire_and_evict(state, function, entry, there)
    metrics.counters["saving"]["loaded"] += len(new)
    return _reported(Loading(len(new), tuple(refused), len(made) - len(new)), target)


def _variants(target: Target) -> str:
    """The kinds of calls that are known: name, spec with its modes, and the metadata of an example. One that holds objects of the
    program is left out, and `tracer.coverage` has to be asked with an example."""
    found = []
    for each in known_variants(target.state.coverage):
        try:
            found.append(pickle.dumps((each.name, each.spec, each.example)))
        except Exception:
            log.debug("a variant of %s cannot be saved", target.state.name, exc_info=True)
            return base64.b64encode(pickle.dumps([])).decode()
    return base64.b64encode(pickle.dumps(list(map(pickle.loads, found)))).decode()


def _reported(result: Loading, target: Target) -> Loading:
    metrics.counters["saving"]["refused"] += len(result.refused)
    for reason in dict.fromkeys(result.refused):
        log.warning("%s: an entry was not loaded: %s", target.state.name, reason)
    return result


# -- the file -----------------------------------------------------------------------------------------------------


def _read(data: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Any] | None, list[bytes], tuple[str, ...]]:
    """The header (None if there is no valid one), the intact entries, and messages about the others."""
    line, _, rest = data.removeprefix(MAGIC).partition(b"\n")
    header = _parse_header(line) if data.startswith(MAGIC) else None
    if header is None:
        return None, [], (f"{path} is no file of entries, or it is damaged",)
    parts, damage = [], []
    for size, digested in header["entries"]:
        part, rest = rest[:size], rest[size:]
        if hashlib.sha256(part).hexdigest() == digested:
            parts.append(part)
        else:
            damage.append(f"{path} is damaged")
    return header, parts, tuple(damage)


def _parse_header(line: bytes) -> dict[str, Any] | None:
    """The header in the line of JSON; None if it is not one that this tracer writes. Of another format only the number is
    read."""
    try:
        header = json.loads(line)
        if header["format"] != FORMAT:
            return {"format": header["format"], "entries": []}
        entries = [(int(entry["bytes"]), str(entry["sha256"])) for entry in header["entries"]]
        whole = all(isinstance(header[name], dict) for name in ("versions", "settings")) and min(entries, default=(0,))[0] >= 0
        texts = {name: str(header[name]) for name in ("backend", "function", "code", "variants")}
        return {**header, **texts, "entries": entries} if whole else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


# -- where a file is valid ----------------------------------------------------------------------------------------


def _header(target: Target) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "versions": _versions(),
        "settings": config.of_traces(),
        "backend": target.state.compiler_fn.name,
        "function": name_with_place(target.function),
        "code": digest(target.function.__code__),
    }


@functools.cache
def _versions() -> dict[str, str]:
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()} {sys.implementation.cache_tag}",
        "machine": f"{platform.system()} {platform.machine()}",
        "torch": f"{torch.__version__} {torch.version.git_version}",
        "devices": f"{torch.accelerator.device_count()} {torch.accelerator.is_available()}",
        "the tracer": f"{tracer.__version__} {_digest_of_tracer()}",
    }


def _digest_of_tracer() -> str:
    """A digest of all sources of the tracer, and of its extension module."""
    found = hashlib.sha256()
    for package in (tracer, shapes):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            found.update(str(file.relative_to(package.__path__[0])).encode() + file.read_bytes())
    found.update(Path(_C.__file__).read_bytes())
    return found.hexdigest()[:16]


def _mismatch(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why a file cannot be used here; None if it can."""
    if was["format"] != now["format"]:
        return f"the file has format {was['format']}, and this tracer reads {now['format']}"
    for kind in ("versions", "settings"):
        for name in sorted({*was[kind], *now[kind]}):
            before, here = was[kind].get(name), now[kind].get(name)
            if before != here:
                shown = f"config.{name}" if kind == "settings" else name
                return f"{shown} was {before!r} where it was saved, and is {here!r} here"
    if was["backend"] != now["backend"]:
        return f"it was compiled for the backend {was['backend']!r}, and this is for {now['backend']!r}"
    return None if was["code"] == now["code"] else f"{now['function']} has other code than {was['function']} where it was saved"
