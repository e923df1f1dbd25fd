"""What compiled functions and modules can be asked beside being called: `fn.seal()`, `fn.stats()`, `fn.contract()`."""

from __future__ import annotations

import functools
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


METHODS: dict[str, Callable[..., Any]] = {
    "seal": _seal,
    "unseal": _unseal,
    "stats": _stats,
    "contract": _contract,
    "compact": _compact,
}


def own_method(compiled: Any, name: str) -> Callable[..., Any]:
    """For `__getattr__`, where the original has no attribute of that name; the AttributeError that is handled is raised again."""
    state = compiled.__dict__.get(STATE)
    if name not in METHODS or state is None:
        raise  # noqa: PLE0704
    return functools.partial(METHODS[name], state)


def method_of(state: RegionState, name: str) -> Callable[..., Any]:
    """A method of an object with this region; it does not keep the object alive."""
    return functools.partial(METHODS[name], state)
