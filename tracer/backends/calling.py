"""Calling a backend safely: its options, its errors and its result, the same for every backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from tracer.backends.registry import REAL_INPUTS, CompilerFn, lookup_backend
from tracer.exc import BackendCompilerFailed, UserError


@dataclasses.dataclass(frozen=True, eq=False)
class Backend:
    """A compiler function with the options it is always given."""

    compiler_fn: CompilerFn
    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def needs_real_inputs(self) -> bool:
        return bool(getattr(self.compiler_fn, REAL_INPUTS, False))

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """The compiled graph. Raises BackendCompilerFailed if the backend raises or returns what cannot be called."""
        try:
            compiled = self.compiler_fn(gm, example_inputs, **self.options)
            if not callable(compiled):
                raise TypeError(
                    f"it returned {_short(compiled)}, not a callable; gm.forward would run the graph as it is"
                )
        except Exception as error:
            raise BackendCompilerFailed(self.name, error) from error
        return compiled


def resolve_backend(
    backend: str | CompilerFn, mode: str | None = None, options: dict[str, Any] | None = None
) -> Backend:
    """What `backend=`, `mode=` and `options=` of a decorator mean. Raises InvalidBackend or UserError."""
    if isinstance(backend, Backend):
        return backend
    if mode is not None and options is not None:
        raise UserError("mode= and options= were both given", hint="pass one: a mode is a name for a set of options.")
    extras: dict[str, Any] = {}
    if mode is not None and mode != "default":
        extras["mode"] = mode
    if options:
        extras["options"] = dict(options)
    if isinstance(backend, str):
        return Backend(lookup_backend(backend), backend, extras)
    if not callable(backend):
        raise UserError(
            f"backend= must be a name or a function; it is {_short(backend)}",
            hint="pass a name of tracer.list_backends(), or a function compiler(gm, example_inputs) -> callable.",
        )
    return Backend(backend, getattr(backend, "__name__", type(backend).__name__), extras)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
