"""Functions with a cache that tests share, and the statistics of their caches."""

from __future__ import annotations

import functools


@functools.lru_cache
def pure(number, offset=1):
    return number * 2 + offset


@functools.cache
def listed(number):
    return [number]


def counts(*cached):
    return [each.cache_info() for each in cached]


class Recipe:
    def __init__(self, name, order):
        self.name = name
        self.order = order


def caches():
    """Two functions with new caches: one makes an object, the other takes that object, and sizes."""

    @functools.lru_cache(maxsize=8)
    def recipe(text, *, kind=None):
        return Recipe(text.strip(), {"axes": [2, 1, 0], "kind": kind})

    @functools.lru_cache
    def sizes(of, shape):
        if of.name == "none":
            return None
        return [shape[axis] for axis in of.order["axes"]], of.order["axes"], (len(shape), 1.5)

    return recipe, sizes
