"""Objects whose items are their attributes (`self.__dict__ = self`).

A trace knows the items of a dict and the attributes of an object apart. Both are the same while nothing changes one of them."""

from __future__ import annotations

from tracer._C import instance_dict
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker, whole


def may_be_own_namespace(target: VariableTracker) -> bool:
    """Whether what is changed is part of an object that existed before the frame ran, of a class of dicts with attributes."""
    cls = type(whole(target).identity())
    return cls is not dict and issubclass(cls, dict) and bool(cls.__dictoffset__)


def refuse_change(target: VariableTracker) -> None:
    """Breaks the graph where such an object, or what it holds, is about to change."""
    if may_be_own_namespace(target):
        real = whole(target).identity()
        if instance_dict(real) is real:
            unsupported("own-namespace", value=whole(target).describe())
