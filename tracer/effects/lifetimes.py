"""Whether code of the program may run when the last reference to a value goes.

That is told from the very object, and guarded for locals alone: where it is asked, a break too many does no harm.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable
from typing import Any

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.lifetimes import MOST, has_callback, is_finalised, may_run_code
from tracer.guards.references import is_class
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import type_dict


def ends_with_code(value: VariableTracker) -> bool:
    """Of a tracked value, without what it leads to."""
    cls, real = getattr(value, "cls", None), getattr(value, "value", None)
    return isinstance(cls, type) and (is_finalised(cls) or has_callback(real))


def leads_to_code(value: VariableTracker | Unwrapped) -> bool:
    """Of a tracked value, and of what it leads to."""
    todo, seen = deque([value]), set[VariableTracker]()
    while todo and len(seen) < MOST:
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
    if is_class(owner):  # isinstance may ask the object for its __class__
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
