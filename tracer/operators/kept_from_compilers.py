"""Operations of a graph that compilers are not given: these would drop them, or do another thing. The graph is cut around them,
and they run as they are written, between the pieces that are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_FUNCTIONS: dict[Any, bool] = {}


def keep_from_compilers(*functions: Callable[..., Any] | str, sets_what_compilers_read: bool = False) -> None:
    """Makes calls of these functions, and of methods of these names, such operations. `sets_what_compilers_read`: what follows is
    compiled in the state that the function leaves."""
    _FUNCTIONS.update(dict.fromkeys(functions, sets_what_compilers_read))


def is_kept_from_compilers(target: Any) -> bool:
    """Whether the function or method name that a node calls is one of these."""
    try:
        return target in _FUNCTIONS
    except TypeError:  # not hashable
        return False


def sets_what_compilers_read(target: Any) -> bool:
    return is_kept_from_compilers(target) and _FUNCTIONS[target]
