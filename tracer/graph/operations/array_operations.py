"""Operations of NumPy as nodes of a graph: functions from tensors to tensors, which `torch._numpy` makes of torch's operators.

A backend sees through them: called with fake tensors or proxies, they run torch's own operators.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
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

    @functools.cached_property
    def _takes_two(self) -> bool:
        """Whether it is an operator, or a function that computes what one does element by element."""
        kind, _, name = self.name.partition(":")
        return kind == "operator" and name != "getitem" or kind == "function" and isinstance(real_function(kind, name), np.ufunc)

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
        if self.name == "function:where" and not kwargs:
            args = _exact_choices(*args)
        if self._takes_two and len(args) == 2:
            args = _as_wide(args[0], args[1]), _as_wide(args[1], args[0])
        if self.name == "operator:setitem":
            args = args[0], args[1], _as_wide(args[2], args[0])
        arrays = {key: array(value) for key, value in kwargs.items()}
        return tensor(self.function(*map(array, args), **arrays))


def real_function(kind: str, name: str) -> Callable[..., Any]:
    """The function of NumPy that `ArrayOperation` names by kind and name."""
    if kind == "function":
        given: Callable[..., Any] = operator.attrgetter(name)(np)
        return given
    if kind == "operator":
        found: Callable[..., Any] = getattr(operator, name)
        return found
    if kind == "attribute":
        return operator.attrgetter(name)
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


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
    """A number that is combined with an array, as a tensor of the array's dtype where `torch._numpy` takes it otherwise: it would
    need the value of a symbolic int, and takes a float beside an array without dims for a float64, which NumPy rounds."""
    if not isinstance(other, torch.Tensor):
        return value
    floats = other.is_floating_point()
    is_size = isinstance(value, torch.SymInt) and (floats or other.dtype is torch.int64)
    is_rounded = isinstance(value, (float, torch.SymFloat)) and floats and not other.dim() and other.dtype is not torch.float64
    return torch.scalar_tensor(value, dtype=other.dtype) if is_size or is_rounded else value


def _exact_choices(condition: Any, *choices: Any) -> tuple[Any, ...]:
    """The arguments of `where`. Two Python numbers give float64 or complex128 in NumPy, and torch's default dtype in torch."""
    if len(choices) != 2 or any(isinstance(choice, torch.Tensor) for choice in choices):
        return condition, *choices
    kinds = {type(choice) for choice in choices}
    wide = torch.complex128 if complex in kinds else torch.float64 if kinds & {float, torch.SymFloat} else None
    exact = choices if wide is None else tuple([torch.scalar_tensor(choice, dtype=wide) for choice in choices])
    return condition, *exact


def _outer(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """`np.multiply.outer` and the like: the function of every element of `a` with every one of `b`."""

    def outer(a: Any, b: Any) -> Any:
        a, b = tnp.asarray(a), tnp.asarray(b)
        return ufunc(a.reshape(a.shape + (1,) * b.ndim), b)

    return outer


def _added_at(a: Any, indices: Any, b: Any) -> None:
    """`np.add.at`: each index counts, however often it comes."""
    given = indices if isinstance(indices, tuple) else (indices,)
    places = tuple([torch.as_tensor(getattr(each, "tensor", each)) for each in given])
    a.tensor.index_put_(places, torch.as_tensor(getattr(b, "tensor", b), dtype=a.tensor.dtype), accumulate=True)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    """`np.add.reduce` and the like: without an axis it is the first."""

    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        options = {} if dtype is None else {"dtype": dtype}
        return function(array, axis=axis, out=out, keepdims=keepdims, **options)

    return reduce


_REDUCTIONS = {
    "add": tnp.sum, "multiply": tnp.prod, "maximum": tnp.max, "minimum": tnp.min, "logical_and": tnp.all, "logical_or": tnp.any,
}  # fmt: skip
_ACCUMULATIONS = {"add": tnp.cumsum, "multiply": tnp.cumprod}


def _accumulated(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda array, axis=0, dtype=None, out=None: function(array, axis=axis, dtype=dtype, out=out)


def _ufunc_method(path: str) -> Callable[..., Any] | None:
    """The method of a ufunc, such as `add.reduce`, on arrays of `torch._numpy`; None for those that it cannot compute."""
    name, _, method = path.partition(".")
    if method == "outer" and hasattr(tnp, name):
        return _outer(getattr(tnp, name))
    if method == "reduce" and name in _REDUCTIONS:
        return _reduced(_REDUCTIONS[name])
    if method == "accumulate" and name in _ACCUMULATIONS:
        return _accumulated(_ACCUMULATIONS[name])
    return _added_at if path == "add.at" else None


def _function(path: str) -> Callable[..., Any]:
    found: Callable[..., Any] = _ufunc_method(path) or operator.attrgetter(path)(tnp)
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
    if kind == "function" and _ufunc_method(path) is not None:
        return True
    for part in path.split(".") if kind == "function" else ():
        found = getattr(found, part, None)
    return found is not None


@functools.cache
def array_operation(kind: str, name: str) -> ArrayOperation:
    """The operation of a kind: "function", "method", "attribute" or "operator"."""
    return ArrayOperation(f"{kind}:{name}")
