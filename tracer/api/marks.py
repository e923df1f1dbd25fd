"""Marks on the dims of tensors, and on functions: what may vary, what never does, what enters a graph as it is.

A mark is checked whole before anything is stored, so a refused one changes nothing. A dim marked twice keeps the
later mark.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

from tracer import _C, user_marks
from tracer.exc import UserError
from tracer.user_marks import DimMark

F = TypeVar("F", bound=Callable[..., Any])
Dims = int | Iterable[int]


def mark_dynamic(t: torch.Tensor, dims: Dims, *, min: int | None = None, max: int | None = None, strides: bool = False) -> None:
    """These dims vary: symbolic from the first trace on, and an error if the program fixes one.

    `min` and `max` bound every size that will come (inclusive); without a `min`, sizes 0 and 1 take their own entries.
    With `strides`, the strides of these dims are symbols, too, as slices of buffers of several widths need; 0 and 1 take their
    own entries, and so does what the program asks of the layout.
    Raises IndexError for a dim that `t` has not, TypeError and ValueError for bounds that are no sizes.
    A program that fixes the size raises ConstraintViolationError at its first call.

    ```python
    x = torch.ones(4, 3)
    tracer.mark_dynamic(x, 0, min=2, max=64)
    compiled = tracer.compile(lambda x: x * x.shape[0])
    compiled(x), compiled(torch.ones(9, 3))
    assert len(tracer.region_of(compiled).entries()) == 1
    ```
    """
    _check_bounds(min, max)
    _mark("mark_dynamic", t, dims, DimMark("dynamic", min, max, strides))


def maybe_mark_dynamic(t: torch.Tensor, dims: Dims, *, strides: bool = False) -> None:
    """As `mark_dynamic`, but a program may fix the size: it is then a constant of that graph, and no error.

    ```python
    x = torch.ones(4)
    tracer.maybe_mark_dynamic(x, 0)
    assert tracer.compile(lambda x: x + (1 if x.shape[0] == 4 else 2))(x).sum() == 8
    ```
    """
    _mark("maybe_mark_dynamic", t, dims, DimMark("maybe_dynamic", strides=strides))


def mark_static(t: Any, dims: Dims | None = None) -> Any:
    """These dims (all, if none is given) are constants of each graph, even if they vary: a call with another size retraces.

    A module, or a class of modules, is returned as it is: what a module holds is static unless marked otherwise.
    Raises IndexError for a dim that `t` has not, TypeError for what is no tensor.

    ```python
    x = torch.ones(4, 3)
    tracer.mark_static(x, 1)
    ```
    """
    if isinstance(t, torch.nn.Module) or (isinstance(t, type) and issubclass(t, torch.nn.Module)):
        return t
    _mark("mark_static", t, dims, DimMark("static"))


def mark_unbacked(t: torch.Tensor, dims: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """The sizes of these dims are not looked at while tracing: one graph serves all of them, 0 and 1 too, and a branch on one
    breaks the graph.

    Raises as `mark_dynamic` does.

    ```python
    x = torch.ones(4)
    tracer.mark_unbacked(x, 0)
    compiled = tracer.compile(lambda x: x * 2, fullgraph=True)
    compiled(x), compiled(torch.ones(1))
    assert len(tracer.region_of(compiled).entries()) == 1
    ```
    """
    _check_bounds(min, max)
    _mark("mark_unbacked", t, dims, DimMark("unbacked", min, max))


def mark_static_address(t: torch.Tensor, guard: bool = True) -> None:
    """Says that a tensor stays where it is in memory. It changes nothing, since tensors reach graphs as inputs; it is there so
    that programs written for torch._dynamo run. `guard` is not used.

    Raises TypeError for what is no tensor.

    ```python
    tracer.mark_static_address(torch.ones(3))
    ```
    """
    _require_tensor("mark_static_address", t)


def _mark(who: str, t: torch.Tensor, dims: Dims | None, mark: DimMark) -> None:
    _require_tensor(who, t)
    indices = range(t.dim()) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    user_marks.set_dim_marks(t, {_normalised(who, t, dim): mark for dim in indices})


def _require_tensor(who: str, t: object) -> None:
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"tracer.{who} expects a tensor, not {type(t).__name__}")


def _normalised(who: str, t: torch.Tensor, dim: object) -> int:
    """A dim counted from the front; raises what `mark_dynamic` says."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"tracer.{who}: a dim is an int, not {dim!r}")
    if not -t.dim() <= dim < t.dim():
        valid = f"from {-t.dim()} to {t.dim() - 1}" if t.dim() else "none (it is a scalar)"
        raise IndexError(f"tracer.{who}: dim {dim} is out of range for a tensor of shape {tuple(t.shape)}; valid dims: {valid}")
    number: int = dim % t.dim()
    return number


def _check_bounds(low: object, high: object) -> None:
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise TypeError(f"{name}={bound!r} is not a size: expected an int or None")
        if isinstance(bound, int) and bound < 0:
            raise ValueError(f"{name}={bound} is not a size: it is negative")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise ValueError(f"min={low} is above max={high}: no size is left")


# -- functions -------------------------------------------------------------------------------------------------


def allow_in_graph(fn: Any) -> Any:
    """The function (or each of a list) enters graphs as one call, untraced; it must be a function of its arguments.

    Returns what it was given. Raises UserError for what cannot be called.

    ```python
    @tracer.allow_in_graph
    def shifted(x):
        return x.sin() + 1

    compiled = tracer.compile(lambda x: shifted(x) * 2)
    compiled(torch.ones(3))
    assert [node.name for node in tracer.region_of(compiled).entries()[0].guarded_code.graph.graph.nodes][1] == "shifted"
    ```
    """
    return _policy("allow_in_graph", fn, "allow")


def disallow_in_graph(fn: Any) -> Any:
    """A call of this function (or of each of a list) breaks the graph and runs in CPython, with all that it calls.

    Unlike `disable` it leaves the function as it is, and takes C functions, too. Returns what it was given. Raises UserError for
    what cannot be called.

    ```python
    @tracer.disallow_in_graph
    def by_cpython(x):
        return x + 1

    assert tracer.compile(lambda x: by_cpython(x * 2) * 3)(torch.ones(1)) == 9
    ```
    """
    return _policy("disallow_in_graph", fn, "disallow")


def forbid_in_graph(fn: Any) -> Any:
    """A call of this function (or of each of a list) in traced code is a UserError that says where the call is.

    Calls that CPython makes, outside of compiled code or where the graph is broken, run, and are not traced. Returns what it was
    given. Raises UserError for what cannot be called.

    ```python
    @tracer.forbid_in_graph
    def load_weights(x):
        return x

    try:
        tracer.compile(lambda x: load_weights(x) + 1)(torch.ones(3))
    except tracer.exc.UserError as error:
        print(error)
    ```
    """
    return _policy("forbid_in_graph", fn, "forbid")


def assume_constant_result(fn: F) -> F:
    """The function is called while tracing only, with the arguments of that call; its result is a constant, and nothing guards
    that it stays so.

    Raises UserError for what cannot be called.

    ```python
    @tracer.assume_constant_result
    def version():
        return 3

    assert tracer.compile(lambda x: x * version())(torch.ones(1)) == 3
    ```
    """
    if not callable(fn):
        raise UserError(f"assume_constant_result decorates functions; got {fn!r}")
    user_marks.constant_result.set(fn)
    return fn


def _policy(who: str, fn: Any, policy: str) -> Any:
    """Sets the policy of a function, or of each of a list; `who` is the public function that the errors name."""
    functions = [_function_of(each) for each in (fn if isinstance(fn, (list, tuple)) else [fn])]
    for function in functions:
        if not callable(function):
            raise UserError(f"{who} takes functions; got {function!r}")
    for function in functions:
        user_marks.graph_policy.set(function, policy)
        if policy != "allow" and isinstance(function, types.FunctionType):
            _C.never_trace(function.__code__, callees=True)  # where CPython calls it, neither it nor what it calls is traced
    return fn


def _function_of(fn: Any) -> Any:
    """The function under a method: a bound method is another object at each access, and marks go by identity."""
    return fn.__func__ if isinstance(fn, (types.MethodType, staticmethod, classmethod)) else fn
