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
from tracer.runtime import events
from tracer.runtime.missed_calls import MissedCall
from tracer.runtime.region_state import RegionState
from tracer.serving import background
from tracer.serving.coverage import precompile
from tracer.serving.coverage_result import Coverage
from tracer.serving.variants import Certificate

POLICIES = ("error", "eager", "background")


def seal(fn: Any, on_miss: str = "error") -> None:
    """From now on a call that no entry serves is not traced in its request.

    `on_miss="error"`: it raises `exc.SealedError`, which says in a line what is wrong, as far as the declared domain and the
    arguments tell; its `explain()` names the nearest shape that is covered and the guards that fail. "eager": the original runs;
    the first time warns. "background": the original runs, and one worker traces the call and installs the entry. Raises UserError
    for what was not compiled.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    tracer.seal(compiled)
    try:
        compiled(torch.ones(3, 3))
    except tracer.exc.SealedError as error:
        print(error.explain())
    tracer.unseal(compiled)
    ```
    """
    state = compiled_region(fn)
    if on_miss not in POLICIES:
        raise UserError(f"on_miss={on_miss!r} is not a policy", hint=f"there are {', '.join(map(repr, POLICIES))}.")
    if on_miss == "background":
        _load_tracer()
    state.seal(Seal(state, on_miss))
    events.tell_of_region(state, "seal", f"sealed: misses are handled by {on_miss!r}", policy=on_miss)


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
        events.tell_of_region(state, "unseal", "misses are traced again")


def wait(timeout: float | None = None) -> bool:
    """Until the worker of `on_miss="background"` has traced all that waits; False if that takes longer."""
    return background.WORKER.wait(timeout)


class SealedCall(MissedCall):
    """A call that a sealed function missed."""

    hint = "call with a shape that is covered, precompile this one too, or seal with on_miss='background'."

    def title(self) -> str:
        return f"{self.name} is sealed, and no entry serves this call"

    def nearest_covered(self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> str:
        """Which covered sizes come nearest to those of the call, or what else a covered call with its sizes has in place of what
        this one has. Empty if coverage was not asked for, or for another declaration."""
        declared, kept = region.declared_shapes(function, args), region.coverage
        if declared is None or not isinstance(kept, (Coverage, Certificate)):
            return ""
        found = kept.of_domain(declared.domain)
        if found is None:
            return ""
        point = declared.point()
        here = found.covering_at(point)
        if not here:
            nearest = found.nearest(point)
            return "" if nearest is None else f" (the nearest covered shape is {point_text(nearest)})"
        failure = here[0].entry.guarded_code.manager.explain(args, function.__closure__)
        return f", which is a covered shape: something else differs{'' if failure is None else failure.instead()}"


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
            raise SealedError(missed=SealedCall(self.state, function, args))
        if self.policy == "background":
            if background.WORKER.has_room_for(self.state, function, args) and self.is_in_declared_domain(function, args):
                background.WORKER.add(self.state, function, args)
        elif not self.warned:
            self.warned = True
            message, hint = SealedCall(self.state, function, args).summary()
            warnings.warn(f"{message}\n  Such calls run uncompiled. Hint: {hint}", stacklevel=3)

    def is_in_declared_domain(self, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether the call's sizes are among the declared ones, so that an entry can be made."""
        try:
            declared = self.state.declared_shapes(function, args)
            return declared is None or bool(declared.point())
        except UserError:
            self.state.stats["undeclared"] += 1
            return False
