"""Iterators and generators that exist before a call, which leaves them where CPython would."""

from __future__ import annotations

import collections
import itertools

import pytest
import torch

from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(3.0)


def numbers(log=None):
    try:
        for number in range(1, 9):
            got = yield number
            if got is not None:
                yield got * 10
    finally:
        if log is not None:
            log.append("closed")


MAKERS = {
    "list": lambda: iter([1, 2, 3, 4, 5, 6]),
    "reversed": lambda: reversed([1, 2, 3, 4, 5, 6]),
    "range": lambda: iter(range(1, 9)),
    "dict": lambda: iter({1: "a", 2: "b", 3: "c", 4: "d"}),
    "deque": lambda: iter(collections.deque([1, 2, 3, 4])),
    "enumerate": lambda: enumerate([5, 6, 7, 8, 9]),
    "zip": lambda: zip([1, 2, 3, 4], [5, 6, 7, 8]),
    "map": lambda: map(abs, [-1, -2, -3, -4]),
    "filter": lambda: filter(None, [0, 1, 2, 0, 3, 4]),
    "callable": lambda: iter([5, 4, 3, 2, 1].pop, 5),
    "generator": numbers,
    "expression": lambda: (number * 2 for number in range(1, 9)),
    "count": lambda: itertools.count(4, 2),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "repeat": lambda: itertools.repeat(2, 5),
    "chain": lambda: itertools.chain([1, 2], [3], (4, 5)),
    "islice": lambda: itertools.islice(range(20), 1, 15, 2),
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4]),
    "compress": lambda: itertools.compress([1, 2, 3, 4], [1, 0, 1, 1]),
    "dropwhile": lambda: itertools.dropwhile(lambda number: number < 2, [1, 2, 1, 4]),
    "takewhile": lambda: itertools.takewhile(lambda number: number < 9, [1, 2, 3, 4]),
    "starmap": lambda: itertools.starmap(pow, [(2, 1), (2, 2), (2, 3)]),
    "pairwise": lambda: itertools.pairwise([1, 2, 3, 4]),
    "product": lambda: itertools.product([1, 2], [3, 4]),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "combinations": lambda: itertools.combinations([1, 2, 3, 4], 2),
    "zip_longest": lambda: itertools.zip_longest([1, 2], [3, 4, 5]),
    "tee": lambda: itertools.tee([1, 2, 3, 4])[1],
    **({"batched": lambda: itertools.batched(range(9), 2)} if hasattr(itertools, "batched") else {}),
    "groupby": lambda: (key for key, _ in itertools.groupby("aabbccd")),
}


def takes_some(x, iterator):
    first = next(iterator)
    x = x + 1
    second = next(iterator, "none")
    return x * 2, first, second


def takes_in_a_loop(x, iterator):
    taken = []
    for item in iterator:
        taken.append(item)
        x = x + 1
        if len(taken) == 3:
            break
    return x, taken


def takes_by_another(x, iterator):
    pairs = list(zip(range(2), iterator))
    return x + len(pairs), pairs, list(itertools.islice(iterator, 1))


def hands_on(x, iterator):
    return x + 1, iterator


@pytest.mark.parametrize("fn", [takes_some, takes_in_a_loop, takes_by_another, hands_on])
@pytest.mark.parametrize("kind", MAKERS)
def test_an_iterator_is_left_where_cpython_leaves_it(fn, kind):
    traced = compiled(fn, Settings(backend="eager", name="check"))
    for _ in range(3):
        mine, theirs = MAKERS[kind](), MAKERS[kind]()
        (expected, *drawn), (result, *found) = fn(X, mine), traced(X, theirs)
        assert torch.equal(expected, result)
        if fn is hands_on:
            assert found == [theirs]
        else:
            assert found == drawn
        assert list(itertools.islice(theirs, 4)) == list(itertools.islice(mine, 4))


def test_one_iterator_under_two_names():
    def f(x, first, second):
        return x + 1, [next(first), next(second), next(first)], list(second)

    for make in MAKERS.values():
        made = [itertools.islice(make(), 5) for _ in range(2)] if make is MAKERS["count"] else [make(), make()]
        if make is MAKERS["cycle"]:
            continue
        traced = compiled(f, Settings(backend="eager", name="check"))
        assert traced(X, made[0], made[0])[1:] == f(X, made[1], made[1])[1:]


def test_a_generator_that_is_sent_to_thrown_at_and_closed():
    def f(x, generator, log):
        first = next(generator)
        sent = generator.send(4)
        try:
            generator.throw(KeyError("k"))
        except KeyError as error:
            log.append(str(error))
        generator.close()
        return x + first + sent, list(generator)

    logs: list = [[], []]
    traced = compiled(f, Settings(backend="eager", name="check"))
    result, expected = traced(X, numbers(logs[0]), logs[0]), f(X, numbers(logs[1]), logs[1])
    assert torch.equal(result[0], expected[0]) and result[1] == expected[1] and logs[0] == logs[1]
