"""Locals, globals, cells and names."""

from __future__ import annotations

import builtins
import sys
import types
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.bytecode import Instruction
from tracer.effects.log import DELETED
from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictContains, NotInGlobals
from tracer.interpreter.handlers import breaks, handles
from tracer.interpreter.opcodes.stack import drop_contents, drop_local, push_callee
from tracer.interpreter.raising import raise_name_error
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import NULL, NullVariable, ObservedException, VariableTracker, is_exception
from tracer.sources.base import Source
from tracer.sources.functions import FunctionGlobalsSource
from tracer.sources.roots import (
    BuiltinSource,
    GlobalSource,
    GlobalsSource,
    ModuleGlobalsSource,
    ModuleNamespaceSource,
    namespace_source,
)
from tracer.variables.builders.literals import from_python
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

_MISSING = object()


@handles("LOAD_CONST")
def load_const(tx: Frame, inst: Instruction) -> None:
    """-> constant"""
    tx.stack.append(tx.trace.constant(inst.argval))


@handles("LOAD_SMALL_INT")
def load_small_int(tx: Frame, inst: Instruction) -> None:
    """-> the number in the argument"""
    tx.stack.append(ConstantVariable(inst.oparg))


#: Of Python 3.14, in the order in which it numbers them.
_COMMON_CONSTANTS = ("AssertionError", "NotImplementedError", "tuple", "all", "any")


@handles("LOAD_COMMON_CONSTANT")
def load_common_constant(tx: Frame, inst: Instruction) -> None:
    """-> a builtin, whatever its name stands for in the module"""
    name = _COMMON_CONSTANTS[inst.oparg]
    tx.push(tx.wrap(vars(builtins)[name], BuiltinSource(name)))


@handles("LOAD_FAST", until=(3, 12))
def load_fast(tx: Frame, inst: Instruction) -> None:
    """-> local"""
    tx.stack.append(tx.load_local(inst.argval))


@handles("LOAD_FAST", "LOAD_FAST_CHECK", since=(3, 12))
def load_slot(tx: Frame, inst: Instruction) -> None:
    """-> local"""
    cell = tx.cells.get(inst.argval) if inst.arg in tx.program.cell_slots else None
    tx.stack.append(tx.load_local(inst.argval) if cell is None else cell)


@handles("STORE_FAST", until=(3, 12))
def store_fast(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    name = inst.argval
    if name in tx.locals:
        drop_local(tx, name)
    tx.locals[name] = tx.stack.pop()


@handles("STORE_FAST", since=(3, 12))
def store_slot(tx: Frame, inst: Instruction) -> None:
    """value ->. An inlined comprehension gives a local back what LOAD_FAST_AND_CLEAR has taken: NULL, if it was unbound, and the
    cell of one that has a cell."""
    name = inst.argval
    if name in tx.locals:
        drop_local(tx, name)
    value = tx.stack.pop()
    if inst.arg in tx.program.cell_slots:
        tx.cells.pop(name, None)
        tx.locals.pop(name, None)
        if isinstance(value, CellVariable):
            tx.cells[name] = value
            return
    if isinstance(value, NullVariable):
        tx.locals.pop(name, None)
    else:
        tx.locals[name] = value


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(tx: Frame, inst: Instruction) -> None:
    """-> what the local holds: a value, a cell or NULL; it is unbound then"""
    name = inst.argval
    if inst.arg in tx.program.cell_slots and name in tx.cells:
        tx.stack.append(tx.cells.pop(name))
    elif name in tx.locals:
        tx.stack.append(tx.load_local(name))
        del tx.locals[name]
    else:
        tx.stack.append(NULL)


@handles("DELETE_FAST")
def delete_fast(tx: Frame, inst: Instruction) -> None:
    """deletes a local"""
    tx.load_local(inst.argval)
    drop_local(tx, inst.argval)
    del tx.locals[inst.argval]


# -- cells -------------------------------------------------------------------------------------------------------------


@handles("MAKE_CELL")
def make_cell(tx: Frame, inst: Instruction) -> None:
    """Makes the cell of a local. Those of a frame are in place when it begins; an inlined comprehension makes its own."""
    name = inst.argval
    if name in tx.code.co_cellvars and name in tx.code.co_freevars:  # its comprehension overwrites the free variable
        unsupported("unsupported-opcode", opcode=f"MAKE_CELL of {name!r}, a free variable of the function around it,")
    if name not in tx.cells:
        tx.cells[name] = CellVariable()


@handles("LOAD_CLOSURE")
def load_closure(tx: Frame, inst: Instruction) -> None:
    """-> the cell itself"""
    tx.push(tx.cells[inst.argval])


@handles("LOAD_DEREF")
def load_deref(tx: Frame, inst: Instruction) -> None:
    """-> contents of a cell"""
    value = tx.cells[inst.argval].read(tx)
    if value is None:
        raise_unbound_cell(tx, inst.argval)
    tx.push(value)


def raise_unbound_cell(tx: Tracer, name: str) -> NoReturn:
    if name in tx.code.co_cellvars:
        tx.raise_error(UnboundLocalError, f"cannot access local variable {name!r} where it is not associated with a value")
    raise_name_error(tx, name, f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope")


@handles("STORE_DEREF")
def store_deref(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    drop_contents(tx, inst.argval)
    tx.cells[inst.argval].write(tx, tx.pop())


@handles("DELETE_DEREF")
def delete_deref(tx: Frame, inst: Instruction) -> None:
    """empties a cell"""
    if tx.cells[inst.argval].read(tx) is None:
        raise_unbound_cell(tx, inst.argval)
    drop_contents(tx, inst.argval)
    tx.cells[inst.argval].write(tx, None)


# -- globals -----------------------------------------------------------------------------------------------------------


@handles("LOAD_GLOBAL")
def load_global(tx: Frame, inst: Instruction) -> None:
    """-> global or builtin, for a call as its callee"""
    value = read_global(tx, inst.argval)
    if inst.oparg & 1:
        push_callee(tx, value)
    else:
        tx.stack.append(value)


def read_global(tx: Tracer, name: str) -> VariableTracker:
    stored = tx.effects.global_value(tx.globals, name)
    if isinstance(stored, VariableTracker):
        return stored
    if type(tx.globals) is not dict:  # CPython asks its __getitem__
        unsupported("unsupported-call", value=f"{tx.code.co_qualname}, whose globals are of type {type(tx.globals).__name__}")
    value: Any = _MISSING if stored is DELETED else tx.globals.get(name, _MISSING)
    if value is not _MISSING and _is_made_by_library(tx, value):
        return CallableVariable(value)
    if value is not _MISSING:
        return tx.wrap(value, global_source(tx, name))
    if stored is not DELETED:
        tx.guard(NotInGlobals(global_source(tx, name)))
    builtins = builtins_of(tx.globals)
    value = builtins.get(name, _MISSING)
    if value is _MISSING:
        raise_name_error(tx, name, f"name {name!r} is not defined")
    return tx.wrap(value, BuiltinSource(name))


def _is_made_by_library(tx: Tracer, value: Any) -> bool:
    """Whether a builtin is read from a namespace that no source reaches: the library made it while tracing, for the `__new__`
    of a named tuple, and puts the same builtins into the next one."""
    if tx.function is None or not isinstance(value, types.BuiltinFunctionType):
        return False
    reached = namespace_source(tx.globals, tx.frames()[0].globals)
    return reached is None and tx.function.globals_source(tx) is None


def builtins_of(globals_: dict[str, Any]) -> dict[str, Any]:
    found = globals_.get("__builtins__", sys.modules["builtins"])
    return found if isinstance(found, dict) else vars(found)


def global_source(tx: Tracer, name: str) -> Source:
    """How a global of this frame's function is reached: of the root frame, of an importable module, or of the function."""
    match namespace_source(tx.globals, tx.frames()[0].globals):
        case GlobalsSource():
            return GlobalSource(name)
        case ModuleNamespaceSource(module):
            return ModuleGlobalsSource(module, name)
    source = None if tx.function is None else tx.function.globals_source(tx)
    if source is None:
        unsupported("unsupported-call", value=f"{tx.code.co_qualname}, whose globals cannot be reached again")
    return FunctionGlobalsSource(source, name)


@handles("STORE_GLOBAL")
def store_global(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    tx.effects.store_global(tx.globals, inst.argval, tx.pop(), tx.break_step())


@handles("DELETE_GLOBAL")
def delete_global(tx: Frame, inst: Instruction) -> None:
    """deletes a global"""
    name = inst.argval
    stored = tx.effects.global_value(tx.globals, name)
    if stored is None:
        source = global_source(tx, name)
        if name not in tx.globals:
            tx.guard(NotInGlobals(source))
        else:
            tx.guard(DictContains(NotInGlobals(source).namespace(), name, True))
    if stored is DELETED or (stored is None and name not in tx.globals):
        raise_name_error(tx, name, f"name {name!r} is not defined")
    tx.effects.store_global(tx.globals, name, DELETED, tx.break_step())


# -- names of class bodies and module code -----------------------------------------------------------------------------


def _namespace(tx: Frame, inst: Instruction) -> VariableTracker:
    """The namespace of a class body. Other code with these opcodes works on a dict of the program, and breaks the graph."""
    if tx.namespace is None:
        unsupported("unsupported-opcode", opcode=inst.opname)
    return tx.namespace


def _find_name(tx: Frame, inst: Instruction, namespace: VariableTracker) -> VariableTracker | None:
    """The value of a name in the namespace, or None."""
    key = ConstantVariable(inst.argval)
    if isinstance(namespace, DictVariable) and namespace.cls is dict:
        return namespace.find(tx, key)
    try:
        return namespace.get_item(tx, key)
    except ObservedException as raised:
        if is_exception(raised.value, KeyError):
            return None
        raise


@handles("LOAD_NAME")
def load_name(tx: Frame, inst: Instruction) -> None:
    """-> name of the class body, global or builtin"""
    value = _find_name(tx, inst, _namespace(tx, inst))
    tx.push(read_global(tx, inst.argval) if value is None else value)


@handles("LOAD_LOCALS")
def load_locals(tx: Frame, inst: Instruction) -> None:
    """-> the namespace"""
    tx.push(_namespace(tx, inst))


@handles("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(tx: Frame, inst: Instruction) -> None:
    """namespace -> name of the class body, or contents of a cell"""
    _load_name_or_cell(tx, inst, tx.pop())


@handles("LOAD_FROM_DICT_OR_GLOBALS", since=(3, 12))
def load_from_dict_or_globals(tx: Frame, inst: Instruction) -> None:
    """namespace -> name of the class body, global or builtin. It stands where type parameters of a method are made."""
    value = _find_name(tx, inst, tx.pop())
    tx.push(read_global(tx, inst.argval) if value is None else value)


@handles("LOAD_CLASSDEREF")
def load_classderef(tx: Frame, inst: Instruction) -> None:
    """-> name of the class body, or contents of a cell"""
    _load_name_or_cell(tx, inst, _namespace(tx, inst))


def _load_name_or_cell(tx: Frame, inst: Instruction, namespace: VariableTracker) -> None:
    value = _find_name(tx, inst, namespace)
    if value is None:
        load_deref(tx, inst)
    else:
        tx.push(value)


@handles("STORE_NAME")
def store_name(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    _namespace(tx, inst).set_item(tx, ConstantVariable(inst.argval), tx.pop())


@handles("DELETE_NAME")
def delete_name(tx: Frame, inst: Instruction) -> None:
    """deletes a name of the class body"""
    try:
        _namespace(tx, inst).del_item(tx, ConstantVariable(inst.argval))
    except ObservedException as raised:
        if is_exception(raised.value, KeyError):
            raise_name_error(tx, inst.argval, f"name {inst.argval!r} is not defined")
        raise


@handles("SETUP_ANNOTATIONS")
def setup_annotations(tx: Frame, inst: Instruction) -> None:
    """makes __annotations__ if it is not there"""
    namespace, key = _namespace(tx, inst), ConstantVariable("__annotations__")
    if not namespace.contains(tx, key).truth(tx):
        namespace.set_item(tx, key, from_python({}))


breaks("PRINT_EXPR", why="found in code that is compiled as a single statement, as an interactive session does")
