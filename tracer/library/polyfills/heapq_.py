"""heapq and bisect: the standard library also has their C functions in Python, in the same files."""

from __future__ import annotations

import bisect
import heapq
from typing import Any

from tracer.inside import graph_break
from tracer.library.polyfills.in_python import in_python
from tracer.library.polyfills.replacing import replaces

_heapq = in_python(heapq, "_heapq")
_bisect = in_python(bisect, "_bisect")
_heapify, _heappush, _heappop = _heapq.heapify, _heapq.heappush, _heapq.heappop
_heapreplace, _heappushpop = _heapq.heapreplace, _heapq.heappushpop
_heapify_max, _heapreplace_max, _heappop_max = _heapq._heapify_max, _heapq._heapreplace_max, _heapq._heappop_max

for _name in ("bisect_left", "bisect_right", "insort_left", "insort_right"):
    replaces(getattr(bisect, _name))(getattr(_bisect, _name))


def _moved(function: Any, *args: Any) -> Any:
    """Breaks the graph if a comparison raises: the items are then in other places than the C function would leave them."""
    try:
        return function(*args)
    except BaseException:
        graph_break()
        raise


@replaces(heapq.heapify)
def heapify(heap: Any, /) -> None:
    if not isinstance(heap, list):
        raise TypeError(f"heapify() argument must be list, not {type(heap).__name__}")
    _moved(_heapify, heap)


@replaces(heapq.heappush)
def heappush(heap: Any, item: Any, /) -> None:
    if not isinstance(heap, list):
        raise TypeError(f"heappush() argument 1 must be list, not {type(heap).__name__}")
    _moved(_heappush, heap, item)


@replaces(heapq.heappop)
def heappop(heap: Any, /) -> Any:
    if not isinstance(heap, list):
        raise TypeError(f"heappop() argument must be list, not {type(heap).__name__}")
    if not heap:
        raise IndexError("index out of range")
    return _moved(_heappop, heap)


@replaces(heapq.heapreplace)
def heapreplace(heap: Any, item: Any, /) -> Any:
    if not isinstance(heap, list):
        raise TypeError(f"heapreplace() argument 1 must be list, not {type(heap).__name__}")
    if not heap:
        raise IndexError("index out of range")
    return _moved(_heapreplace, heap, item)


@replaces(heapq.heappushpop)
def heappushpop(heap: Any, item: Any, /) -> Any:
    if not isinstance(heap, list):
        raise TypeError(f"heappushpop() argument 1 must be list, not {type(heap).__name__}")
    return _moved(_heappushpop, heap, item)


@replaces(heapq._heapify_max)
def heapify_max(heap: list[Any], /) -> None:
    _moved(_heapify_max, heap)


@replaces(heapq._heapreplace_max)  # type: ignore[attr-defined]  # private in heapq
def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    return _moved(_heapreplace_max, heap, item)


@replaces(vars(heapq)["_heappop_max"])
def heappop_max(heap: list[Any], /) -> Any:
    return _moved(_heappop_max, heap)
