"""Finds stretches of a sequence that occur several times: the blocks of a model, in the tokens of its graph.

Windows whose length is a power of two are numbered so that equal ones have one number (Karp, Miller and Rosenberg, "Rapid
identification of repeated patterns in strings, trees and arrays", 1972). The occurrences of a window that do not overlap are then
made longer, as far as all of them agree. n items cost O(n log n), and each repeat that is found costs O(n) more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

_SHORTEST_POWER = 3
SHORTEST = 2**_SHORTEST_POWER  # items of the shortest stretch that is looked for
NEVER = math.inf  # the price of a cut where none may be

Prices = Sequence[float]  # for each place between items (and both ends), what it costs to cut there


@dataclasses.dataclass(frozen=True)
class Repeat:
    """A stretch of `length` items that begins at each of `starts`, in order, without overlap."""

    starts: tuple[int, ...]
    length: int

    def shifted(self, by: int, length: int) -> Repeat:
        return Repeat(tuple([start + by for start in self.starts]), length)


def find_repeats(tokens: Sequence[int], prices: Prices, agree: Callable[[Repeat], list[Repeat]], most: int = 16) -> list[Repeat]:
    """The repeats that save most, best first, none overlapping another. A repeat of n stretches saves the items of n - 1, less
    what it costs to cut at the ends of each.

    `agree` divides a repeat into those whose stretches are equal in what tokens do not show.
    `most`: how many kinds of repeats are looked for.
    """
    tokens, found = list(tokens), []
    fresh = min(tokens, default=0)
    for _ in range(most):
        repeat = _best(tokens, prices, agree)
        if repeat is None:
            break
        found.append(repeat)
        for start in repeat.starts:
            for i in range(start, start + repeat.length):
                fresh -= 1
                tokens[i] = fresh  # equal to nothing
    return found


def _best(tokens: list[int], prices: Prices, agree: Callable[[Repeat], list[Repeat]]) -> Repeat | None:
    best, most = None, 0.0
    tried: set[Repeat] = set()
    for candidate in _candidates(tokens):
        if (len(candidate.starts) - 1) * _spacing(candidate, len(tokens)) <= most:
            continue
        whole = _extended(tokens, candidate)
        if whole in tried:
            continue
        tried.add(whole)
        for repeat in _cut_well(tokens, whole, prices):
            if saving(repeat, prices) <= most:
                continue
            for equal in agree(repeat):
                saved = saving(equal, prices)
                if saved > most:
                    best, most = equal, saved
    return best


def saving(repeat: Repeat, prices: Prices) -> float:
    """Items that need not be compiled, less the price of the cuts. Where two stretches meet, there is one."""
    cuts = sum(map(prices.__getitem__, {place for start in repeat.starts for place in (start, start + repeat.length)}))
    return (len(repeat.starts) - 1) * repeat.length - cuts


def _candidates(tokens: list[int]) -> Iterator[Repeat]:
    """Windows of the lengths 2**k that occur more than once, the longest first."""
    for length, names in reversed(list(_named_windows(tokens))):
        places: dict[int, list[int]] = {}
        for start, name in enumerate(names):
            known = places.setdefault(name, [])
            if not known or start - known[-1] >= length:
                known.append(start)
        for starts in places.values():
            if len(starts) > 1:
                yield Repeat(tuple(starts), length)


def _named_windows(tokens: list[int]) -> Iterator[tuple[int, list[int]]]:
    length, names = 1, tokens
    while 2 * length <= len(tokens):
        numbers: dict[tuple[int, int], int] = {}
        names = [numbers.setdefault(pair, len(numbers)) for pair in zip(names, names[length:])]
        length *= 2
        if len(numbers) == len(names):
            return  # nothing is repeated any more
        if length >= SHORTEST:
            yield length, names


def _spacing(repeat: Repeat, end: int) -> int:
    """The most items that each stretch could have."""
    gaps = [later - start for start, later in zip(repeat.starts, repeat.starts[1:])]
    return min([*gaps, end - repeat.starts[-1] + repeat.starts[0]])


def _extended(tokens: list[int], repeat: Repeat) -> Repeat:
    """The same stretches with more items at both ends, as far as all agree and none meets the next."""
    starts, length = repeat.starts, repeat.length
    room = min(later - start for start, later in zip(starts, starts[1:]))
    first = starts[0]
    while length < room and starts[-1] + length < len(tokens) and _same(tokens, starts, length):
        length += 1
    back = 0
    while length + back < room and back < first and _same(tokens, starts, -back - 1):
        back += 1
    return repeat.shifted(-back, length + back)


def _same(tokens: list[int], starts: tuple[int, ...], offset: int) -> bool:
    return len({tokens[start + offset] for start in starts}) == 1


def _cut_well(tokens: list[int], repeat: Repeat, prices: Prices) -> Iterator[Repeat]:
    """The repeat with its ends where cuts are cheap. Stretches that follow one another may begin anywhere in the period."""
    starts, length = repeat.starts, repeat.length
    follow = all(later - start == length for start, later in zip(starts, starts[1:]))
    if follow:
        end = starts[-1] + length
        while end < len(tokens) and tokens[end] == tokens[end - length]:
            end += 1
        turned = [_turned(starts[0] + by, end, length) for by in range(length)]
        yield max(turned, key=lambda each: saving(each, prices))

    def cut_at(offset: int) -> float:
        return sum(prices[start + offset] for start in starts)

    low = min(range(length // 2), key=lambda offset: cut_at(offset) + (len(starts) - 1) * offset)
    high = min(range(length, length // 2, -1), key=lambda offset: cut_at(offset) + (len(starts) - 1) * (length - offset))
    if high - low >= SHORTEST:
        yield repeat.shifted(low, high - low)


def _turned(start: int, end: int, length: int) -> Repeat:
    return Repeat(tuple(range(start, end - length + 1, length)), length)
