"""import statements: of modules that are imported already; a first import is an effect and breaks the graph."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import breaks, handles
from tracer.sources import ModuleSource

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("IMPORT_NAME")
def import_name(tx: Frame, inst: Instruction) -> None:
    """level, fromlist -> module"""
    names, level = tx.pop().constant(), tx.pop().constant()
    name: str = inst.argval
    if level:
        package = tx.globals.get("__package__") or tx.globals.get("__name__", "").rpartition(".")[0]
        name = importlib.util.resolve_name("." * level + name, package)
    module = sys.modules.get(name)
    if module is None:
        unsupported("import-effect", module=name)
    if not names and not level:
        name = name.partition(".")[0]
        module = sys.modules[name]
    for attribute in names or ():
        if attribute == "*" or not hasattr(module, attribute):
            unsupported("import-effect", module=f"{name}.{attribute}")
    tx.push(tx.wrap(module, ModuleSource(name)))


@handles("IMPORT_FROM")
def import_from(tx: Frame, inst: Instruction) -> None:
    """module -> module, module.name"""
    tx.push(tx.stack[-1].get_attr(tx, inst.argval))


breaks("IMPORT_STAR", why="found in the code of modules only")
