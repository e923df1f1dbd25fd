"""Functions with a cache that tests share, and what their caches tell of themselves."""

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
