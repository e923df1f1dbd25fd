"""Opcode handlers: free functions registered under an opcode's name and a window of Python versions."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator

Handler = Callable[["InstructionTranslator", Instruction], Any]
Version = tuple[int, int]
_FOREVER: Version = (99, 0)


class OpcodeRegistry:
    def __init__(self) -> None:
        self._windows: dict[str, list[tuple[Version, Version, Handler]]] = {}
        self.breaks: dict[str, str] = {}  # those at which the graph always breaks, and why

    def register(self, *names: str, since: Version = (3, 11), until: Version = _FOREVER) -> Callable[[Handler], Handler]:
        """`until` is exclusive. Overlapping windows of one opcode are an error at import."""

        def add(handler: Handler) -> Handler:
            for name in names:
                windows = self._windows.setdefault(name, [])
                if any(since < other_until and other_since < until for other_since, other_until, _ in windows):
                    raise ValueError(f"two handlers for {name} in the same Python version")
                windows.append((since, until, handler))
            return handler

        return add

    def break_at(self, *names: str, why: str, since: Version = (3, 11), until: Version = _FOREVER) -> None:
        """Lists opcodes at which the graph breaks, whatever their operands are."""
        self.register(*names, since=since, until=until)(_break)
        self.breaks.update(dict.fromkeys(names, why))

    def names(self, version: Version = sys.version_info[:2]) -> set[str]:
        """The opcodes with a handler in this version of Python."""
        return {n for n, windows in self._windows.items() if any(s <= version < u for s, u, _ in windows)}

    def changed_since(self, version: Version) -> set[str]:
        """The opcodes whose handlers end before this version: they mean something else there, or are gone."""
        return {n for n, windows in self._windows.items() if all(until <= version for _, until, _ in windows)}

    def table(self) -> list[Handler]:
        """Handlers by opcode number, for the running Python."""
        version = sys.version_info[:2]
        table: list[Handler] = [_no_handler] * 256
        for name, windows in self._windows.items():
            for since, until, handler in windows:
                number = opcode.opmap.get(name, -1)
                if since <= version < until and 0 <= number < len(table):  # those beyond are the compiler's own
                    table[number] = handler
        return table


def _no_handler(tx: InstructionTranslator, inst: Instruction) -> None:
    unsupported("unsupported-opcode", opcode=inst.opname)


def _break(tx: InstructionTranslator, inst: Instruction) -> None:
    unsupported("unsupported-opcode", opcode=inst.opname)


OPCODES = OpcodeRegistry()
handles = OPCODES.register
breaks = OPCODES.break_at
