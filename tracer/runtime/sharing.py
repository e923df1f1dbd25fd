"""Entries that are taken over from twins (`runtime.twins`): which can be, and what is checked when one is."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer import _C, logs
from tracer.guards.references import is_class
from tracer.runtime import log_texts, stances
from tracer.runtime.guarded_code import GuardedCode, entry_with_guards, passes
from tracer.runtime.twins import Compile, Family

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

MOST_TRIED = 32  # compiles of a family whose guards are asked at one miss, the newest first
_DATA = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), enum.Enum, slice, torch.dtype, torch.device,
         torch.layout, torch.memory_format, torch.Size)  # fmt: skip
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
                types.GetSetDescriptorType, types.MemberDescriptorType)  # fmt: skip
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)


# -- what may be shared ------------------------------------------------------------------------------------------------


def note_compile(state: RegionState, family: Family, entry: _C.Entry, seen: dict[str, tuple[Any, ...]]) -> None:
    """Makes a new entry of a region known to its twins. `seen`: the sizes in the traces so far, by place."""
    resumes = {
        name: (value.function.__code__ in state.left_to_cpython, value.function.__code__ in state.returning_codes)
        for name, value in _extras(entry)
        if type(value) is _C.Dispatcher and value.region is state.region
    }
    compiled = Compile(state.name, next(_refusals(entry, resumes), ""), dict(seen), resumes)
    compiled.entries.add(entry)
    entry.guarded_code.compiled = compiled
    family.add(compiled)


def _extras(entry: _C.Entry) -> Iterator[tuple[str, Any]]:
    """The objects that the output code has beside the program's, by name."""
    if entry.code is not None:
        names = entry.code.co_freevars[len(entry.code.co_freevars) - len(entry.extras) :]
        for name, cell in zip(names, entry.extras, strict=True):
            yield name, cell.cell_contents


def _refusals(entry: _C.Entry, resumes: dict[str, tuple[bool, bool]]) -> Iterator[str]:
    """What the entry knows by identity that no guard names: objects in its code and in its graph."""
    guarded: GuardedCode = entry.guarded_code
    for name, value in _extras(entry):
        if name != guarded.graph_name and name not in resumes and not _is_of_process(value):
            yield f"its code holds {_shown(value)}"
    if guarded.graph is not None:
        yield from _refusals_of_graph(guarded.graph)


def _refusals_of_graph(gm: fx.GraphModule) -> Iterator[str]:
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(gm, node.target)
            if isinstance(value, fx.GraphModule):
                yield from _refusals_of_graph(value)
            else:
                yield f"its graph holds {_shown(value)} as a constant"
        elif node.op == "call_module":
            yield f"its graph calls the module {node.target}"
        elif node.op == "call_function" and not _is_of_process(node.target):
            yield f"its graph calls {_shown(node.target)}"
        yield from _refusals_of_arguments((node.args, node.kwargs))


def _attribute(gm: Any, path: str) -> Any:
    for name in path.split("."):
        gm = getattr(gm, name)
    return gm


def _refusals_of_arguments(value: Any) -> Iterator[str]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _refusals_of_arguments(item)
    elif isinstance(value, dict):
        yield from _refusals_of_arguments((*value.keys(), *value.values()))
    elif isinstance(value, slice):
        yield from _refusals_of_arguments((value.start, value.stop, value.step))
    elif not isinstance(value, (fx.Node, *_DATA, *_SYMBOLS)) and not _is_of_process(value):
        yield f"its graph holds {_shown(value)}"


def _is_of_process(value: Any) -> bool:
    """Whether an object belongs to no object of the program in particular: data, a class, a function that is found by its name, a
    module or its namespace, an operator."""
    if isinstance(value, (*_DATA, *_DESCRIPTORS, *_OPERATORS, types.ModuleType)) or is_class(value) or value is sys.modules:
        return True
    if type(value) is types.BuiltinFunctionType:  # also a method of an object
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType) or is_class(value.__self__)
    if type(value) is dict:
        module = sys.modules.get(str(value.get("__name__")))
        return getattr(module, "__dict__", None) is value
    if type(value) is types.FunctionType:
        return value.__closure__ is None and (_package_of(value) == "tracer" or _found_by_name(value))
    return False


def _package_of(function: types.FunctionType) -> str:
    module: Any = function.__module__  # None in a function that was made by hand, or in a wrapper of a `functools.partial`
    return module.partition(".")[0] if isinstance(module, str) else ""


def _found_by_name(function: types.FunctionType) -> bool:
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = vars(found).get(part) if isinstance(found, types.ModuleType) or is_class(found) else None
    return getattr(found, "__func__", found) is function


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", "") if type(value) is types.FunctionType else ""
    return f"the function {name}" if name else f"an object of {type(value).__module__}.{type(value).__qualname__}"


# -- taking over -------------------------------------------------------------------------------------------------------


def take_over(
    state: RegionState, family: Family, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]
) -> _C.Entry | None:
    """An entry of this region for a missed call, made of that of a twin whose guards hold for the call; None if there is none.
    It is not installed. `existing`: the entries that have missed."""
    own = {id(entry.guarded_code.compiled) for entry in existing}
    tried = 0
    for compiled in family.compiles():
        entry = None if id(compiled) in own else compiled.entry_of(function)
        if entry is None:
            continue
        tried += 1
        if tried > MOST_TRIED:
            return None
        made = None
        if not compiled.refusal and passes(entry.guarded_code, function, args):
            made = _entry_for(state, compiled, entry, function, args)
        _report(state, compiled, entry, function, args, made)
        if made is not None:
            return made
    return None


def _entry_for(
    state: RegionState, compiled: Compile, entry: _C.Entry, function: types.FunctionType, args: tuple[Any, ...]
) -> _C.Entry | None:
    """The entry of a twin as one of this region: with guards, and watchers of them, of its own. None if those do not hold."""
    known: GuardedCode = entry.guarded_code
    guarded = dataclasses.replace(known, manager=known.manager.anew(), pinned=False, forced_by=stances.forced())
    if not guarded.manager.valid or not passes(guarded, function, args):
        return None
    cells = entry.extras
    if compiled.resumes:
        cells = tuple([
            types.CellType(_resume_in(state, value, compiled.resumes[name])) if name in compiled.resumes else cell
            for cell, (name, value) in zip(cells, _extras(entry), strict=True)
        ])  # fmt: skip
    made = entry_with_guards(entry, guarded, state, cells)
    compiled.entries.add(made)
    compiled.takeovers += 1
    return made


def _resume_in(state: RegionState, dispatcher: _C.Dispatcher, marks: tuple[bool, bool]) -> _C.Dispatcher:
    """The resume function of a twin, with entries in this region."""
    function: Any = dispatcher.function
    return state.make_resume(function.__code__, function.__globals__, *marks)


def _report(
    state: RegionState,
    compiled: Compile,
    entry: _C.Entry,
    function: types.FunctionType,
    args: tuple[Any, ...],
    made: _C.Entry | None,
) -> None:
    def text() -> str:
        graph = entry.guarded_code.graph_name or "an entry without a graph"
        what = f"{log_texts.function_place(function.__code__)}: {graph} of {compiled.region}"
        if made is not None:
            return f"SHARED {what} is taken over by {state.name}"
        reason = compiled.refusal or entry.guarded_code.manager.explain(args, function.__closure__)
        return f"NOT SHARED {what} does not serve {state.name}: {reason or 'something that it guards has died'}"

    logs.emit("sharing", text)
