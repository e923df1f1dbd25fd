"""Random numbers drawn from Python's and NumPy's generators. The output code draws them at each call, in the program's order
and before the graph runs, so that the generators are left as CPython leaves them; the graph is given what came."""
from __future__ import annotations

import _random
import random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracer.variables.base import VariableTracker


_MISSING = object()


class Draw(NamedTuple):
    """A call of a method of a generator that existed before the frame ran, with plain constants."""

    function: Any
    generator: VariableTracker
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def states_of(*generators: Any) -> list[tuple[Any, Any]]:
    """What `put_back` needs to make the draws undone."""
    return [(each, _state(each)) for each in generators]


def _state(generator: Any) -> Any:
    if type(generator) is random.Random:  # which its __init__ may not have left yet: then there is no `gauss_next`
        return _random.Random.getstate(generator), vars(generator).get("gauss_next", _MISSING)
    return generator.get_state()


def put_back(states: list[tuple[Any, Any]]) -> None:
    for generator, state in states:
        if type(generator) is random.Random:
            numbers, gauss = state
            _random.Random.setstate(generator, numbers)
            if gauss is not _MISSING:
                vars(generator)["gauss_next"] = gauss
        else:
            generator.set_state(state)
