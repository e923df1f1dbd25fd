"""`seal`: nothing is compiled in a request. A miss raises, runs the original, or runs it and is traced in the background.

At a miss, `runtime.misses` calls the `Seal` of the region in place of tracing. What it counts is in `tracer.stats`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import warnings
from typing import Any

import torch

from shapes.domain import point_text
from tracer.api.entry import compile
from tracer.api.settings import compiled_region, region_of
from tracer.errors import SealedError, UserError
from tracer.runtime.guarded_code import entries_of, guard_failures
from tracer.runtime.region_state import RegionState
from tracer.runtime.shape_spec import Declared
from tracer.serving import background
from tracer.serving.coverage import Coverage, precompile

POLICIES = ("error", "eager", "background")


def seal(fn: Any, on_miss: str = "error") -> None:
    """From now on a call that no entry serves is not traced in its request.

    `on_miss="error"`: it raises `exc.SealedError`, which names the shape, the nearest one that is covered, and the guards that
    fail. "eager": the original runs; the first time warns. "background": the original runs, and one worker traces the call
    and installs the entry. Raises UserError for what was not compiled.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    tracer.seal(compiled)
    try:
        compiled(torch.ones(3, 3))
    except tracer.exc.SealedError as error:
        print(error)
    tracer.unseal(compiled)
    ```
    """
    state = compiled_region(fn)
    if on_miss not in POLICIES:
        raise UserError(f"on_miss={on_miss!r} is no policy", hint=f"there are {', '.join(map(repr, POLICIES))}.")
    if on_miss == "background":
        _load_tracer()
    state.seal(Seal(state, on_miss))


@functools.cache
def _load_tracer() -> None:
    """Traces a small function, so that the tracer's modules are loaded now. That takes seconds, in which requests would stall.
    It declares sizes and branches on one, so that what makes shapes and guards on them is loaded, too."""
    loading = compile(lambda x: (x * 2).sum(1) if x.shape[0] < 8 else x, shapes="x: B, S", name="loading")
    precompile(loading, example=torch.empty(2, 2))


def unseal(fn: Any) -> None:
    """Misses are traced again.

    Raises UserError for what was not compiled. `seal` has an example.
    """
    state = region_of(fn)
    if state is not None:
        state.unseal()


def wait(timeout: float | None = None) -> bool:
    """Until the worker of `on_miss="background"` has traced all that waits; False if that takes longer."""
    return background.WORKER.wait(timeout)


@dataclasses.dataclass
class Seal:
    """The miss handler of a sealed region, which is `state`."""

    state: RegionState
    policy: str
    warned: bool = False

    def __call__(self, function: types.FunctionType, args: tuple[Any, ...]) -> None:
        """Applies the policy to a miss. Only misses of decorated and resume functions count; other functions that these call run
        in CPython."""
        if function.__code__ not in self.state.roots:
            return
        self.state.stats["sealed miss"] += 1
        if self.policy == "error":
            message, hint = self.describe_miss(function, args)
            raise SealedError(message, hint=hint)
        if self.policy == "background":
            if background.WORKER.has_room_for(self.state, function, args) and self.is_in_declared_domain(function, args):
                background.WORKER.add(self.state, function, args)
        elif not self.warned:
            self.warned = True
            message, hint = self.describe_miss(function, args)
            warnings.warn(f"{message}\n  Such calls run uncompiled. Hint: {hint}", stacklevel=3)

    def is_in_declared_domain(self, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether the call's sizes are among the declared ones, so that an entry can be made."""
        try:
            declared = self.state.declared_shapes(function, args)
            return declared is None or bool(declared.point())
        except UserError:
            self.state.stats["undeclared"] += 1
            return False

    def describe_miss(self, function: types.FunctionType, args: tuple[Any, ...]) -> tuple[str, str]:
        """The message and the hint for a miss."""
        name = f"{function.__qualname__} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"
        message = f"{name} is sealed, and no entry serves this call"
        hint = "call with a shape that is covered, precompile this one too, or seal with on_miss='background'."
        try:
            declared = self.state.declared_shapes(function, args)
            point = None if declared is None else declared.point()
        except UserError as error:
            return f"{message}: {error.message}", error.hint or hint
        if declared is not None and point is not None:
            message += f", at {point_text(point)}{self.nearest_text(declared, point)}"
        entries = entries_of(self.state.region, function.__code__, function.__globals__)
        failures = guard_failures(entries, function, args)
        lines = "".join(f"\n    - {failure}" for failure in failures[:8])
        return f"{message}. Guards that fail:{lines or ' none, there is no entry'}", hint

    def nearest_text(self, declared: Declared, point: Any) -> str:
        # Which covered sizes come nearest to those of the call. Empty if coverage was not asked for, or for another declaration.
        found: Coverage | None = self.state.coverage
        if found is None or found.domain.variables != declared.domain.variables:
            return ""
        near = found.nearest(point)
        if near == point:
            return ", which is a covered shape: something else differs"
        return "" if near is None else f" (the nearest covered shape is {point_text(near)})"
