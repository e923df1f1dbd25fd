"""Marks on the dims of tensors, and on functions: what may vary, what never does, what enters a graph as it is.

A mark is checked whole before anything is stored, so a refused one changes nothing. A dim marked twice keeps the
later mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

from tracer import user_marks
from tracer.exc import UserError
from tracer.user_marks import DimMark

F = TypeVar("F", bound=Callable[..., Any])
Dims = int | Iterable[int]


def mark_dynamic(t: torch.Tensor, dims: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """These dims vary: symbolic from the first trace on, and an error if the program fixes one.

    `min` and `max` bound every size that will come (inclusive); without a `min`, sizes 0 and 1 take their own entries.
    Raises IndexError for a dim that `t` has not, TypeError and ValueError for bounds that are no sizes.
    """
    _check_bounds(min, max)
    _mark("mark_dynamic", t, dims, DimMark("dynamic", min, max))


def maybe_mark_dynamic(t: torch.Tensor, dims: Dims) -> None:
    """As `mark_dynamic`, but a program that fixes the size may."""
    _mark("maybe_mark_dynamic", t, dims, DimMark("maybe_dynamic"))


def mark_static(t: Any, dims: Dims | None = None) -> Any:
    """These dims (all, if none is given) are constants of the graph, however they vary: each size retraces.

    A module, or a class of modules, is returned as it is: what a module holds is static unless marked otherwise.
    """
    if isinstance(t, torch.nn.Module) or (isinstance(t, type) and issubclass(t, torch.nn.Module)):
        return t
    _mark("mark_static", t, dims, DimMark("static"))


def mark_unbacked(t: torch.Tensor, dims: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """The sizes of these dims are not looked at: one graph serves all, 0 and 1 too; branching on one breaks it."""
    _check_bounds(min, max)
    _mark("mark_unbacked", t, dims, DimMark("unbacked", min, max))


def mark_static_address(t: torch.Tensor, guard: bool = True) -> None:
    """Says that a tensor stays where it is in memory. Accepted and not needed: tensors reach graphs as inputs."""
    _require_tensor("mark_static_address", t)


def _mark(who: str, t: torch.Tensor, dims: Dims | None, mark: DimMark) -> None:
    _require_tensor(who, t)
    indices = range(t.dim()) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    user_marks.set_dim_marks(t, {_normalised(who, t, dim): mark for dim in indices})


def _require_tensor(who: str, t: object) -> None:
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"tracer.{who} expects a tensor, not {type(t).__name__}")


def _normalised(who: str, t: torch.Tensor, dim: object) -> int:
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
    """The function (or each of a list) enters graphs as one call, untraced; it must be a function of its arguments."""
    return _policy("allow_in_graph", fn, "allow")


def disallow_in_graph(fn: Any) -> Any:
    """A call of this function (or of each of a list) breaks the graph and runs in CPython."""
    return _policy("disallow_in_graph", fn, "disallow")


def forbid_in_graph(fn: Any) -> Any:
    """Tracing a call of this function is an error."""
    return _policy("forbid_in_graph", fn, "forbid")


def assume_constant_result(fn: F) -> F:
    """The function is called while tracing only, with the arguments of that call; its result is a constant, and nothing guards
    that it stays so."""
    if not callable(fn):
        raise UserError(f"assume_constant_result decorates functions; got {fn!r}")
    user_marks.constant_result.set(fn)
    return fn


def _policy(who: str, fn: Any, policy: str) -> Any:
    functions = list(fn) if isinstance(fn, (list, tuple)) else [fn]
    for function in functions:
        if not callable(function):
            raise UserError(f"{who} takes functions; got {function!r}")
    for function in functions:
        user_marks.graph_policy.set(function, policy)
    return fn
