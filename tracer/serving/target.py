"""The dispatcher behind a compiled object, and the arguments that the object adds in front of the caller's."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tracer import _C
from tracer.api.callables import CompiledCallable
from tracer.api.modules import CompiledCall, OptimizedModule
from tracer.api.settings import compiled_region
from tracer.errors import UserError
from tracer.runtime.guarded_code import entries_of
from tracer.runtime.region_state import RegionState


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A compiled object as a dispatcher, its region, and the arguments that stand before those of the caller."""

    dispatcher: Any  # a _C.Dispatcher
    state: RegionState
    leading_args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def function(self) -> Any:
        """The function whose frame is traced."""
        return self.dispatcher.function

    def entries(self) -> list[_C.Entry]:
        return entries_of(self.state.region, self.function.__code__, self.function.__globals__)

    def slots(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The argument slots of the frame. Raises TypeError as the call would."""
        slots: tuple[Any, ...] = self.dispatcher.bind(*self.leading_args, *args, **self.keywords, **kwargs)
        if slots is None:
            raise UserError(
                f"{self.function.__qualname__} cannot be called with {len(args)} arguments and {sorted(kwargs) or 'no keywords'}",
                hint="give the example as it would be passed: a tuple of arguments, and kwargs={...}.",
            )
        return slots

    def lookup(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _C.Entry | None:
        """The entry that would serve a call."""
        entry: _C.Entry | None = self.dispatcher.lookup(*self.leading_args, *args, **self.keywords, **kwargs)
        return entry


def target_of(compiled: Any) -> Target:
    """Of a function, method, object or module that was compiled; UserError for anything else."""
    if isinstance(compiled, functools.partial):
        inner = target_of(compiled.func)
        keywords = {**inner.keywords, **compiled.keywords}
        return dataclasses.replace(inner, leading_args=(*inner.leading_args, *compiled.args), keywords=keywords)
    if isinstance(compiled, types.MethodType) and isinstance(compiled.__func__, _C.Dispatcher):
        return dataclasses.replace(target_of(compiled.__func__), leading_args=(compiled.__self__,))
    state = compiled_region(compiled)
    if isinstance(compiled, _C.Dispatcher):
        return Target(compiled, state)
    if isinstance(compiled, CompiledCallable):
        return Target(compiled._tracer_call, state, (compiled.__wrapped__,))
    call = compiled._compiled if isinstance(compiled, OptimizedModule) else getattr(compiled, "_compiled_call_impl", None)
    if isinstance(call, CompiledCall) and isinstance(compiled, torch.nn.Module):
        return Target(call.dispatcher(), state, (call.module,))
    raise UserError(f"calls of {compiled!r} have no entries of their own")
