"""A board on which the processes of a distributed program leave notes for one another: the store through which they have found
together (torch.distributed). No collective is run, so that those of the program stay matched, whatever its devices are."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch.distributed as dist

_SHORTEST, _LONGEST = 1e-4, 0.02  # seconds between two looks for a note


class Unreachable(Exception):
    """Notes have not come in time, or the store has failed. `ranks`: those whose notes are missing; empty if nobody knows."""

    def __init__(self, reason: str, ranks: Iterable[int | None] = ()) -> None:
        super().__init__(reason)
        self.ranks = tuple([rank for rank in ranks if rank is not None])


class Board:
    """Notes under keys. `rank`: this process, of `size` ones. Each method raises Unreachable where the store fails."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._store = store

    def post(self, key: str, note: str) -> None:
        """Leaves a note, in place of an earlier one."""
        _ask(self._store.set, key, note)

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which begins with 0; returns the sum."""
        return int(_ask(self._store.add, key, amount))

    def has(self, key: str) -> bool:
        """Whether there is a note."""
        return bool(_ask(self._store.check, [key]))

    def read(self, key: str) -> str | None:
        """A note; None if there is none yet."""
        return _ask(self._store.get, key).decode() if self.has(key) else None

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            _ask(self._store.delete_key, key)

    def wait_for(self, keys: dict[int | None, str], unless: str, seconds: float) -> None:
        """Returns when each rank (None: some rank) has left its note. Raises Unreachable after so many seconds, or once there
        is a note `unless`."""
        ends, pause = time.perf_counter() + seconds, _SHORTEST
        while missing := [rank for rank, key in keys.items() if not self.has(key)]:
            if time.perf_counter() > ends:
                raise Unreachable(f"not within {seconds:g} seconds (config.agree_timeout)", missing)
            if pause == _LONGEST and self.has(unless):
                raise Unreachable("they have given up waiting for one another", missing)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)


def _ask(ask: Callable[..., Any], *args: Any) -> Any:
    try:
        return ask(*args)
    except RuntimeError as error:  # of the classes that torch.distributed raises
        raise Unreachable(f"the store of the process group fails: {error}") from None


class _Boards:
    """The board of the default process group. A group that is made anew has another one."""

    def __init__(self) -> None:
        self._made = 0
        self._of: Callable[[], Any] = lambda: None
        self._board: Board | None = None

    def current(self) -> Board | None:
        """None where the program has no process group, or is alone in it."""
        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
            return None
        group = dist.group.WORLD
        if self._board is None or self._of() is not group:
            self._made += 1
            store = _connection(dist.distributed_c10d._get_default_store())
            store = dist.PrefixStore(f"shapetracer/{self._made}", store)
            self._board, self._of = Board(store, dist.get_rank(), dist.get_world_size()), weakref.ref(group)
        return self._board


def _connection(store: Any) -> Any:
    """A connection of its own to the same store: one that waits for a note would keep others waiting."""
    try:
        return store.clone()
    except (RuntimeError, NotImplementedError):  # a store of files needs none
        return store


current = _Boards().current
