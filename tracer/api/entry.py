"""`optimize`, `compile` and `compile_module`: the decorators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.api.callables import compiled
from tracer.api.modules import compile_module_with
from tracer.api.scopes import Scope
from tracer.api.settings import Settings
from tracer.exc import UserError

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState


class Optimizer(Scope):
    """What `optimize(...)` returns: a decorator, and a context manager: what is called inside runs compiled."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._state: RegionState | None = None

    def __call__(self, target: Any, *arguments: Any, **keywords: Any) -> Any:
        if arguments or keywords or not (callable(target) or isinstance(target, (classmethod, property))):
            raise self._called_as_if_compiled(target)
        return compiled(target, self.settings)

    def _called_as_if_compiled(self, target: Any) -> UserError:
        """The error for what is not one function. Where the backend is a function, that may be the one meant."""
        name = getattr(self.settings.backend, "__name__", None)
        if name is None:
            hint = "write optimize(...)(fn), and call the result."
        else:
            hint = f"optimize takes a backend first; if {name} is to be compiled, write tracer.compile({name}, ...)."
        given = type(target).__name__
        return UserError(f"{given} cannot be compiled: optimize(...) takes one function, class or module", hint=hint)

    def switch(self) -> Any:
        if self._state is None:
            self._state = self.settings.new_region(self)
        return _C.swap_active(self._state.region)

    def restore(self, before: Any) -> None:
        _C.swap_active(before)


class Identity(contextlib.nullcontext):
    """What `optimize(disable=True)` returns: nothing is changed."""

    def __call__(self, target: Any) -> Any:
        return target


def optimize(
    backend: str | Callable[..., Any] = "eager",
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    shapes: Any = None,
    capacity: int | None = None,
    compile_timeout: float | None = None,
    repeated: str | None = None,
    on_evict: Callable[[Any], None] | None = None,
    guard_fail_fn: Callable[[Any], None] | None = None,
    guard_export_fn: Callable[[Any], None] | None = None,
    guard_filter_fn: Callable[[Any], Any] | None = None,
) -> Optimizer | Identity:
    """A decorator for functions, methods, callable objects, modules and classes; also `optimize("eager")(model)`.

    `backend`: a name of `list_backends()` or a function `compiler(gm, example_inputs) -> callable`.
    `fullgraph=True`: what cannot be traced is an error (`exc.Unsupported`), not a graph break.
    `dynamic`: None, a size that was seen to vary becomes symbolic; True, all are from the start; False, none ever.
    `shapes`: a `ShapeSpec`, or its dict or string form: which sizes the arguments may have; a list of them for calls of
    several kinds.
    `capacity`: how many entries a function may have; beyond it those go that were used last longest ago (and no recompile limit
    holds), but for pinned ones. `on_evict(eviction)` is called for each entry that goes.
    `compile_timeout`: seconds that a trace and its backend may take; where they take longer, calls run uncompiled.
    `repeated`: whether a compiler is given equal blocks of a graph once: `outline`, `auto` (where that saves much) or `flat`.
    `disable=True` makes it the identity. `recompile_limit` overrides the setting of that name.
    `guard_fail_fn(failure)` is called with the guard that made a recompile needed, `guard_export_fn(guards)` with the
    guards of each new entry, and `guard_filter_fn(guards) -> list[bool]` says which to keep.
    Raises InvalidBackend, and UserError for what cannot be compiled, at the decoration; what else `tracer.exc` lists, at a call.
    Frames of callees are found by the hook of PEP 523.

    ```python
    @tracer.optimize("eager", fullgraph=True)
    def double(x):
        return x * 2

    assert torch.equal(double(torch.ones(3)), torch.full((3,), 2.0))
    ```
    """
    if disable:
        return Identity()
    hooks = _hooks(
        on_evict=on_evict, guard_fail_fn=guard_fail_fn, guard_export_fn=guard_export_fn, guard_filter_fn=guard_filter_fn
    )
    settings = Settings(
        backend=backend,
        fullgraph=fullgraph,
        dynamic=dynamic,
        name=name,
        recompile_limit=recompile_limit,
        shapes=shapes,
        capacity=capacity,
        compile_timeout=compile_timeout,
        repeated=repeated,
        hooks=hooks,
    )
    return Optimizer(settings)


def _hooks(**hooks: Callable[[Any], Any] | None) -> dict[str, Callable[..., Any]]:
    given: dict[str, Callable[..., Any]] = {name: hook for name, hook in hooks.items() if hook is not None}
    chooses = given.get("guard_filter_fn")
    if chooses is not None:  # a region hands its filter the values that the guards read, too
        given["guard_filter_fn"] = lambda guards, values: chooses(guards)
    return given


def compile(
    fn: Any = None,
    *,
    backend: str | Callable[..., Any] = "eager",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    shapes: Any = None,
    capacity: int | None = None,
    compile_timeout: float | None = None,
    repeated: str | None = None,
    on_evict: Callable[[Any], None] | None = None,
) -> Any:
    """`optimize` in the shape of `torch.compile`: takes the function or module first, or is a decorator without it.

    `mode` and `options` are the backend's, as `backend="inductor"` knows them; `name` is how logs call the region.
    Raises as `optimize` does. The parameters that torch.compile has, too, mean what they mean there.

    ```python
    model = tracer.compile(torch.nn.Linear(4, 2), dynamic=True)
    assert model(torch.ones(3, 4)).shape == (3, 2)
    ```
    """
    if disable:
        return Identity() if fn is None else fn
    settings = Settings(
        backend,
        fullgraph,
        dynamic,
        mode,
        options,
        name,
        recompile_limit,
        _hooks(on_evict=on_evict),
        shapes,
        capacity,
        compile_timeout,
        repeated,
    )
    return Optimizer(settings) if fn is None else compiled(fn, settings)


def compile_module(
    module: torch.nn.Module,
    *,
    backend: str | Callable[..., Any] = "eager",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    recompile_limit: int | None = None,
    shapes: Any = None,
    capacity: int | None = None,
    compile_timeout: float | None = None,
    repeated: str | None = None,
    on_evict: Callable[[Any], None] | None = None,
) -> torch.nn.Module:
    """Compiles a module in place and returns it: methods of it that call the module (`generate`) run compiled too.

    Other instances of its class stay as they are; copies and pickles of it are plain modules.
    Its parameters are those of `compile`. Raises UserError for what is no module.

    ```python
    model = tracer.compile_module(torch.nn.Linear(4, 2))
    assert type(model) is torch.nn.Linear and model(torch.ones(3, 4)).shape == (3, 2)
    ```
    """
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"compile_module expects an nn.Module, not {type(module).__name__}", hint="use tracer.compile.")
    settings = Settings(
        backend,
        fullgraph,
        dynamic,
        mode,
        options,
        name,
        recompile_limit,
        _hooks(on_evict=on_evict),
        shapes,
        capacity,
        compile_timeout,
        repeated,
    )
    return compile_module_with(module, settings)
