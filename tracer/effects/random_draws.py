"""Random numbers drawn from Python's and NumPy's generators. The output code draws them at each call, in the program's order
and before the graph runs, so that the generators are left as CPython leaves them; the graph is given what came."""

from __future__ import annotations

import _random
import ctypes
import random
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


_MISSING = object()


class Drawn(NamedTuple):
    """What an earlier draw gave."""

    number: int


class Computed(NamedTuple):
    """A number that is computed of sizes, which are read where these lead: `text` calls them v0, v1, ..."""

    text: str
    sources: tuple[Any, ...]


class Draw(NamedTuple):
    """A call of a method of a generator, with plain constants, what was drawn before, and what is computed of sizes. Without a
    generator, it makes one, or something else that the graph is given (`variables.made_leaves`)."""

    function: Any
    generator: VariableTracker | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def shuffled(generator: random.Random, items: tuple[Any, ...]) -> list[Any]:
    shuffled = list(items)
    generator.shuffle(shuffled)
    return shuffled


def states_of(*generators: Any) -> list[tuple[Any, Any]]:
    """What `put_back` needs to make the draws undone."""
    return [(each, _state(each)) for each in generators]


def _state(generator: Any) -> Any:
    if type(generator) is random.Random:  # which its __init__ may not have left yet: then there is no `gauss_next`
        return _numbers(generator), vars(generator).get("gauss_next", _MISSING)
    return generator.get_state()


def put_back(states: list[tuple[Any, Any]]) -> None:
    for generator, state in states:
        if type(generator) is random.Random:
            numbers, gauss = state
            _set_numbers(generator, numbers)
            if gauss is not _MISSING:
                vars(generator)["gauss_next"] = gauss
        else:
            generator.set_state(state)


_HEAD = object.__basicsize__
_SIZE = _random.Random.__basicsize__ - _HEAD


def _numbers(generator: random.Random) -> Any:
    """As they lie in memory, where that is all there is: `getstate` makes a tuple of 625 ints."""
    if _NUMBERS_ALONE:
        return ctypes.string_at(id(generator) + _HEAD, _SIZE)
    return _random.Random.getstate(generator)


def _set_numbers(generator: random.Random, numbers: Any) -> None:
    if _NUMBERS_ALONE:
        ctypes.memmove(id(generator) + _HEAD, numbers, _SIZE)
    else:
        _random.Random.setstate(generator, numbers)


def _holds_numbers_alone() -> bool:
    """Whether a generator of CPython's is its numbers (624 of 32 bits and a position) and nothing else."""
    if sys.implementation.name != "cpython" or not 4 * 625 <= _SIZE <= 4 * 626:
        return False
    generator = random.Random(0)
    before, numbers = generator.getstate(), ctypes.string_at(id(generator) + _HEAD, _SIZE)
    generator.random()
    after = generator.getstate()
    ctypes.memmove(id(generator) + _HEAD, numbers, _SIZE)
    return before != after and generator.getstate() == before


_NUMBERS_ALONE = _holds_numbers_alone()
