"""The callables that the tracer knows: those with a model, operations of the graph, and pure functions to fold.

`@models(len)` registers the model of a builtin or library function. `tracer.library` has a module of models for each module
that is modelled.
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tracer.graph_breaks import unsupported
from tracer.guards.constants import LIBRARY_VALUES
from tracer.operators.graph_functions import graph_operations
from tracer.protocol.inlining import is_disabled_by_torch
from tracer.protocol.variable import Model

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_M = TypeVar("_M", bound=Model)


class Models:
    """A registry from a Python object (a function, a type, a method name) to the function that models it.

    `what` says in error messages what the keys are. A key that this registry lacks is looked up in `base`, as a class looks up
    a method in its base."""

    def __init__(self, what: str, base: Models | None = None) -> None:
        self.what = what
        self.base = base
        self.table: dict[Any, Model] = {}
        self._of_plain_tensors: set[Model] = set()

    def __call__(self, *keys: Any) -> Callable[[_M], _M]:
        def register(model: _M) -> _M:
            for key in dict.fromkeys(keys):  # a function may have several names, in modules of torch for one
                if key in self.table:
                    raise ValueError(f"two models for {self.what} {key!r}")
                self.table[key] = model
            return model

        return register

    def of_plain_tensors(self, *keys: Any) -> Callable[[_M], _M]:
        """Registers a model that does more with tensors than call operations of the graph. That may be wrong for tensors with
        their own `__torch_dispatch__`, so a call with one among its arguments breaks the graph."""

        def register(model: _M) -> _M:
            self._of_plain_tensors.add(model)
            return self(*keys)(model)

        return register

    def is_of_plain_tensors(self, model: Model) -> bool:
        """Whether a model was registered by `of_plain_tensors`."""
        return model in self._of_plain_tensors

    def get(self, key: Any) -> Model | None:
        """The model of a key, or None. It runs no code of the program: no `__hash__` of a metaclass."""
        if isinstance(key, type) and type(key).__hash__ is not type.__hash__:
            return None
        try:
            model = self.table.get(key)
        except TypeError:  # unhashable callables have no model
            return None
        return self.base.get(key) if model is None and self.base is not None else model


models = Models("callable")
instance_models = Models("instances of")  # for callable objects written in C, by type: model(tx, callee, *args)
code_models = Models("code")  # for functions that library functions return, by code: model(tx, callee, *args)
named_models = Models("name")  # "module.qualname" of functions in modules that importing tracer must not load

_FOLDABLE_BUILTINS = (
    abs, ascii, bin, bool, bytes, chr, complex, divmod, float, format, hex, int, len, max, min, oct, ord, pow, repr, round,
    str, sum, slice, range, frozenset,
)  # fmt: skip
_foldable: set[int] = {id(function) for function in _FOLDABLE_BUILTINS}
_foldable.update(id(f) for f in vars(math).values() if callable(f))
_foldable.update(id(f) for f in vars(operator).values() if callable(f))


def foldable(*functions: Any) -> None:
    """Declares pure functions: calls with constant arguments are evaluated while tracing."""
    _foldable.update(map(id, functions))


def model_of(function: Any) -> Model | None:
    """The model of a callable, or None. It is called with (tx, *tracked args, **tracked kwargs) and returns a tracked value.

    A function that torch has disabled for compilers has the model of the function that it wraps, or one that breaks the graph."""
    model = models.get(function)
    if model is not None or not isinstance(function, types.FunctionType):
        return model
    if is_disabled_by_torch(function):
        return model_of(function.__wrapped__) or _disabled  # type: ignore[attr-defined]  # made by functools.wraps
    if function.__module__ in _named_modules():
        return named_models.get(f"{function.__module__}.{function.__qualname__}")
    return None


def is_of_plain_tensors(model: Model) -> bool:
    """Whether a model supports plain tensors only, and none with a `__torch_dispatch__` of their own."""
    return models.is_of_plain_tensors(model) or named_models.is_of_plain_tensors(model)


def code_model_of(function: Any) -> Model | None:
    """The model of a function that a library function returned, such as what `torch.vmap` gives; all of them share their code."""
    return code_models.table.get(function.__code__) if isinstance(function, types.FunctionType) else None


def _disabled(tx: Tracer, *args: Any, **kwargs: Any) -> Any:
    """The model of a function that torch has disabled for compilers: it breaks the graph."""
    unsupported("disabled-function", function="a function of torch that compilers are told to leave alone")


@functools.cache
def _named_modules() -> frozenset[str]:
    """All prefixes of the names in `named_models`. The module of a function is among them if the function may have such a model;
    a name alone does not tell where its module ends and its qualname begins."""
    parts = [name.split(".") for name in named_models.table]
    return frozenset(".".join(names[:count]) for names in parts for count in range(1, len(names)))


_OPERATORS = ("OpOverload", "TorchBindOpOverload", "OpOverloadPacket")


def is_in_graph(function: Any) -> bool:
    """Whether a call becomes one node of the graph."""
    return id(function) in graph_operations() or type(function).__name__ in _OPERATORS


def is_foldable(function: Any) -> bool:
    """Whether a call with constant arguments may be made while tracing: its result depends on nothing else."""
    if id(function) in _foldable:
        return True
    owner = getattr(function, "__self__", None)
    if any(owner is cls for cls in LIBRARY_VALUES):
        return function.__name__ in _PURE_CONSTRUCTORS
    return any(owner is cls for cls in (int, float, str, bytes, dict))


# Class methods of date, time and the like. The others, such as `now` and `fromtimestamp`, read the clock or the time zone.
_PURE_CONSTRUCTORS = ("from_float", "fromisoformat", "fromordinal", "fromisocalendar", "combine")
