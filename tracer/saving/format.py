"""The format of files of entries, and where a file is valid.

A file is a magic line, a line of JSON (versions, settings, the function, and length and digest of each entry), and the entries.
With a key, the line has a signature of all of it. Nothing of a file is run before its head was compared, and its signature.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import json
import pickle
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import shapes
import tracer
from tracer import _C, config
from tracer.errors import UserError
from tracer.saving.fingerprints import digest, name_with_place
from tracer.serving.target import Target

FORMAT = 6
MAGIC = b"shapetracer entries\n"
Key = bytes | str | None
#: Where the code of an entry is: None for the compiled function itself; else the number of the entry that breaks, and the name
#: that its code has for the resume function.
Place = tuple[int, str] | None


def encoded(header: Mapping[str, Any], parts: Sequence[tuple[bytes, Place]], key: Key = None) -> bytes:
    """The bytes of a file with these entries. `key` signs it."""
    entries = [{"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest(), "behind": place} for part, place in parts]
    whole = {**header, "entries": entries}
    if key is not None:
        whole["signature"] = _signature(whole, key)
    return MAGIC + json.dumps(whole).encode() + b"\n" + b"".join(part for part, _ in parts)


def decoded(data: bytes, key: Key, path: Path) -> tuple[dict[str, Any] | None, list[tuple[bytes | None, Place]], tuple[str, ...]]:
    """The header (None if there is no valid one, or it is not signed with the key), the entries, None in place of one that is
    damaged, and a message about each of those. Nothing is unpickled."""
    line, _, rest = data.removeprefix(MAGIC).partition(b"\n")
    header = _parse_header(line, key) if data.startswith(MAGIC) else None
    if header is None:
        return None, [], (f"{path} is no file of entries, or it is damaged",)
    if isinstance(header, str):
        return None, [], (f"{path} {header}",)
    parts: list[tuple[bytes | None, Place]] = []
    damage = []
    for size, digested, place in header["entries"]:
        part, rest = rest[:size], rest[size:]
        if hashlib.sha256(part).hexdigest() == digested:
            parts.append((part, place))
        else:
            parts.append((None, place))
            damage.append(f"{path} is damaged")
    return header, parts, tuple(damage)


def variants_text(variants: list[Any]) -> str:
    """The field `variants` of a header."""
    return base64.b64encode(pickle.dumps(variants)).decode()


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a null in it
        raise UserError(f"{path} cannot be read: {error}") from None


def _signature(header: Mapping[str, Any], key: bytes | str) -> str:
    """HMAC-SHA256 of the head, which has the digests of all entries."""
    secret = key.encode() if isinstance(key, str) else bytes(key)
    if not secret:
        raise UserError("key= is empty, and signs nothing", hint="pass some 32 random bytes: secrets.token_bytes(32).")
    return hmac.new(secret, json.dumps(header).encode(), hashlib.sha256).hexdigest()


def _parse_header(line: bytes, key: Key) -> dict[str, Any] | str | None:
    """The header in the line of JSON; None if it is not one that this tracer writes, and a text if it is not signed as asked. Of
    another format only the number is read."""
    try:
        header = json.loads(line)
        signature = header.pop("signature", None)
        wrong = _wrong_signature(header, signature, key)
        if wrong is not None:
            return wrong
        if header["format"] != FORMAT:
            return {"format": header["format"], "entries": []}
        entries = [(int(entry["bytes"]), str(entry["sha256"]), _place(entry["behind"])) for entry in header["entries"]]
        whole = all(isinstance(header[name], dict) for name in ("versions", "settings")) and min(entries, default=(0,))[0] >= 0
        texts = {name: str(header[name]) for name in ("backend", "function", "code", "variants")}
        return {**header, **texts, "entries": entries} if whole else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _place(data: Any) -> Place:
    if data is None:
        return None
    number, name = data
    return int(number), str(name)


def _wrong_signature(header: Mapping[str, Any], signature: Any, key: Key) -> str | None:
    if key is None:
        return None if signature is None else "is signed: pass the key= that it was signed with"
    if signature is None:
        return "is not signed, and a key= is given"
    right = hmac.compare_digest(str(signature).encode(), _signature(header, key).encode())
    return None if right else "is signed with another key, or was changed since"


# -- where a file is valid ----------------------------------------------------------------------------------------


def header_for(target: Target) -> dict[str, Any]:
    backend = target.state.backend
    return {
        "format": FORMAT,
        "versions": _versions() | ({} if backend.runs_as_written else {"the processor": _processor()}),
        "settings": config.of_traces(),
        "backend": backend.name + "".join(f", {name}={value!r}" for name, value in backend.described_options()),
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


@functools.cache
def _processor() -> str:
    """A digest of what the processor can do. Kernels are compiled for it, and may crash on another one."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        lines = {line for line in file if line.startswith(("flags", "Features", "model name"))}
        return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()[:16]
    return f"{platform.processor()} {torch.backends.cpu.get_cpu_capability()}"


def _digest_of_tracer() -> str:
    """A digest of all sources of the tracer, and of its extension module."""
    found = hashlib.sha256()
    for package in (tracer, shapes):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            found.update(str(file.relative_to(package.__path__[0])).encode() + file.read_bytes())
    found.update(Path(_C.__file__).read_bytes())
    return found.hexdigest()[:16]


def mismatch(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why a file cannot be used here; None if it can."""
    if was["format"] != now["format"]:
        return f"the file has format {was['format']}, and this tracer reads {now['format']}"
    if was["backend"] != now["backend"]:
        return f"it was compiled for the backend {was['backend']!r}, and this is for {now['backend']!r}"
    for kind in ("versions", "settings"):
        for name in sorted({*was[kind], *now[kind]}):
            before, here = was[kind].get(name), now[kind].get(name)
            if before != here:
                shown = f"config.{name}" if kind == "settings" else name
                return f"{shown} was {before!r} where it was saved, and is {here!r} here"
    return None if was["code"] == now["code"] else f"{now['function']} has other code than {was['function']} where it was saved"
