"""Annotations that a function of the class gives when they are asked for (PEP 649, Python 3.14).

CPython calls the function once and keeps the dict in the namespace of the class, under a name of its own. Of a class that the
trace made, the function is traced. The library is told what it gave, of the prototype and again of the class that the output
code makes: by then a cell that the function reads may hold something else.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import has_from_python, lookup
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import ANNOTATION_VALUES, NestedFunctionVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.classes.classes import ClassVariable

#: Where the namespace of a class statement has the function.
_FUNCTIONS = ("__annotate_func__", "__annotate__")
KEPT = "__annotations_cache__"


def annotate_name(namespace: Iterable[str]) -> str | None:
    """The name under which a namespace has the function that gives its annotations; None if it has none."""
    return next((name for name in _FUNCTIONS if name in namespace), None)


def of_existing(tx: Tracer, cls: ClassVariable) -> VariableTracker | None:
    """What such a function of a class gives that existed before the frame ran; None if the class has no such function. Where
    nobody has asked for it yet, the function is traced, and the output code keeps in the class what it gave."""
    name = annotate_name(vars(cls.value))
    if name is None or lookup(cls.value, name)[1] is None or lookup(cls.value, "__annotations__")[0] is cls.value:
        return None
    if lookup(cls.value, KEPT)[0] is not cls.value and tx.effects.attribute(cls, KEPT) is None:
        if cls.source is None or has_from_python(type(cls.value), "__setattr__"):
            unsupported("unsupported-attribute", value=cls.describe(), name="__annotations__")
        found = traced(tx, tx.class_attr(cls.value, name, cls))
        tx.effects.store_class_attribute(cls, cls.value, KEPT, found)
    return tx.class_attr(cls.value, KEPT, cls)


def traced(tx: Tracer, function: VariableTracker) -> DictVariable:
    """What the function of a class that the trace made gives."""
    found = function.call(tx, [ConstantVariable(ANNOTATION_VALUES)], {})
    if not isinstance(found, DictVariable) or not all(key.is_constant() for key in found.keys()):
        unsupported("unsupported-attribute", value=function.describe(), name="__annotations__")
    return found


def reads_cells(function: VariableTracker) -> bool:
    """Whether what the function gives may change: it reads variables of the functions around the class."""
    own = ("__classdict__", "__conditional_annotations__")
    return not isinstance(function, NestedFunctionVariable) or any(name not in own for name in function.code.co_freevars)


def keep(cls: type, annotations: dict[str, Any]) -> type:
    """Called by output code, and for a prototype: makes these the annotations that the function of the class has given."""
    type.__setattr__(cls, KEPT, annotations)
    return cls


def giving(annotations: dict[str, Any]) -> Any:
    """A function that gives these, in each format but the text."""
    return lambda format: annotations


def applied(step: Callable[[Any], Any], cls: Any, annotations: dict[str, Any] | None) -> Any:
    """step(cls), where the function of the class gives these; None: what it gives itself. -> the class that it returns, or cls"""
    name = None if annotations is None else annotate_name(vars(cls))
    if annotations is None or name is None:
        return step(cls) or cls
    own = vars(cls)[name]
    type.__setattr__(cls, name, giving(annotations))
    try:
        made = step(cls) or cls
    finally:
        type.__setattr__(cls, name, own)
    type.__setattr__(made, name, own)  # a dataclass with slots is another class
    return made


def mentions(form: Any, cls: type) -> bool:
    """Whether a class is part of an annotation."""
    return form is cls or any(mentions(part, cls) for part in typing.get_args(form))
