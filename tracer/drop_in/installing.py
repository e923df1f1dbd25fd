"""`install` and `uninstall`. What they change is in `parts`, which is loaded at the first install."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tracer.errors import UserError

_SETTINGS = frozenset(("dynamic", "recompile_limit", "capacity", "compile_timeout", "on_evict"))
_changing = threading.Lock()


class Part(Protocol):
    """Something that an install changes."""

    def take_back(self) -> None: ...


class Installed:
    """What `install` returns: a context manager that uninstalls."""

    def __init__(self, said: tuple[Any, ...]) -> None:
        self._said = said
        self._parts: list[Part] = []

    def put(self, makers: Iterable[Callable[[], Part]]) -> None:
        """Makes each change in turn. If one raises, none is left."""
        try:
            for make in makers:
                self._parts.append(make())
        except BaseException:
            self.take_back()
            raise

    def says(self, said: tuple[Any, ...]) -> bool:
        """Whether it was made by these arguments of `install`."""
        return self._said == said

    def take_back(self) -> None:
        while self._parts:
            self._parts.pop().take_back()

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if _installed is self:
            uninstall()


_installed: Installed | None = None


def install(backend: str | Callable[..., Any] | None = None, *, state_dict_prefix: bool = True, **settings: Any) -> Installed:
    """From now on, in the whole process, what calls torch.compile calls the tracer; also through names imported before.

    `backend` is for those who name none; without it, that is Inductor, as torch's own. `settings` are those of `tracer.compile`
    that hold where the caller says nothing: `dynamic`, `recompile_limit`, `capacity`, `compile_timeout`, `on_evict`.
    `state_dict_prefix=False`: names of a compiled module's parameters are those of the original, without `_orig_mod.`.

    Ends with `tracer.uninstall()`, or with the block of `with tracer.install():`. A program that nobody may edit has it by
    `TRACER_INSTALL=1` in the environment.
    Raises UserError if it is installed with other settings, InvalidBackend for a backend that there is not.

    ```python
    with tracer.install():
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        assert compiled(torch.zeros(1)) == 1
    assert tracer.region_of(compiled).entries()
    ```
    """
    global _installed
    unknown = sorted(settings.keys() - _SETTINGS)
    if unknown:
        raise UserError(f"install has no setting {unknown[0]!r}", hint=f"there are {', '.join(sorted(_SETTINGS))}.")
    said = (backend, state_dict_prefix, tuple(sorted(settings.items())))
    with _changing:
        if _installed is None:
            from tracer.drop_in import parts  # late: loads torch's own tracer, which takes seconds and changes torch

            installed = Installed(said)
            installed.put(parts.makers(backend, state_dict_prefix, settings))
            _installed = installed
        elif not _installed.says(said):
            raise UserError(
                "the tracer is installed already, with other settings",
                hint="a process has one installation: call tracer.uninstall() first.",
            )
        return _installed


def uninstall() -> None:
    """Puts back what `install` changed in torch. What was compiled meanwhile stays compiled, by the tracer. Without an install it
    does nothing; it raises nothing.

    ```python
    tracer.install(backend="eager")
    tracer.uninstall()
    ```
    """
    global _installed
    with _changing:
        if _installed is not None:
            _installed.take_back()
            _installed = None
