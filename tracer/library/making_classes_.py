"""Class statements, staticmethod, classmethod and property. What else makes classes breaks the graph where the program calls
it, so that CPython makes the class."""
from __future__ import annotations

import abc
import builtins
import dataclasses
import enum
import types
import typing
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.classes import ClassVariable
from tracer.variables.functions import CellVariable, NestedFunctionVariable
from tracer.variables.made_classes import (
    PLAIN_METACLASSES,
    ClassMethodVariable,
    MadeClassVariable,
    PropertyVariable,
    StaticMethodVariable,
    prototype,
    runs_nothing,
)

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker
PLAIN_METACLASSES.add(type(torch.autograd.Function))


@models(builtins.__build_class__)
def _build_class(tx: Tracer, body: Value, name: Value, /, *bases: Value, **kwargs: Value) -> Value:
    """A class statement. Its body is traced as the code that it is; then a prototype stands for the class."""
    if kwargs or not isinstance(body, NestedFunctionVariable) or not name.is_constant():
        unsupported("makes-a-class", function="A class statement with keywords")
    classes: list[type] = []
    for base in bases:
        if not isinstance(base, ClassVariable) or not runs_nothing(base.value):
            unsupported("makes-a-class", function=f"A class statement with {base.describe()} for a base")
        classes.append(base.value)
    namespace = tx.run_class_body(body)
    cell = namespace.pop("__classcell__", None)
    known = {key: prototype(tx, key, value) for key, value in namespace.items()}
    metaclass = max((type, *map(type, classes)), key=lambda cls: len(cls.__mro__))
    try:
        cls = metaclass(name.constant(), tuple(classes), known)
    except (TypeError, ValueError) as error:
        unsupported("makes-a-class", function=f"A class statement that fails ({error})")
    tx.trace.findings.made[id(cls)] = cls
    made = tx.trace.builder.remember(cls, MadeClassVariable(cls, list(bases), namespace))
    if isinstance(cell, CellVariable):
        cell.write(tx, made)
    return made  # type: ignore[no-any-return]


@models(staticmethod)
def _staticmethod(tx: Tracer, function: Value, /) -> Value:
    return StaticMethodVariable(function)


@models(classmethod)
def _classmethod(tx: Tracer, function: Value, /) -> Value:
    return ClassMethodVariable(function)


@models(property)
def _property(tx: Tracer, fget: Value | None = None, fset: Value | None = None, fdel: Value | None = None) -> Value:
    parts = {"fget": fget, "fset": fset, "fdel": fdel}
    return PropertyVariable({name: part for name, part in parts.items() if part is not None})


def _making(name: str) -> Any:
    def model(tx: Tracer, *args: Any, **kwargs: Any) -> Any:
        unsupported("makes-a-class", function=name)

    return model


for _function in (
    dataclasses.dataclass, dataclasses.make_dataclass, types.new_class,
    typing.NamedTuple, typing.TypedDict, typing.NewType, abc.update_abstractmethods, enum.unique,
):  # fmt: skip
    models(_function)(_making(getattr(_function, "__qualname__", str(_function))))
