"""Sizes to try a set of guards at: inside, just outside, and far off."""

import random
from collections.abc import Iterator

from shapes.solver import witness
from tests.shapes.equivalence.table import GuardSet

STEPS = [-64, -16, -8, -7, -4, -3, -2, -1, 1, 2, 3, 4, 7, 8, 16, 64]


def border(guards, kept) -> list[tuple[int, ...]]:
    """For each kept guard sizes at which it alone does not hold."""
    points = []
    for guard in kept:
        values = witness([other for other in kept if other is not guard], guard, facts=guards.facts)
        if values is not None:
            points.append(tuple(values.get(symbol, hint) for symbol, hint in zip(guards.symbols, guards.hints)))
    return points


def sizes(guards: GuardSet, count: int, starts: list[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """`count` different tuples at which the facts hold, or fewer if the neighbourhood has no more."""
    rng = random.Random(guards.name)
    inside = [guards.hints]
    constants = sorted({abs(int(c)) for guard in guards.guards for c in guard.atoms() if c.is_Integer} | {2, 3})
    seen = set()
    attempts = 20 * count
    queue = [guards.hints, *starts]
    while len(seen) < count and attempts:
        attempts -= 1
        point = queue.pop() if queue else _next(rng, inside, starts, constants, len(guards.hints))
        if point in seen or not guards.admits(point):
            continue
        seen.add(point)
        yield point
        if len(inside) < 500 and guards.holds(point):
            inside.append(point)


def _next(rng, inside, starts, constants, dims) -> tuple[int, ...]:
    kind = rng.random()
    if kind < 0.25:
        return tuple(int(2 ** rng.uniform(0, 11)) for _ in range(dims))
    if kind < 0.35:
        return tuple(rng.choice(constants) + rng.choice((-1, 0, 1)) for _ in range(dims))
    base = list(rng.choice(starts) if starts and kind < 0.5 else rng.choice(inside))
    for _ in range(rng.choice((1, 1, 2, 3))):
        dim = rng.randrange(dims)
        base[dim] = rng.choice(
            (
                base[dim] + rng.choice(STEPS),
                base[dim] * 2,
                base[dim] // 2,
                rng.choice(constants),
                base[rng.randrange(dims)],
            )
        )
    return tuple(base)
