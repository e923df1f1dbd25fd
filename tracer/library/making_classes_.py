"""What makes classes breaks the graph where the program calls it, so that CPython makes the class."""
from __future__ import annotations

import abc
import builtins
import dataclasses
import enum
import types
import typing
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.library.registry import models

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


def _making(name: str) -> Any:
    def model(tx: Tracer, *args: Any, **kwargs: Any) -> Any:
        unsupported("makes-a-class", function=name)

    return model


for _function in (
    builtins.__build_class__, dataclasses.dataclass, dataclasses.make_dataclass, types.new_class,
    typing.NamedTuple, typing.TypedDict, typing.NewType, abc.update_abstractmethods, enum.unique,
):  # fmt: skip
    models(_function)(_making(getattr(_function, "__qualname__", str(_function))))
