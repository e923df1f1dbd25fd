"""Which of the frames that the hook offers are traced: most of them run Python code that has nothing to do with tensors.

With `config.convert_every_frame` all are traced but those of the tracer and of torch, to test the tracer on any Python.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

import torch

from tracer import _C, config
from tracer.protocol.inlining import disabled_for_itself, forbids_tracing_below, may_be_root
from tracer.sources.reading import is_a

TRACE = object()
_DEPTH = 3
_WIDTH = 20  # items of a container that are looked at
_TORCH = (torch.Tensor, torch.nn.Module)
_names_torch: weakref.WeakKeyDictionary[types.FunctionType, bool] = weakref.WeakKeyDictionary()


_MACHINERY = frozenset(("tracer", "shapes", "torch", "sympy", "z3"))  # packages that the tracer itself calls


def answer_without_tracing(function: types.FunctionType, args: tuple[Any, ...]) -> Any:
    """For a frame that was not decorated: SKIP (never trace it), None (not with these arguments), or TRACE."""
    name = function.__globals__.get("__name__")
    if _makes_named_tuple(function.__code__, name):
        return _C.SKIP
    if forbids_tracing_below(name, function.__code__):
        _C.never_trace(function.__code__, callees=True)
        return _C.SKIP
    disabled = disabled_for_itself(function)
    if disabled is not None:
        _C.never_trace(disabled.__code__)
        return None  # not SKIP: the code is that of all such wrappers
    if config.convert_every_frame:
        return _C.SKIP if isinstance(name, str) and name.partition(".")[0] in _MACHINERY else TRACE
    if not may_be_root(name):
        return _C.SKIP
    return TRACE if concerns_tensors(function, args) else None


def _makes_named_tuple(code: types.CodeType, name: Any) -> bool:
    """Whether it is the `__new__` that `collections.namedtuple` writes, which puts its arguments into a tuple. Its globals are of
    no module, so that nothing tells those of the tracer from those of the program."""
    return code.co_filename == "<string>" and isinstance(name, str) and name.startswith("namedtuple_")


def concerns_tensors(function: types.FunctionType, args: tuple[Any, ...]) -> bool:
    """Whether a frame may work on tensors: an argument or a closure holds one, or its code names something of torch."""
    if any(_holds_tensor(value, _DEPTH) for value in args):
        return True
    known = _names_torch.get(function)
    if known is None:
        known = _names_torch[function] = any(_is_of_torch(function.__globals__.get(name)) for name in function.__code__.co_names)
    return known or any(_holds_tensor(cell_value(cell), _DEPTH) for cell in function.__closure__ or ())


def _is_of_torch(value: Any) -> bool:
    read = type.__getattribute__ if is_a(value, type) else object.__getattribute__
    try:
        name = read(value, "__name__" if is_a(value, types.ModuleType) else "__module__")
    except AttributeError:
        return False
    return isinstance(name, str) and (name == "torch" or name.startswith("torch."))


def cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _holds_tensor(value: Any, depth: int) -> bool:
    """Looks into built-in containers and instance dicts, without running code of the program."""
    cls = type(value)
    if issubclass(cls, _TORCH):
        return True
    if depth == 0 or cls in (int, float, bool, str, bytes, type(None)) or issubclass(cls, type):
        return False
    items: Any = ()
    if issubclass(cls, (list, tuple)):
        items = (list if issubclass(cls, list) else tuple).__iter__(value)
    elif issubclass(cls, dict):
        items = dict.values(value)
    elif cls is types.MethodType:
        items = (value.__self__,)
    elif cls is not types.ModuleType:
        items = (_C.instance_dict(value) or {}).values()
    return any(_holds_tensor(item, depth - 1) for _, item in zip(range(_WIDTH), items))
