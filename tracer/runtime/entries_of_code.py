"""The entries of one code object over all regions, which `config.accumulated_recompile_limit` bounds."""

from __future__ import annotations

import gc
import types
import weakref

from tracer import _C
from tracer.user_marks import IdentityMap


class EntriesOfCode:
    """The entries that are alive. They are held weakly."""

    def __init__(self) -> None:
        self._entries: weakref.WeakSet[_C.Entry] = weakref.WeakSet()
        self._garbage_is_collected = False  # since the count was last below a limit

    def add(self, entry: _C.Entry) -> None:
        self._entries.add(entry)

    def reach(self, limit: int) -> bool:
        """Whether `limit` of them can still serve calls.

        A region lies in a reference cycle: a dropped one counts until Python collects garbage, which in a large process may be
        long after. So garbage is collected before the answer is yes, once until the count falls below the limit again.
        """
        if self._count() < limit:
            self._garbage_is_collected = False
            return False
        if not self._garbage_is_collected:
            gc.collect()
            self._garbage_is_collected = True
        return self._count() >= limit

    def _count(self) -> int:
        return sum(entry.valid for entry in self._entries)


_of_code = IdentityMap()  # code -> EntriesOfCode


def entries_of_code(code: types.CodeType) -> EntriesOfCode:
    """The entries of a code object in all regions."""
    entries: EntriesOfCode | None = _of_code.get(code)
    if entries is None:
        _of_code.set(code, entries := EntriesOfCode())
    return entries
