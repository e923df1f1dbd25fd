"""Whether code of the program may run when the last reference to a value goes.

That is told from the very object, and not guarded: where it is asked, a break too many does no harm.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from typing import Any

import torch

from tracer.sources.reading import type_dict, type_mro
from tracer.variables.base import VariableTracker
from tracer.variables.objects import UserObjectVariable
from tracer.variables.opaque import OpaqueVariable

_MOST = 64  # objects looked at: what is behind more of them is somebody else's, too
_LASTING = (type, types.ModuleType, types.CodeType, types.FrameType, torch.Tensor, torch.nn.Module)


def is_finalised(cls: type) -> bool:
    return cls is types.GeneratorType or any("__del__" in type_dict(base) for base in type_mro(cls))


def may_run_code(value: Any) -> bool:
    """Of an object that may be held by nothing else, and of what it leads to."""
    todo, seen = deque([] if issubclass(type(value), _LASTING) else [value]), {id(value)}
    while todo and len(seen) < _MOST:
        part = todo.popleft()
        if is_finalised(type(part)):
            return True
        for inner in _parts(part):
            if gc.is_tracked(inner) and id(inner) not in seen and not issubclass(type(inner), _LASTING):
                seen.add(id(inner))
                todo.append(inner)
                if len(seen) == _MOST:
                    break
    return False


def ends_with_code(value: VariableTracker) -> bool:
    """Of a tracked value, without what it leads to."""
    return isinstance(value, (OpaqueVariable, UserObjectVariable)) and is_finalised(value.cls)


def _parts(value: Any) -> list[Any]:
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    return gc.get_referents(value)
