"""`python -m tracer inspect FILE`: what the head of a file of entries says. Nothing of the file is run."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tracer.errors import UserError
from tracer.saving.format import MAGIC, read


def describe(path: str | os.PathLike[str]) -> str:
    """The head of a file, and whether its entries are whole, as text. Raises UserError for what is no file of entries."""
    data = read(Path(path))
    line, _, rest = data.removeprefix(MAGIC).partition(b"\n")
    try:
        header = json.loads(line if data.startswith(MAGIC) else b"")
        lines = [f"{name}: {header.pop(name)}" for name in ("format", "function", "code", "backend")]
        signed = header.pop("signature", None) is not None
        lines.append("signed: " + ("yes, and not checked here" if signed else "no"))
        for name in ("versions", "settings"):
            lines += [f"{name}:", *(f"  {key}: {value}" for key, value in header.pop(name).items())]
        entries = [(int(each["bytes"]), str(each["sha256"])) for each in header.pop("entries")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path} is no file of entries, or it is damaged") from None
    lines.append(f"entries: {len(entries)}")
    for size, digest in entries:
        part, rest = rest[:size], rest[size:]
        whole = size >= 0 and hashlib.sha256(part).hexdigest() == digest
        lines.append(f"  {digest[:16]}  {size} bytes{'' if whole else ', DAMAGED'}")
    return "\n".join(lines)
