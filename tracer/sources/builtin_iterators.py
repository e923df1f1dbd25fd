"""Reading the iterators of builtins without taking from them: `__reduce__` of these types runs no code of the program."""

from __future__ import annotations

import gc
import itertools
import re
from typing import Any

BACKWARD_ITERATORS: tuple[type, ...] = (type(reversed([])), reversed)
FORWARD_ITERATORS: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter("a")), type(iter("\u0100")), type(iter(range(0))), type(iter(range(1 << 70))),
    type(iter({})), type(iter({}.values())), type(iter({}.items())), type(iter(set())),
)  # fmt: skip
COMPOSED_ITERATORS = (zip, enumerate, map, filter)
_COUNT = re.compile(r"count\((-?\d+)\)")
_OF_HASHED = FORWARD_ITERATORS[-4:]  # these give a list of what is left
_ALL = frozenset((*FORWARD_ITERATORS, *BACKWARD_ITERATORS, *COMPOSED_ITERATORS))
OF_CHANGEABLE = (FORWARD_ITERATORS[0], *BACKWARD_ITERATORS, *_OF_HASHED)  # list, reversed, dict, set
_SEQUENCES = (list, tuple, str, range)


def _reduced(iterator: Any) -> Any:
    if type(iterator) not in _ALL:
        raise TypeError(f"{type(iterator)} is not an iterator of a builtin")
    try:
        return iterator.__reduce__()
    except RuntimeError as error:  # its container has changed since
        raise TypeError(f"{type(iterator)} that cannot go on") from error


def _rest_of(iterator: Any) -> tuple[type, Any, int, int]:
    """(builtin class, sequence, index of the next item, how many items are left)"""
    parts = _reduced(iterator)
    sequence = parts[1][0]
    cls = next((cls for cls in _SEQUENCES if issubclass(type(sequence), cls)), None)
    if cls is None:
        raise TypeError(f"an iterator over {type(sequence)}")
    if type(iterator) is reversed and type(sequence) is not cls:  # it asks the sequence's own methods
        raise TypeError(f"reversed() of {type(sequence)}")
    backward = type(iterator) in BACKWARD_ITERATORS
    index = parts[2] if len(parts) > 2 else (-1 if backward else 0)
    if index is None:  # that of a range, from Python 3.12 on: the range is what is left
        index = 0
    length = cls.__len__(sequence)
    return cls, sequence, index, min(index + 1, length) if backward else max(length - index, 0)


def upcoming(iterator: Any, ahead: int) -> Any:
    """The item that an iterator over a builtin gives after `ahead` more; IndexError if there are fewer."""
    cls, sequence, index, left = _rest_of(iterator)
    if ahead >= left:
        raise IndexError(ahead)
    return cls.__getitem__(  # type: ignore[index]  # one of the builtin sequences
        sequence, index - ahead if type(iterator) in BACKWARD_ITERATORS else index + ahead
    )


def items_left(iterator: Any) -> int:
    return _rest_of(iterator)[3]


def iterated(iterator: Any) -> Any:
    """The container that an iterator over a builtin takes from."""
    if type(iterator) in _OF_HASHED:
        return next(iter(gc.get_referents(iterator)), None)
    return _rest_of(iterator)[1]


def iterator_parts(iterator: Any) -> tuple[Any, ...]:
    """The arguments that make a zip (not a strict one), enumerate, map, filter or count with the same remaining items."""
    if type(iterator) is itertools.count:
        return _of_count(iterator)
    reduced = _reduced(iterator)
    if type(iterator) not in COMPOSED_ITERATORS or len(reduced) > 2:
        raise TypeError(f"{type(iterator)} has no parts, or more than those")
    found: tuple[Any, ...] = reduced[1]
    return found


def _of_count(iterator: itertools.count[Any]) -> tuple[int, int]:
    """(the next number, the step) of a count of ints. It holds the number as an object, or, while it steps by 1, in C alone."""
    held = [each for each in gc.get_referents(iterator) if each is not itertools.count]  # from 3.12 on it holds its class, too
    if all(type(number) is int and abs(number) < 1 << 62 for number in held):
        if len(held) == 2:
            return held[0], held[1]
        shown = _COUNT.fullmatch(repr(iterator))
        if shown is not None:
            return int(shown[1]), 1
    raise TypeError("a count of other numbers than ints, or of larger ones")


# -- called by output code ---------------------------------------------------------------------------------------------


def take_from(iterator: Any, count: int, exhaust: bool) -> None:
    """Takes `count` items, and, if `exhaust`, asks for one more where there is none."""
    next(itertools.islice(iterator, count, count), None)
    if exhaust:
        next(iterator, None)
