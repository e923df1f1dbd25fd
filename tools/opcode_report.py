"""What the opcode handlers do with each version's opcodes: `python -m tools.opcode_report [3.12 ...]`.

The opcodes of each version, with their numbers, are saved in `tools/opcode_maps/`, so that no such interpreter is needed.
`docs/opcodes.md` is the same as a page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tracer.bytecode import OpcodeReport, opcode_report
from tracer.bytecode.dialect import ENCODING_ONLY
from tracer.interpreter import opcodes
from tracer.interpreter.handlers import OPCODES

MAPS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parent / "opcode_maps").glob("*.json"))
}


def report(version: str) -> OpcodeReport:
    """What is handled and what is missing in a version of Python, named as "3.12"."""
    return opcode_report(MAPS[version], OPCODES.names(_numbers(version)))


def changed(version: str) -> list[str]:
    """Of what is missing in a version, the opcodes that older versions have with another meaning."""
    return sorted(OPCODES.changed_since(_numbers(version)).intersection(report(version).missing))


def new(version: str) -> list[str]:
    """Of what is missing in a version, the opcodes that no older one has."""
    return sorted(set(report(version).missing).difference(changed(version)))


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def markdown() -> str:
    """The text of docs/opcodes.md."""
    lines = [
        "# Opcodes\n",
        "Made by `python -m tools.generate_docs` from the handlers in `tracer/interpreter/opcodes/` and the opcodes of each",
        "version in `tools/opcode_maps/`. What a version needs beyond handlers is in [howto/extend.md](howto/extend.md).\n",
        "| Python | opcodes | handled | always a break | missing |",
        "|---|---|---|---|---|",
    ]
    for version in MAPS:
        found = report(version)
        broken = len(set(OPCODES.breaks).intersection(MAPS[version]["opmap"]).intersection(OPCODES.names(_numbers(version))))
        done = found.total - len(found.missing) - broken
        lines.append(f"| {version} | {found.total} | {done} | {broken} | {len(found.missing)} |")
    encoding = ", ".join(f"`{name}`" for name in sorted(ENCODING_ONLY))
    whole = [version for version in MAPS if not report(version).missing]
    why = "the decoder folds them away, makes two of them or reads them as others, or CPython runs them in frames of its own"
    lines += [f"\nNot counted, since {why}: {encoding}.", f"\n## Python {', '.join(whole[:-1])} and {whole[-1]}\n"]
    lines += ["Every opcode has a handler. At these the graph always breaks:\n", "| Opcodes | Why |", "|---|---|"]
    for why in dict.fromkeys(OPCODES.breaks.values()):
        names = ", ".join(f"`{name}`" for name, reason in OPCODES.breaks.items() if reason == why)
        lines.append(f"| {names} | {why} |")
    for version in [name for name in MAPS if name not in whole]:
        lines += [f"\n## Python {version} lacks\n", _listed("Handlers for opcodes that are new", new(version))]
        lines += [_listed("Handlers for opcodes that mean something else than before", changed(version))]
        lines += [_listed("Gone, with nothing to do", list(report(version).absent))]
    return "\n".join(lines) + "\n"


def _listed(title: str, names: list[str]) -> str:
    return f"- {title} ({len(names)}): {', '.join(f'`{name}`' for name in names) or 'none'}."


opcodes.load()

if __name__ == "__main__":
    for name in sys.argv[1:] or MAPS:
        print(report(name))
