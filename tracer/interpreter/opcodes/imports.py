"""import statements. A module that is not imported yet is imported before the frame is traced again; where that would be too
early, the graph breaks."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, NoReturn

from tracer.bytecode import Instruction
from tracer.errors import ImportFirst
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import breaks, handles
from tracer.library.importlib_ import lacks, raise_if_missing, raise_import_error
from tracer.protocol.variable import ObservedException, is_exception
from tracer.sources.roots import ModuleSource

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
    raise_if_missing(tx, name)
    module = sys.modules.get(name)
    if module is None:
        _import_first(tx, name)
    if not names and not level:
        name = name.partition(".")[0]
        module = sys.modules[name]
    for attribute in names or ():
        if attribute == "*" or not (hasattr(module, attribute) or lacks(module, attribute)):
            _import_first(tx, f"{name}.{attribute}")
    tx.push(tx.wrap(module, ModuleSource(name)))


def _import_first(tx: Frame, name: str) -> NoReturn:
    """CPython imports a module before the frame is traced again, if nothing comes before the import that its code could see."""
    state = tx.trace.torch_state.repeatable()
    seen = tx.effects.changes_what_modules_see() or tx.output.world.fake_mode.draws
    watched = tx.effects.observer is not None or tx.output.on_trial is not None or tx.output.traces_wrapper
    if seen or watched or state is None or name in ImportFirst.tried or not _is_there(name):
        unsupported("import-effect", module=name)
    raise ImportFirst(name, state)


def _is_there(name: str) -> bool:
    """Whether the module can be found. Packages around it are imported already: CPython imports them first."""
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return _is_there(parent)
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@handles("IMPORT_FROM")
def import_from(tx: Frame, inst: Instruction) -> None:
    """module -> module, module.name"""
    module = tx.stack[-1]
    try:
        tx.push(module.get_attr(tx, inst.argval))
    except ObservedException as raised:
        if is_exception(raised.value, AttributeError) and lacks(module.identity(), inst.argval):
            raise_import_error(tx, f"from {module.identity().__name__} import {inst.argval}")
        raise


breaks("IMPORT_STAR", why="found in the code of modules only")
