"""Random numbers from Python's and NumPy's generators. The output code draws them at each call, in the program's order and
before the graph, which gets them as inputs. So the generators end in the state in which CPython would leave them."""

from __future__ import annotations

import _random
import ctypes
import random
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


_MISSING = object()


class Drawn(NamedTuple):
    """The result of an earlier draw, by its index."""

    number: int


class Computed(NamedTuple):
    """A number computed from sizes: `text` is a Python expression over v0, v1, ..., the values of the sources."""

    text: str
    sources: tuple[Any, ...]


class Draw(NamedTuple):
    """A call of a method of a generator. Arguments are constants, Drawn or Computed, or tuples of these. With `generator` None
    the call makes a generator, or another object that becomes an input of the graph (`variables.tensors.created_leaves`)."""

    function: Any
    generator: VariableTracker | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def shuffled(generator: random.Random, items: tuple[Any, ...]) -> list[Any]:
    shuffled = list(items)
    generator.shuffle(shuffled)
    return shuffled


def generator_states(*generators: Any) -> list[tuple[Any, Any]]:
    """The states of generators, for `restore_states`."""
    return [(each, _state(each)) for each in generators]


def _state(generator: Any) -> Any:
    if type(generator) is random.Random:  # `gauss_next` is missing while its __init__ has not finished
        return _numbers(generator), vars(generator).get("gauss_next", _MISSING)
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def restore_states(states: list[tuple[Any, Any]]) -> None:
    for generator, state in states:
        if type(generator) is random.Random:
            numbers, gauss = state
            _set_numbers(generator, numbers)
            if gauss is not _MISSING:
                vars(generator)["gauss_next"] = gauss
        elif isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        else:
            generator.set_state(state)


_HEAD = object.__basicsize__
_SIZE = _random.Random.__basicsize__ - _HEAD


def _numbers(generator: random.Random) -> Any:
    """The raw memory of the generator's state if that is all of it, because `getstate` is slow: it makes a tuple of 625 ints."""
    if _NUMBERS_ALONE:
        return ctypes.string_at(id(generator) + _HEAD, _SIZE)
    return _random.Random.getstate(generator)


def _set_numbers(generator: random.Random, numbers: Any) -> None:
    if _NUMBERS_ALONE:
        ctypes.memmove(id(generator) + _HEAD, numbers, _SIZE)
    else:
        _random.Random.setstate(generator, numbers)


def _holds_numbers_alone() -> bool:
    """Whether the memory of a `_random.Random` object is its state (624 numbers of 32 bits and a position) and nothing else."""
    if sys.implementation.name != "cpython" or not 4 * 625 <= _SIZE <= 4 * 626:
        return False
    generator = random.Random(0)
    before, numbers = generator.getstate(), ctypes.string_at(id(generator) + _HEAD, _SIZE)
    generator.random()
    after = generator.getstate()
    ctypes.memmove(id(generator) + _HEAD, numbers, _SIZE)
    return before != after and generator.getstate() == before


_NUMBERS_ALONE = _holds_numbers_alone()
