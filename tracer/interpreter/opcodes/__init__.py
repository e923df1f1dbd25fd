"""Opcode handlers by topic. Importing this package registers all of them."""

from __future__ import annotations

from tracer.interpreter.opcodes import (
    arithmetic,
    attributes,
    calls,
    compare,
    containers,
    exceptions,
    functions,
    generators,
    imports,
    iterate,
    jumps,
    match,
    names,
    stack,
    strings,
    with_blocks,
)
from tracer.interpreter.registry import OPCODES, Handler

TOPICS = (
    arithmetic, attributes, calls, compare, containers, exceptions, functions, generators, imports, iterate, jumps,
    match, names, stack, strings, with_blocks,
)  # fmt: skip


def load() -> list[Handler]:
    """Handlers by opcode number, for the running Python."""
    return OPCODES.table()
