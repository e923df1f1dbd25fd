"""`torch.compiler.set_stance` while the tracer is installed. Stances hold for all threads, as torch's do."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from tracer.backends.calling import Backend, resolve_backend
from tracer.drop_in.backends import choice_of
from tracer.drop_in.torchs import decorators, eval_frame
from tracer.errors import UserError
from tracer.locations import levels_to_the_user
from tracer.runtime import stances
from tracer.runtime.twins import backend_key

_set_stance = decorators._set_stance
# Those that stances have named, which live as long as a stance or an entry has them: entries are kept for each object apart.
_forced: weakref.WeakValueDictionary[tuple[Any, ...], Backend] = weakref.WeakValueDictionary()


def set_stance(stance: Any) -> Any:
    """As torch's: takes a stance, and returns the one before. Raises UserError for one that we have not, and InvalidBackend,
    at once, for a `force_backend` that there is not."""
    name, backend = _name(stance), _backend(stance)
    if name not in stances.STANCES:
        known = ", ".join(map(repr, stances.STANCES))
        raise UserError(
            f"set_stance({stance.stance!r}) cannot be honoured while the tracer is installed", hint=f"there are {known}."
        )
    if stance.skip_guard_eval_unsafe:
        message = "set_stance(skip_guard_eval_unsafe=True) has no effect while the tracer is installed: guards are evaluated"
        warnings.warn(message, stacklevel=levels_to_the_user())
    before = _set_stance(stance)
    stances.switch_all(name)
    stances.force(backend)
    return before


def _name(stance: Any) -> str:
    """Our name of a stance of torch's. What it runs under `aot_eager` at first computes what CPython does."""
    name: str = stance.stance
    return "eager_then_compile" if name == "aot_eager_then_compile" else name


def _backend(stance: Any) -> Backend | None:
    """What it names by `force_backend=`."""
    if stance.backend is None:
        return None
    choice = choice_of(stance.backend)
    backend = resolve_backend(choice.backend, choice.mode, choice.options)
    return _forced.setdefault(backend_key(backend), backend)


class StanceTakenBefore:
    """The stance that the program took before the install is ours, too."""

    def __init__(self) -> None:
        taken = _name(eval_frame._stance)
        self._before = stances.switch_all(taken) if taken in stances.STANCES else None
        stances.force(_backend(eval_frame._stance))

    def take_back(self) -> None:
        if self._before is not None:
            stances.restore_all(self._before)
        stances.force(None)
