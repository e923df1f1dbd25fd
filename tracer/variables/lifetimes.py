"""Whether code of the program may run when the last reference to a value goes.

That is told from the very object, and not guarded: where it is asked, a break too many does no harm.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.sources.reading import type_dict, type_mro
from tracer.variables.base import VariableTracker
from tracer.variables.lazy import Unwrapped

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
    cls = getattr(value, "cls", None)
    return isinstance(cls, type) and is_finalised(cls)


def leads_to_code(value: VariableTracker | Unwrapped) -> bool:
    """Of a tracked value, and of what it leads to."""
    todo, seen = deque([value]), set[VariableTracker]()
    while todo and len(seen) < _MOST:
        part = todo.popleft()
        if isinstance(part, Unwrapped):
            if may_run_code(part.value):
                return True
        elif part not in seen:
            seen.add(part)
            if ends_with_code(part):
                return True
            todo.extend(part.holdings())
    return False


def give_up(values: Iterable[VariableTracker | Unwrapped], what: str) -> None:
    """A container is about to hold no more what it held. If code of the program may run then, it runs behind a break."""
    if any(leads_to_code(value) for value in values):
        unsupported("abandoned-generator", value=what)


def give_up_attribute(target: VariableTracker, name: str) -> None:
    """As `give_up`, of what an object that existed before the frame ran has in an attribute."""
    owner = getattr(target, "value", None)
    if target.source is None or owner is None:
        return
    if isinstance(owner, type):
        give_up_object(type_dict(owner).get(name), f"the attribute {name!r}")
    else:
        try:
            held = _C.raw_attr(owner, name)
        except AttributeError:
            return
        give_up_object(held, f"the attribute {name!r}")


def give_up_object(held: Any, what: str) -> None:
    """As `give_up`, of an object that existed before the frame ran."""
    if gc.is_tracked(held) and may_run_code(held):
        unsupported("abandoned-generator", value=what)


def _parts(value: Any) -> list[Any]:
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    return gc.get_referents(value)
