"""Iterators that existed before the traced frame: loops in which the graph breaks, iterators as arguments."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured_made, check, check_made

X = torch.arange(3.0)

MAKERS = {
    "list": lambda: iter([1, 2, 3, 4, 5]),
    "tuple": lambda: iter((1, 2, 3, 4, 5)),
    "range": lambda: iter(range(2, 30, 3)),
    "long range": lambda: iter(range(1 << 70, (1 << 70) + 5)),
    "str": lambda: iter("abcde"),
    "wide str": lambda: iter("a\u0100cde"),
    "dict": lambda: iter({"a": 1, "b": 2, "c": 3, "d": 4}),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3, "d": 4}.values()),
    "items": lambda: iter({"a": 1, "b": 2, "c": 3, "d": 4}.items()),
    "set": lambda: iter({1, 2, 3, 4}),
    "reversed list": lambda: reversed([1, 2, 3, 4]),
    "reversed tuple": lambda: reversed((1, 2, 3, 4)),
    "enumerate": lambda: enumerate("abcd", 5),
    "zip": lambda: zip([1, 2, 3, 4], "abcd", range(3)),
    "enumerated zip": lambda: enumerate(zip([1, 2, 3, 4], "abcd")),
    "enumerated twice": lambda: enumerate(enumerate([7, 8, 9, 10])),
    "map": lambda: map(lambda n: n * 2, [1, 2, 3, 4]),
    "filter": lambda: filter(None, [1, 0, 2, 0, 3, 4]),
    "list of tensors": lambda: iter([X, X + 1, X, X + 2]),
    "empty": lambda: iter([]),
}


@pytest.mark.parametrize(("before", "taken"), [(0, 2), (1, 1), (1, 9)])
@pytest.mark.parametrize("name", MAKERS)
def test_an_iterator_as_an_argument_goes_on(name, taken, before):
    def f(x, iterator):
        return x + 1, [next(iterator, "end") for _ in range(taken)], iterator

    def make():
        iterator = MAKERS[name]()
        for _ in range(before):
            next(iterator, None)
        return (X, iterator), {}

    captured_made(f, make)


@pytest.mark.parametrize("name", MAKERS)
def test_an_iterator_as_an_argument_of_a_loop_with_a_break(name):
    def f(x, iterator):
        seen = []
        for item in iterator:
            seen.append(item)
            x = x + 1
            if x.sum() > 7:
                break
        return x, seen, iterator

    check_made(f, lambda: ((X, MAKERS[name]()), {}))


def test_a_loop_breaks_once_a_turn_and_its_turns_share_entries():
    def f(x, items):
        for i, (a, b) in enumerate(zip(items, reversed(items))):
            x = x * a + b + i
            if x.sum() > 1000:
                x = x / 2
        return x

    checked = check(f, X, [X * i for i in range(12)])
    assert set(checked.break_ids) == {"data-dependent-branch"}
    assert len(checked.graphs) <= 7  # the first turn, turns of either branch with i fixed or not, and the end


def test_a_list_that_changes_under_its_iterator():
    def f(x, items):
        for item in items:
            x = x + item
            tracer.graph_break()
            if len(items) < 6:
                items.append(item + 1)
        return x

    def g(x, items, iterator):
        first = next(iterator)
        items.append(5)
        items[1] = 7
        return x + first, list(iterator)

    check(f, X, [1, 2, 3])

    def make():
        items = [1, 2]
        return (X, items, iter(items)), {}

    check_made(g, make)


def test_a_dict_that_changes_under_its_iterator():
    def f(x, table, iterator):
        first = next(iterator)
        table["c"] = 3
        try:
            next(iterator)
        except RuntimeError as error:
            return x + 1, first, str(error)

    def make():
        table = {"a": 1, "b": 2}
        return (X, table, iter(table)), {}

    check_made(f, make)


def test_one_iterator_reached_by_two_names():
    def f(x, a, b):
        return x + 1, next(a), next(b), next(a), list(b)

    def pairs(x, iterator, zipped):
        return x + 1, next(zipped), next(iterator), next(zipped), next(zipped, None), list(iterator)

    def counted(x, iterator, counting):
        return x + 1, next(counting), next(iterator), next(counting), next(iterator), next(counting, None), next(iterator, 0)

    def make(copies):
        def made():
            iterator = iter(range(4))
            return (X, iterator, iterator if copies else iter(range(4, 9))), {}

        return made

    captured_made(f, make(True))
    captured_made(f, make(False))
    compiled = tracer.compile(f, backend="eager")
    for copies in (False, True, False):
        (expected,), (seen,) = [f(*make(copies)()[0])[1:]], [compiled(*make(copies)()[0])[1:]]
        assert expected == seen

    def make_zip():
        iterator = iter(range(9))
        return (X, iterator, zip(iterator, iterator)), {}

    def make_enumerate():
        iterator = iter(range(5))
        return (X, iterator, enumerate(iterator)), {}

    captured_made(pairs, make_zip)
    captured_made(counted, make_enumerate)


def test_more_or_fewer_items_than_before():
    def f(x, iterator):
        total = 0
        for item in iterator:
            total += item
        return x + total, next(iterator, "end")

    compiled = tracer.compile(f, backend="eager")
    for count in (3, 0, 5, 3):
        assert torch.equal(compiled(X, iter(range(count)))[0], f(X, iter(range(count)))[0])


def test_the_number_of_zipped_iterators_is_guarded():
    def f(x, zipped):
        return x + 1, list(zipped)

    compiled = tracer.compile(f, backend="eager")
    for count in (1, 3, 2, 0):
        assert compiled(X, zip(*["ab"] * count))[1] == list(zip(*["ab"] * count))


def test_a_strict_zip_and_an_iterator_of_a_class_are_left_to_python():
    class Backwards:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return [0, 10, 20][index]

    def f(x, iterator):
        items = []
        try:
            for item in iterator:
                items.append(item)
        except ValueError as error:
            items.append(str(error))
        return x + 1, items

    check_made(f, lambda: ((X, zip([1, 2], [3], strict=True)), {}))
    check_made(f, lambda: ((X, reversed(Backwards())), {}))
    check_made(f, lambda: ((X, iter(Backwards())), {}))


def test_breaks_in_nested_loops():
    def f(x, log):
        for i in range(3):
            for name, value in {"a": 1, "b": 2}.items():
                x = x + value
                tracer.graph_break()
                if i == 1:
                    continue
                log.append((i, name))
            else:
                log.append("else")
        return x

    check(f, X, [])


def test_a_comprehension_with_a_break():
    @tracer.disable
    def double(item):
        return item * 2

    def f(x):
        doubled = [double(x + i) for i in range(4)]
        table = {name: double(i) for i, name in enumerate("abc")}
        return doubled, table

    check(f, X)
