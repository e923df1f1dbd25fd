"""`save` and `load`, and what they tell about each entry.

A file is code: whoever can write it decides what the process that loads it runs.
"""

from __future__ import annotations

import base64
import dataclasses
import logging
import os
import pickle
from pathlib import Path
from typing import Any

from tracer import _C, metrics
from tracer.runtime import upkeep
from tracer.runtime.tracing_lock import TRACING
from tracer.saving.entries import check_readable, load_entry, resume_functions, save_entry
from tracer.saving.fingerprints import Differs, Refused
from tracer.saving.format import Key, Place, decoded, encoded, header_for, mismatch, read, variants_text
from tracer.serving.target import Target, target_of
from tracer.serving.variants import known_variants
from tracer.whole_files import write_whole

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


def save(fn: Any, path: str | os.PathLike[str], *, key: Key = None) -> Saving:
    """Writes the entries of a compiled function or module to a file, for `tracer.load` in a process of the same versions.

    What `aot_eager` and `inductor` made of the graphs is saved with them, kernels and all. Entries that hold what no other
    process has (a graph that breaks, an object of the program's own, what a backend made that is not the tracer's) are not saved,
    and the result says why. Each entry is read back before it counts. The file is written whole or not at all. With a `key`
    (secret, some 32 bytes) it is signed: HMAC-SHA256. Raises UserError for what was not compiled, and for a path that cannot be
    written.

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
    data, result = file_of(target_of(fn), key=key)
    write_whole(path, data)
    return result


def file_of(target: Target, *, key: Key = None) -> tuple[bytes, Saving]:
    """The contents of the file that `save` writes."""
    parts, refused = written(target)
    return encoded(header_for(target) | {"variants": _variants(target)}, parts, key), Saving(len(parts), tuple(refused))


def load(fn: Any, path: str | os.PathLike[str], *, key: Key = None) -> Loading:
    """Installs the entries of a file that `tracer.save` wrote, without tracing anything.

    A file is code: load none that others could have written, or have it signed. A file that is signed is loaded only with its
    `key`, and with a `key` no other is; nothing of it is run before. An entry is installed if Python, torch, the tracer, the
    settings and every function and class that its trace went through are what they were; the result says what was not, and calls
    that such an entry would have served are traced as ever. So it is where the file is damaged, or none of entries. What is
    loaded checks the guards that were saved; what is there already is not loaded again, and what a loaded entry covers is
    retired. Raises UserError where there is no such file.
    `save` has an example.
    """
    return install_entries(target_of(fn), read(Path(path)), Path(path), key=key)


def install_entries(target: Target, data: bytes, path: Path, *, key: Key = None) -> Loading:
    """As `load`, with what is in the file. `path` is how messages name it."""
    header, parts, damage = decoded(data, key, path)
    if header is None:
        return _reported(Loading(0, damage), target)
    reason = mismatch(header, header_for(target))
    if reason is not None:
        return _reported(Loading(0, (reason,) * max(1, len(parts))), target)
    refused = list(damage)
    try:
        target.state.loaded_variants = pickle.loads(base64.b64decode(header["variants"]))
    except Exception as error:
        refused.append(f"the calls that it is for cannot be read ({type(error).__name__}: {error})")
    made, more = made_of(parts, target)
    with TRACING:
        new = sum(
            _install(each, [entry for at, entry in made if at is each], path) for each in dict.fromkeys(at for at, _ in made)
        )
    metrics.counters["saving"]["loaded"] += new
    return _reported(Loading(new, (*refused, *more), len(made) - new), target)


def written(target: Target) -> tuple[list[tuple[bytes, Place]], list[str]]:
    """The data of the entries of a function, and of the resume functions behind their breaks, each with its place; and why others
    have none."""
    parts: list[tuple[bytes, Place]] = []
    refused: list[str] = []
    todo: list[tuple[Target, Place]] = [(target, None)]
    for at, place in todo:
        for entry in reversed(at.entries()):  # oldest first
            try:
                part = save_entry(entry, at)
                check_readable(part, entry, at)
            except Refused as error:
                refused.append(f"{entry.qualname}: {error}")
            except Exception as error:
                log.debug("an entry of %s cannot be saved", entry.qualname, exc_info=True)
                refused.append(f"{entry.qualname}: it cannot be written ({type(error).__name__}: {error})")
            else:
                todo += [(Target(value, at.state), (len(parts), name)) for name, value in resume_functions(entry).items()]
                parts.append((part, place))
    return parts, refused


def made_of(parts: list[tuple[bytes | None, Place]], target: Target) -> tuple[list[tuple[Target, _C.Entry]], list[str]]:
    """The entries of a file, each with the function that it is for, none of them installed; and why others were not made."""
    made: dict[int, tuple[Target, _C.Entry]] = {}
    functions: dict[Any, Target] = {}
    refused: list[str] = []
    for number, (part, place) in enumerate(parts):
        if part is None:
            continue
        try:
            at = target
            if place is not None:
                if place[0] not in made:
                    raise Differs("it is behind a break, and the entry that breaks was not loaded")
                dispatcher = resume_functions(made[place[0]][1])[place[1]]
                at = functions.setdefault(dispatcher, Target(dispatcher, target.state))
            made[number] = at, load_entry(part, at)
        except Differs as error:
            refused.append(str(error))
        except Exception as error:
            log.debug("an entry of %s cannot be loaded", target.state.name, exc_info=True)
            refused.append(f"it cannot be read ({type(error).__name__}: {error})")
    return list(made.values()), refused


def _install(target: Target, made: list[_C.Entry], path: Any) -> int:
    """Installs the entries of one function, but for those that are not needed; how many that is. Under the tracing lock."""
    state, function, there = target.state, target.function, target.entries()
    new = [entry for entry in made if not (there and upkeep.is_redundant(state, entry, there))]
    for entry in new:
        ready = entry is new[-1]  # makes the decision tree now, once, and not in the first call
        state.region.install(function.__code__, function.__globals__, entry, ready)
        state.record_event("load", function, f"an entry was loaded from {path}", entry=entry)
        if there or state.capacity is not None:
            upkeep.retire_and_evict(state, function, entry, there)
    return len(new)


def _variants(target: Target) -> str:
    """The kinds of calls that are known: name, spec with its modes, and the metadata of an example. One that holds objects of the
    program is left out, and `tracer.coverage` has to be asked with an example."""
    found = []
    for each in known_variants(target.state.coverage):
        try:
            found.append(pickle.dumps((each.name, each.spec, each.example)))
        except Exception:
            log.debug("a variant of %s cannot be saved", target.state.name, exc_info=True)
            return variants_text([])
    return variants_text(list(map(pickle.loads, found)))


def _reported(result: Loading, target: Target) -> Loading:
    metrics.counters["saving"]["refused"] += len(result.refused)
    for reason in dict.fromkeys(result.refused):
        log.warning("%s: an entry was not loaded: %s", target.state.name, reason)
    return result
