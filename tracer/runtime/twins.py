"""What the regions of equal objects have learnt in common: docs/decisions/sharing.md.

Two regions are twins at a call if they compile modules of the same structure with the same settings (or functions of the same
code, under `tracer.install()`), and the call runs the same code with the same globals. A `Family` is an index of what its
regions have; it owns nothing, and goes with the last of them.
"""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from shapes import SizeHistory
from tracer import _C, config
from tracer.user_marks import sizes_by_name

if TYPE_CHECKING:
    from tracer.backends.calling import Backend
    from tracer.runtime.region_state import RegionState

_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
# Hooks of a region that are told of each trace, or decide what it guards: such a region traces for itself.
HOOKS = ("on_graph", "on_break", "on_guards", "on_inputs", "guard_export_fn", "guard_filter_fn")
_PLAIN = (type(None), bool, int, float, str, bytes)


@dataclasses.dataclass(eq=False)
class Compile:
    """One compile, whose graph the entries of several regions share. It lives as long as one of those.

    `refusal`: what it knows of the first object by identity, so that no other may have it; empty if nothing. `seen`: the sizes
    in the trace. `resumes`: for each name that the output code has for a resume function, the arguments of `make_resume`.
    """

    region: str
    refusal: str
    seen: dict[str, tuple[Any, ...]]
    resumes: dict[str, tuple[bool, bool]]
    entries: weakref.WeakSet[_C.Entry] = dataclasses.field(default_factory=weakref.WeakSet)
    takeovers: int = 0

    def entry_of(self, function: types.FunctionType) -> _C.Entry | None:
        """A live entry for the code and the globals of a function."""
        for entry in self.entries:
            if entry.valid and entry.guarded_code.manager.is_for(function.__code__, function.__globals__):
                return entry
        return None


class Family:
    """Regions that are twins, for one code object and one globals."""

    def __init__(self) -> None:
        self.history = SizeHistory()  # what has varied in the calls of any of them
        self._compiles: list[weakref.ref[Compile]] = []  # the oldest first

    def add(self, compiled: Compile) -> None:
        self._compiles = [known for known in self._compiles if known() is not None]
        self._compiles.append(weakref.ref(compiled))

    def compiles(self) -> Iterator[Compile]:
        """Those that an entry still has, the newest first."""
        for reference in reversed(self._compiles):
            found = reference()
            if found is not None:
                yield found


_families: weakref.WeakValueDictionary[tuple[Any, ...], Family] = weakref.WeakValueDictionary()


def family_of(state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> Family | None:
    """The family of a region at a call; None for a region that shares nothing. To be asked under the tracing lock."""
    if not _shares(state):
        return None
    code = function.__code__
    if code in state.roots and code not in state.resume_codes:  # what it calls belongs to the structure of its last call
        state.structure = _structure_at(state, code, args)
    if state.structure is None:
        return None
    key = (*_settings_of(state), state.structure, id(code), id(function.__globals__))
    family = _families.get(key)
    if family is None:
        family = _families[key] = Family()
    state.families[key] = family
    return family


def _shares(state: RegionState) -> bool:
    """Whether a region takes part: it compiles one module, or a function that shares; its entries are guarded in full, and nobody
    watches its traces."""
    return (
        (state.is_of_module or state.shares_code)
        and config.guard_nn_modules
        and not config.verify_correctness
        and state.shapes is None
        and not state.backend.needs_real_inputs
        and all(getattr(state, hook) is None for hook in HOOKS)
    )


def _settings_of(state: RegionState) -> tuple[Any, ...]:
    """What traces depend on beside the object and the call."""
    return *backend_key(state.backend), state.fullgraph, state.dynamic, *of_process()


def of_process() -> tuple[Any, ...]:
    """The settings of the process that traces depend on."""
    return *config.of_traces().values(), *sizes_by_name.said()


def backend_key(backend: Backend) -> tuple[Any, ...]:
    """Hashable; equal for backends that are the same function with the same options, as long as that lives."""
    function = backend.compiler_fn
    if type(function) is types.MethodType:  # made anew at each read
        return id(function.__self__), id(function.__func__), _value_key(backend.options), backend.repeated
    return id(function), _value_key(backend.options), backend.repeated


def _value_key(value: Any) -> Any:
    """Hashable; equal for options that are the same. An object that is no plain data is only the same as itself."""
    if type(value) in _PLAIN:
        return type(value), value
    if type(value) is dict:
        return dict, frozenset((_value_key(key), _value_key(item)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value), tuple(map(_value_key, value))
    return object, id(value)


def _structure_at(state: RegionState, code: types.CodeType, args: tuple[Any, ...]) -> int | None:
    """What twins have in common at a call of what they compile: the structure of a module, or the code of a function."""
    if not state.is_of_module:
        return hash((types.CodeType, id(code)))
    return _structure_of(args[0]) if args and isinstance(args[0], torch.nn.Module) else None


def _structure_of(module: torch.nn.Module) -> int:
    """A number that is the same for modules of the same classes, with parameters and buffers of the same kind, under the same
    names. Guards decide whether an entry holds; this number says of which objects it is worth asking."""
    seen: dict[int, int] = {}
    found: list[Any] = []
    with torch._C.DisableTorchFunction():
        _add_structure(module, seen, found)
    return hash(tuple(found))


def _add_structure(module: Any, seen: dict[int, int], found: list[Any]) -> None:
    found.append(id(type(module)))
    if id(module) in seen:
        found.append(seen[id(module)])
        return
    seen[id(module)] = len(seen)
    own = _C.instance_dict(module) or {}
    for kind in ("_parameters", "_buffers"):
        tensors = own.get(kind)
        for name, tensor in list(tensors.items()) if isinstance(tensors, dict) else ():
            found += (name, id(type(tensor)))
            if type(tensor) in _PLAIN_TENSORS:
                found += (tensor.dtype, tensor.device, tensor.layout)
                found.append(tuple(tensor.shape) if tensor.layout is torch.strided and not tensor.is_nested else None)
    modules = own.get("_modules")
    for name, child in list(modules.items()) if isinstance(modules, dict) else ():
        found.append(name)
        if isinstance(child, torch.nn.Module):
            _add_structure(child, seen, found)
