"""collections, written so that it can be traced."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable
from typing import Any

from tracer.library.polyfills.replacing import replaces


@replaces(collections._count_elements)  # type: ignore[attr-defined]  # private in collections
def count_elements(mapping: Any, iterable: Iterable[Hashable], /) -> None:
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1
