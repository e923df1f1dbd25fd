"""`set_stance`: what compiled functions do when no entry serves a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.api.scopes import Scope
from tracer.exc import UserError
from tracer.runtime import stances


class Stance(Scope):
    """A stance, which begins when the object is made. As a context manager it ends with the block; as a decorator it holds only
    during the calls."""

    def __init__(self, name: str, all_threads: bool) -> None:
        self.name, self.all_threads = name, all_threads
        self._before: Any = self._take()

    def _take(self) -> Any:
        return stances.switch_all(self.name) if self.all_threads else stances.switch(self.name)

    def switch(self) -> Any:
        if self._before is not None:  # `with set_stance(...)`: the call has switched already
            before, self._before = self._before, None
            return before
        return self._take()

    def restore(self, before: Any) -> None:
        (stances.restore_all if self.all_threads else stances.restore)(before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if self._before is not None:
            self.restore(self._before)
            self._before = None
        return self.wrap(fn)


def set_stance(stance: str = "default", *, all_threads: bool = False) -> Stance:
    """From now on, on this thread, or with `all_threads` on this and all that have taken no stance of their own:

    "default": a miss is traced (on one thread: what was taken for all threads). "force_eager": the originals run.
    "eager_on_recompile": entries that match are used, else the original runs. "fail_on_recompile": a miss is a RecompileError.
    "eager_then_compile": the first call of a frame runs the original and shows its sizes, the next is traced with those
    that vary as symbols.

    `with set_stance(...):` ends with the block; `@set_stance(...)` holds for the calls of a function.
    Raises UserError for another name.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    with tracer.set_stance("force_eager"):
        compiled(torch.ones(3))
    assert not tracer.region_of(compiled).entries()
    ```
    """
    if stance not in stances.STANCES:
        known = ", ".join(map(repr, stances.STANCES))
        raise UserError(f"there is no stance {stance!r}", hint=f"there are {known}.")
    return Stance(stance, all_threads)
