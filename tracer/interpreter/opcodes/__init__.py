"""Opcode handlers by topic. Importing this package registers all of them."""

from __future__ import annotations

from tracer.interpreter.handlers import OPCODES, Handler
from tracer.interpreter.opcodes import (
    arithmetic,
    attributes,
    calls,
    compare,
    containers,
    exceptions,
    generators,
    imports,
    iterate,
    jumps,
    make_function,
    match,
    names,
    stack,
    strings,
    with_blocks,
)

TOPICS = (
    arithmetic, attributes, calls, compare, containers, exceptions, generators, imports, iterate, jumps, make_function,
    match, names, stack, strings, with_blocks,
)  # fmt: skip


def load() -> list[Handler]:
    """Handlers by opcode number, for the running Python."""
    return OPCODES.table()
