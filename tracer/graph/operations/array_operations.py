"""Operations of NumPy as nodes of a graph: functions from tensors to tensors, which `torch._numpy` makes of torch's operators.

A backend sees through them: called with fake tensors or proxies, they run torch's own operators.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch._numpy as tnp


class ArrayOperation:
    """One of NumPy's functions, methods, attributes or operators on tensors in place of arrays. `name` begins with its kind, as
    in `function:linalg.norm`, `method:reshape`, `attribute:T`, `operator:add`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = f"numpy_{name.partition(':')[2].replace('.', '_')}"
        self.__qualname__ = self.__name__

    def __repr__(self) -> str:
        return f"<{self.name} on tensors>"

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """The function on arrays of `torch._numpy` that computes it."""
        kind, _, name = self.name.partition(":")
        return _KINDS[kind](name)

    @functools.cached_property
    def _computes_floats(self) -> bool:
        return self.name.partition(":")[2] in _OF_FLOATS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:

        def array(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return tnp.ndarray(value)
            if type(value) in (list, tuple):
                return type(value)(map(array, value))
            if type(value) is slice:
                return slice(array(value.start), array(value.stop), array(value.step))
            return value

        def tensor(value: Any) -> Any:
            if isinstance(value, tnp.ndarray):
                return value.tensor
            if type(value) in (list, tuple):
                return type(value)(map(tensor, value))
            return value

        if self._computes_floats:
            args = tuple(_as_float(arg) for arg in args)
        if self.name.startswith("operator:") and len(args) == 2:
            args = _as_wide(args[0], args[1]), _as_wide(args[1], args[0])
        arrays = {key: array(value) for key, value in kwargs.items()}
        return tensor(self.function(*map(array, args), **arrays))


# Operations whose result for integers is float64 in NumPy, and of torch's default dtype in torch.
_OF_FLOATS = frozenset(
    "truediv itruediv true_divide divide mean std var sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh "
    "arcsin arccos arctan arcsinh arccosh arctanh arctan2 hypot deg2rad rad2deg degrees radians".split()
)


def _as_float(value: Any) -> Any:
    """A tensor of integers or bools as one of float64; any other value as it is."""
    whole = isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())
    return value.to(torch.float64) if whole else value


def _as_wide(value: Any, other: Any) -> Any:
    """A symbolic int that is combined with an array, as a tensor of the array's dtype. Of the number itself `torch._numpy` would
    need the value."""
    wide = isinstance(other, torch.Tensor) and (other.is_floating_point() or other.dtype is torch.int64)
    return torch.scalar_tensor(value, dtype=other.dtype) if wide and isinstance(value, torch.SymInt) else value


def _function(path: str) -> Callable[..., Any]:
    found: Callable[..., Any] = operator.attrgetter(path)(tnp)
    return found


def _method(name: str) -> Callable[..., Any]:
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


def _attribute(name: str) -> Callable[..., Any]:
    return operator.attrgetter(name)


def _operator(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(operator, name)
    return found


_KINDS: dict[str, Callable[[str], Callable[..., Any]]] = {
    "function": _function,
    "method": _method,
    "attribute": _attribute,
    "operator": _operator,
}


@functools.cache
def is_in_torch(name: str) -> bool:
    """Whether `torch._numpy` has the function of an operation; it has all operators, and methods are tried."""
    kind, _, path = name.partition(":")
    found: Any = tnp
    for part in path.split(".") if kind == "function" else ():
        found = getattr(found, part, None)
    return found is not None


@functools.cache
def array_operation(kind: str, name: str) -> ArrayOperation:
    """The operation of a kind: "function", "method", "attribute" or "operator"."""
    return ArrayOperation(f"{kind}:{name}")
