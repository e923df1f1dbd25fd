"""What compiled functions and modules can be asked beside being called: `fn.seal()`, `fn.stats()`, `fn.save(path)`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.api.settings import STATE

if TYPE_CHECKING:
    from tracer.region_state import RegionState


def _seal(state: RegionState, on_miss: str = "error") -> None:
    """As `tracer.seal(fn, on_miss)`."""
    from tracer.serving import sealing

    sealing.seal_region(state, on_miss)


def _unseal(state: RegionState) -> None:
    """As `tracer.unseal(fn)`."""
    state.at_miss = None


def _stats(state: RegionState) -> dict[str, Any]:
    """As `tracer.stats(fn)`."""
    from tracer.serving import why

    return why.stats_of(state)


def _contract(state: RegionState) -> Any:
    """As `tracer.contract(fn)`."""
    from tracer.serving import contract

    return contract.contract_of(state)


def _compact(state: RegionState) -> int:
    """As `tracer.compact(fn)`."""
    from tracer.serving import pinning

    return pinning.compact_region(state)


def _save(compiled: Any, path: Any) -> Any:
    """As `tracer.save(fn, path)`."""
    from tracer.saving import files

    return files.save(compiled, path)


def _load(compiled: Any, path: Any) -> Any:
    """As `tracer.load(fn, path)`."""
    from tracer.saving import files

    return files.load(compiled, path)


_OF_REGION: dict[str, Callable[..., Any]] = {
    "seal": _seal,
    "unseal": _unseal,
    "stats": _stats,
    "contract": _contract,
    "compact": _compact,
}
_OF_OBJECT: dict[str, Callable[..., Any]] = {"save": _save, "load": _load}
METHODS = frozenset(_OF_REGION) | frozenset(_OF_OBJECT)


def own_method(compiled: Any, name: str) -> Callable[..., Any]:
    """For `__getattr__`, where the original has no attribute of that name; the AttributeError that is handled is raised again."""
    state = compiled.__dict__.get(STATE)
    if name not in METHODS or state is None:
        raise  # noqa: PLE0704
    if name in _OF_OBJECT:
        return functools.partial(_OF_OBJECT[name], compiled)
    return functools.partial(_OF_REGION[name], state)


def method_of(state: RegionState, compiled: Any, name: str) -> Callable[..., Any]:
    """A method of a compiled object with this region; it does not keep the object alive."""
    if name in _OF_OBJECT:
        return functools.partial(_of_living, _OF_OBJECT[name], weakref.ref(compiled))
    return functools.partial(_OF_REGION[name], state)


def _of_living(method: Callable[..., Any], reference: weakref.ref[Any], *args: Any, **kwargs: Any) -> Any:
    compiled = reference()
    if compiled is None:
        raise ReferenceError("the compiled function is gone")
    return method(compiled, *args, **kwargs)
