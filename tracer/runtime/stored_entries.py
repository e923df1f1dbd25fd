"""Where a region looks for entries that other processes have made, before it traces: `config.cache_dir`.

`tracer.saving.cache_folder` is that store. It is on a floor above, and is loaded when the setting is first used.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tracer import _C, config

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState


class Store(Protocol):
    def find(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> _C.Entry | None:
        """An entry whose guards hold for a call, not installed; None if none is stored."""
        ...

    def keep(self, state: RegionState, function: types.FunctionType, args: tuple[Any, ...], entry: _C.Entry) -> None:
        """Stores an entry that was made for a call, now or later."""
        ...


_open: Callable[[], Store] | None = None


def open_with(function: Callable[[], Store]) -> None:
    """What gives the store when it is first needed."""
    global _open
    _open = function


def store() -> Store | None:
    """The store; None if the settings name no folder."""
    return _open() if _open is not None and config.cache_dir else None
