"""The arguments of one decoration, and the region made from them. Only this module imports the pipeline, and only when needed."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

from tracer._C import Dispatcher
from tracer.backends.calling import Backend, resolve_backend
from tracer.errors import UserError

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

STATE = "_tracer_state"  # attribute of everything that was compiled: its RegionState


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of one `optimize` or `compile`. Each decorated object gets a region of its own with these settings."""

    backend: str | Callable[..., Any] = "eager"
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: dict[str, Any] | None = None
    name: str | None = None
    recompile_limit: int | None = None
    hooks: dict[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    shapes: Any = None
    capacity: int | None = None
    compile_timeout: float | None = None
    repeated: str | None = None

    def __post_init__(self) -> None:
        """Raises InvalidBackend or UserError for settings that cannot work: at the decoration, not at the first call."""
        if self.capacity is not None and (type(self.capacity) is not int or self.capacity < 1):
            raise UserError(
                f"capacity={self.capacity!r} is not a number of entries", hint="give 1 or more, or None for no bound."
            )
        if self.compile_timeout is not None and not (type(self.compile_timeout) in (int, float) and self.compile_timeout >= 0):
            raise UserError(f"compile_timeout={self.compile_timeout!r} is not a time", hint="give seconds; 0 is no limit.")
        self.compiler()

    def compiler(self) -> Backend:
        return resolve_backend(self.backend, self.mode, self.options, self.repeated)

    def new_region(self, target: object, *, is_of_module: bool = False) -> RegionState:
        """A region of its own for one decorated object. `is_of_module`: that is a module, the first argument of each call."""
        from tracer.pipeline.convert_frame import convert_frame  # late: 1 s for the interpreter and SymPy, at the first decorator
        from tracer.runtime.region_state import RegionState
        from tracer.runtime.spec_choice import spec_of

        return RegionState(
            compiler_fn=self.compiler(),
            convert_frame=convert_frame,
            fullgraph=self.fullgraph,
            dynamic=self.dynamic,
            name=self.name or display_name(target),
            recompile_limit=self.recompile_limit,
            shapes=None if self.shapes is None else spec_of(self.shapes),
            capacity=self.capacity,
            compile_timeout=self.compile_timeout,
            is_of_module=is_of_module,
            **self.hooks,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Settings:
        return self


def dispatcher_in(state: RegionState, fn: Any) -> Dispatcher:
    """The callable that serves calls of a Python function from the region's entries. The function is traced, wherever it is
    from."""
    state.add_root(fn.__code__)
    return Dispatcher(state.region, fn)


def display_name(target: object) -> str:
    """How logs and progress name a decorated object."""
    return getattr(target, "__qualname__", None) or type(target).__qualname__


def region_of(compiled: Any) -> RegionState | None:
    """The region of a compiled function, method, object or module; None for what was never compiled. A region is its own.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    print(tracer.region_of(compiled).entries()[0].guarded_code.guards_text)
    ```
    """
    if _is_region(compiled):
        return compiled
    if isinstance(compiled, functools.partial):
        return region_of(compiled.func)
    own = getattr(getattr(compiled, "__func__", compiled), "__dict__", {})  # a bound method has its function's region
    in_place = own.get("_compiled_call_impl")  # where compile_module puts it
    return own[STATE] if STATE in own else getattr(in_place, STATE, None)


def _is_region(value: Any) -> TypeGuard[RegionState]:
    machinery = sys.modules.get("tracer.runtime.region_state")  # without it there is no region
    return machinery is not None and type(value) is machinery.RegionState


def compiled_region(compiled: Any) -> RegionState:
    """As `region_of`; UserError for what was never compiled."""
    state = region_of(compiled)
    if state is None:
        raise UserError(f"{compiled!r} was not compiled", hint="compile it first: tracer.compile(fn).")
    return state


def reset() -> None:
    """Forgets every entry, and what was learnt about varying sizes, in every region of the process.

    Decorated objects stay decorated; they trace again at their next call.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    tracer.reset()
    assert not tracer.region_of(compiled).entries()
    ```
    """
    machinery = sys.modules.get("tracer.runtime.region_state")
    if machinery is not None:
        for state in list(machinery.ALL_REGIONS):
            state.reset()
