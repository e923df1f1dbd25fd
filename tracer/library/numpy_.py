"""Models of NumPy's functions: operations of the graph where `torch._numpy` has the function too; the rest breaks the graph.

Functions with side effects are left to CPython, because `torch._numpy` does not keep NumPy's own state. `random_` models
`np.random`.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.graph.operations.array_operations import array_operation, tnp
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.tensors.arrays import NdarrayVariable, apply
from tracer.variables.values.constant import NONE, ConstantVariable, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

_NAMESPACES: tuple[tuple[str, ModuleType], ...] = (("", np), ("linalg.", np.linalg), ("fft.", np.fft))


def _function(paths: list[str]) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        path = next(filter(_is_in_torch, paths), None)
        if path is None:
            unsupported("unsupported-builtin", function=f"numpy.{paths[0]}")
        return apply(tx, array_operation("function", path), list(args), kwargs)

    return model


@functools.cache
def _is_in_torch(path: str) -> bool:
    found: Any = tnp
    for name in path.split("."):
        found = getattr(found, name, None)
    return found is not None


def _functions() -> dict[int, tuple[Any, list[str]]]:
    """NumPy's functions by id, each with all its names."""
    found: dict[int, tuple[Any, list[str]]] = {}
    for prefix, namespace in _NAMESPACES:
        for name in dir(namespace):
            value = None if name.startswith("_") else getattr(namespace, name)
            if callable(value) and not isinstance(value, type):
                found.setdefault(id(value), (value, []))[1].append(prefix + name)
    return found


for _numpys, _paths in _functions().values():
    if models.get(_numpys) is None:
        models.of_plain_tensors(_numpys)(_function(_paths))


def _scalar(cls: type[np.number[Any]]) -> Any:
    def model(tx: Tracer, *args: Value) -> Value:
        if not all(isinstance(arg, ConstantVariable) for arg in args):
            unsupported("unsupported-builtin", function=f"numpy.{cls.__name__} of something else than a constant")
        return fold(tx, cls, *(arg.constant() for arg in args))

    return model


for _name in "int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128".split():
    models.of_plain_tensors(getattr(np, _name))(_scalar(getattr(np, _name)))


# -- from arrays to tensors ------------------------------------------------------------------------------------------------


def shared_tensor(tx: Tracer, array: NdarrayVariable) -> Value:
    """A new tensor in the memory of an array."""
    if array.is_scalar or not array.writeable:
        unsupported("unsupported-builtin", function="torch.from_numpy of a scalar or of an array that is read only")
    return array.tensor.call_method(tx, "detach", [], {})


@models.of_plain_tensors(torch.from_numpy)
def _from_numpy(tx: Tracer, array: Value) -> Value:
    if not isinstance(array, NdarrayVariable):
        unsupported("unsupported-builtin", function="torch.from_numpy")
    return shared_tensor(tx, array)


def tensor_of(tx: Tracer, array: NdarrayVariable, copies: bool, dtype: Value = NONE, **kwargs: Value) -> Value:
    """`torch.tensor(array)` or, where it need not copy, `torch.as_tensor(array)`."""
    if kwargs:
        unsupported("unsupported-builtin", function=f"torch.tensor of an array with {', '.join(kwargs)}")
    if copies or array.is_scalar:
        tensor = array.tensor.call_method(tx, "clone", [], {})
    else:
        tensor = shared_tensor(tx, array)
    return tensor if dtype is NONE else tensor.call_method(tx, "to", [dtype], {})
