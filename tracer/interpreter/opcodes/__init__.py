"""Opcode handlers by topic. Importing this package registers all of them."""

from __future__ import annotations

import sys

from tracer.discovery import import_modules
from tracer.interpreter.handlers import OPCODES, Handler

import_modules(sys.modules[__name__])


def load() -> list[Handler]:
    """Handlers by opcode number, for the running Python."""
    return OPCODES.table()
