"""Marks that torch's decorators have set on functions and tensors, before or after the install."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

import torch

from tracer import user_marks
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.torchs import decorators, functions, trace_rules
from tracer.errors import UserError

_FORBIDDEN = "_dynamo_forbidden"


class FunctionMarks:
    """The marks of functions that torch._dynamo keeps in its own tables. While the tracer is installed, `user_marks` asks here
    for each function that has no mark of this project."""

    def __init__(self) -> None:
        user_marks.graph_policy.elsewhere = self

    def take_back(self) -> None:
        user_marks.graph_policy.elsewhere = None

    def policy(self, function: object) -> str | None:
        """One of the words of `user_marks.graph_policy`, or None. A function under `nonstrict_trace` is "allow". One under
        `leaf_function` is "disallow": CPython calls it, between two graphs. Torch forbids some functions of its own, which this
        tracer can trace."""
        key = id(function)
        if key in trace_rules._disallowed_callable_ids or key in trace_rules._leaf_function_ids:
            return "disallow"
        if key in trace_rules._allowed_callable_ids:
            return "allow"
        if type(function) is FunctionType and function.__dict__.get(_FORBIDDEN) and not _is_of_torch(function):
            return "forbid"
        return None

    def substitute(self, function: object) -> FunctionType | None:
        """The function that the program has given to `torch._dynamo.substitute_in_graph` for this one, to be traced in its place.
        Torch's own substitutes are not used: `library.polyfills` has those of this project."""
        if id(function) not in trace_rules._polyfilled_function_ids:
            return None
        found: Any = functions.PolyfilledFunctionVariable._get_polyfill_handlers()[function]
        traced: FunctionType = found.__torch_dynamo_polyfill__
        return None if _is_of_torch(traced) else traced


def _is_of_torch(function: object) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "torch"


class NamedSizes:
    """The sizes that `torch.compiler.config.dynamic_sources` and `unbacked_sources` name, which TORCH_COMPILE_DYNAMIC_SOURCES and
    TORCH_COMPILE_UNBACKED_SOURCES set: comma-separated names or patterns of sources, each with a dim behind a colon or without
    one. `dynamic_values` (TORCH_COMPILE_DYNAMIC_VALUES) lists sizes and ints that are dynamic wherever they occur. The settings
    are read at each trace."""

    def __init__(self) -> None:
        user_marks.sizes_by_name.elsewhere = self

    def take_back(self) -> None:
        user_marks.sizes_by_name.elsewhere = None

    def mark(self, name: str, dim: int | None) -> str | None:
        """The kind of the mark on a dim of a source, or (`dim=None`) on an int."""
        settings = torch.compiler.config
        for listed, kind in ((settings.unbacked_sources, "unbacked"), (settings.dynamic_sources, "maybe_dynamic")):
            if listed and any(each.names(name, dim) for each in _named(listed)):
                return kind
        return None

    def values(self) -> frozenset[int]:
        """The sizes and ints that are marked by their values."""
        return _listed(getattr(torch.compiler.config, "dynamic_values", ""))

    def said(self) -> tuple[str, ...]:
        """The names and values as the settings have them."""
        settings = torch.compiler.config
        return settings.dynamic_sources, settings.unbacked_sources, getattr(settings, "dynamic_values", "")


class _Named(NamedTuple):
    pattern: str
    dim: int | None

    def names(self, source: str, dim: int | None) -> bool:
        fits = self.pattern == source or re.match(self.pattern, source) is not None
        return fits and (dim is None or self.dim is None or self.dim == dim)


@functools.cache
def _listed(values: str) -> frozenset[int]:
    return frozenset(int(each) for each in values.replace(" ", "").split(",") if each)


@functools.cache
def _named(listed: str) -> tuple[_Named, ...]:
    entries = [entry for entry in listed.replace(" ", "").split(",") if entry]
    split = [re.fullmatch(r"(.*):([0-9]+)", entry) for entry in entries]
    return tuple([
        _Named(entry, None) if found is None else _Named(found[1], int(found[2])) for entry, found in zip(entries, split)
    ])  # fmt: skip


_OF_ONE_DIM = ("hint_override", "specialize_on")  # arguments that torch drops where it is given several dims
_PREDICATES = "_specialize_on"  # the attribute of a tensor in which torch keeps them, by dim
_NOT_OF_STRICT = ("min", "max", "shape_id", "hint_override", "specialize_on")  # torch drops these with strict=True


def _noting(mark: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch that sets a mark on a tensor. After it, guards on marks look at tensors again, which they do only when
    `user_marks.changes` has counted up."""

    signature = inspect.signature(mark)

    @functools.wraps(mark)
    def marks(*args: Any, **kwargs: Any) -> Any:
        said = signature.bind(*args, **kwargs).arguments
        dropped = _said(_NOT_OF_STRICT, said) if said.get("strict") else []
        if dropped:
            raise UserError(
                f"{mark.__name__}: {' and '.join(dropped)} cannot be honoured with strict=True",
                hint="leave out strict=True: torch itself drops what else is said of such a dim.",
            )
        dims = said.get("index")
        for dim in dims if isinstance(dims, (list, tuple)) and _said(_OF_ONE_DIM, said) else [dims]:
            bound = signature.bind(*args, **kwargs)
            if "index" in said:
                bound.arguments["index"] = dim
            with _keeping_predicates(said["t"]):
                mark(*bound.args, **bound.kwargs)
        user_marks.note_mark(said["t"])

    return marks


@contextlib.contextmanager
def _keeping_predicates(tensor: Any) -> Iterator[None]:
    """Torch forgets what was said of other dims each time."""
    before = getattr(tensor, _PREDICATES, {})
    yield
    if before:
        setattr(tensor, _PREDICATES, {**before, **getattr(tensor, _PREDICATES)})


def _said(names: Iterable[str], arguments: Mapping[str, Any]) -> list[str]:
    return [f"{name}={arguments[name]!r}" for name in names if arguments.get(name) is not None]


def table() -> list[Replacement]:
    """Torch's functions that mark tensors, each replaced by one that also notes the change."""
    names = ("mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked")
    return [Replacement(decorators, name, _noting(getattr(decorators, name))) for name in names]
