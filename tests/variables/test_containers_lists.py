"""Lists and tuples, made inside or passed in: methods, subscripts, comparison, what is left behind."""

from __future__ import annotations

import sys

import pytest
import torch

import tracer
from tests.support import breaks, captured, check, check_made
from tests.support.graphs import Graphs

X = torch.arange(3.0)


def test_list_methods_on_a_new_list():
    def f(x):
        a = [1, "s"]
        a.append(2)
        a.extend((3, 4))
        a.extend(i * i for i in range(3))
        a.insert(1, "in")
        a.insert(-100, "first")
        a.insert(100, "last")
        popped = a.pop(), a.pop(0), a.pop(-2)
        a.remove(3)
        return x + 1, a, popped, a.index(4), a.count(0), a.copy(), a[::-1], len(a), [*a, x]

    captured(f, X)


def test_list_methods_on_an_input():
    def f(x, a):
        a.append(x + 1)
        a.reverse()
        b = a
        b += [1, 2]
        a[1:2] = [7, 8, 9]
        del a[0]
        a[-1] = "end"
        return b

    captured(f, X, [1, 2, 3])


def test_clear_and_refill():
    def f(x, a):
        first = a[0]
        a.clear()
        a.append(first)
        return x + 1, first

    captured(f, X, [[1], 2])


def test_element_taken_out_of_an_input_is_returned():
    captured(lambda x, a: (x + 1, a.pop(), a), X, [1, X, [2]])


def test_list_repeats_and_concatenates():
    captured(lambda x: ([x] * 3, [1] + [x + 1], 2 * [0], [1] * -1, (1,) * 2 + (x,)), X)


def test_in_place_repeat_keeps_the_object():
    def f(x, a):
        b = a
        a *= 2
        return x + 1, a is b

    captured(f, X, [1, 2])


def test_augmented_subscript_evaluates_once():
    def f(x):
        a = [1, 2, 3, 4]
        a[-1] += a.pop()
        return x + 1, a

    captured(f, X)


@pytest.mark.parametrize("index", [0, -1, 2, 3, -4, slice(None), slice(1, None), slice(None, None, -1), slice(5, 1, -2), True])
def test_subscripts(index):
    captured(lambda x, a, i: (x + 1, a[i]), X, ["a", "b", "c"], index) if index not in (3, -4) else check(
        lambda x, a, i: (x + 1, a[i]), X, ["a", "b", "c"], index
    )
    check(lambda x, a, i: (x + 1, a[i]), X, ("a", "b", "c"), index)


class Two:
    def __index__(self):
        return 2


def test_subscript_by_index_method():
    captured(lambda x, i: (x + 1, [0, 1, 2, 3][i], (0, 1, 2, 3)[:i], "abcd"[0]), X, Two())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: a["x"],
        lambda a: a[None],
        lambda a: a[10],
        lambda a: a[1:2:0],
        lambda a: a.pop(7),
        lambda a: [].pop(),
        lambda a: a.remove(99),
        lambda a: a.index(99),
        lambda a: (1, 2).index("q"),
        lambda a: tuple(a)["k"],
        lambda a: a.nothing,
        lambda a: a + (1,),
        lambda a: a[::2].insert("x", 1),
        lambda a: hash(([],)),
        lambda a: {[]: 1},
        lambda a: a.__setitem__(slice(0, 4, 2), [1]),
        lambda a: [1, "a"].sort(),
        lambda a: a.append(),
        lambda a: a.append(1, 2),
        lambda a: a.extend(5),
        lambda a: len(5),
        lambda a: (*a, *5),
    ],
)
def test_errors_are_those_of_cpython(wrong):
    def f(x, a):
        try:
            wrong(a)
        except Exception as error:
            return x + 1, type(error), str(error)

    check(f, X, [1, 2, 3, 4])


def test_comparison():
    def f(x, a, b):
        same = [x, 1]
        return (
            x + 1, a == b, a != b, a < b, a >= b, (1, 2) < (1, 3), [1] == (1,), [] == [], (1, "a") == (1, "a"),
            same == same, [x] == [x], a in [b, a], [1, [2]] == [1, [2]],
        )  # fmt: skip

    captured(f, X, [1, 2], [1, 3])


def test_membership_is_by_identity_first():
    nan = float("nan")

    def f(x):
        return x + 1, nan in [nan], nan in (1, nan), x in [x, 1], (nan,) == (nan,), [nan].index(nan)

    captured(f, X)


def test_sort_is_stable_and_reverse_keeps_ties():
    def f(x):
        a = [(1, "b"), (0, "z"), (1, "a"), (0, "y")]
        a.sort(key=lambda pair: pair[0])
        b = sorted(a, key=lambda pair: pair[0], reverse=True)
        c = sorted("hello")
        return x + 1, a, b, c, sorted([3, 1, 2]), sorted({3: 1, 2: 2}), sorted([1.5, True, 0])

    captured(f, X)


def test_sort_of_objects_uses_less_than_only():
    class Item:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            log.append((self.n, other.n))
            return self.n < other.n

    log = []

    def f(x):
        log.clear()
        items = sorted([Item(3), Item(1), Item(2), Item(5), Item(4)])
        return x + 1, [item.n for item in items], list(log)

    captured(f, X)


def test_list_is_empty_while_it_is_sorted():
    def f(x):
        a = [3, 1, 2]
        seen = []

        def key(item):
            seen.append(len(a))
            return item

        a.sort(key=key)
        return x + 1, a, seen

    captured(f, X)


def test_iterating_a_list_that_grows():
    def f(x):
        a = [1, 2]
        for item in a:
            if len(a) < 5:
                a.append(item + 10)
        return x + 1, a

    captured(f, X)


def test_extending_by_a_generator_that_looks_at_the_list():
    def f(x):
        a = [1]
        a.extend(len(a) for _ in range(3))
        return x + 1, a

    captured(f, X)


def test_a_list_that_holds_itself():
    def f(x):
        a = [x + 1]
        a.append(a)
        return a

    captured(f, X)


def test_aliases_stay_aliases():
    def f(x, a, b):
        a.append(b)
        c = [a, b, a]
        b.append(x + 1)
        return c, a

    captured(f, X, [1], [2])


def test_unpacking():
    def f(x, a):
        first, *middle, last = a
        (p, q), r = (1, 2), x
        (*everything,) = a
        none, *empty = [5]
        return first, middle, last, p, q, r + 1, everything, none, empty, [*a, *"ab"], (*a, 1), {**{"a": 1}, "b": x}

    captured(f, X, [1, 2, 3, 4])


def test_wrong_number_of_values():
    def f(x, a):
        try:
            p, q = a
        except ValueError as error:
            return x + 1, str(error)

    check(f, X, [1])
    check(f, X, [1, 2, 3])


def test_tuple_of_a_tuple_is_the_tuple():
    def f(x, t):
        return x + 1, tuple(t) is t, t[:] is t, t + (), (1, 2).count(1), (1, "s", 1).index(1, 1)

    captured(f, X, (1, 2))


def test_named_tuples():
    from collections import namedtuple

    Point = namedtuple("Point", "a b c", defaults=(7,))

    def f(x, p):
        q = Point(1, b=x)
        r = q._replace(a=x + 1)
        a, b, c = r
        rest = p == (1, 2, 3), p + (4,), p[1:], isinstance(p, tuple)
        return q, r, a, p.a, p[1], q.c, p._asdict(), Point._fields, rest

    captured(f, X, Point(1, 2, 3))


def test_named_tuple_text_and_make():
    from typing import NamedTuple

    class Pair(NamedTuple):
        left: int
        right: str = "r"

        def both(self):
            return f"{self.left}{self.right}"

    def f(x):
        pair = Pair(3)
        return x + 1, str(pair), pair.both(), Pair._make([1, 2]), f"{pair!r}"

    captured(f, X)


def test_text_of_containers():
    def f(x, a):
        return x + 1, str(a), repr((1,)), f"{a} {()} {[1.5, 'q']!r:>12}", "%s and %r" % (a, "b"), "%d%%" % 5, f"{ {1} }"

    captured(f, X, [1, "a", None, (2.0,)])


def test_text_of_a_tensor_breaks():
    assert "format-of-runtime-value" in breaks(lambda x: (x + 1, str([x])), X).break_ids


def test_size_is_a_tuple():
    def f(x):
        s = x.shape
        return x + 1, s[0], s[-1], s == (2, 3), s[:1], tuple(s), len(s), list(s), s + (1,), s.numel(), 3 in s, str(s)

    captured(f, torch.ones(2, 3))


def test_a_list_that_is_only_appended_to_may_have_any_length():
    seen = []

    def f(x, others):
        y = x + 1
        seen.append(y)
        seen.extend([1, 2])
        alias = seen
        alias += others
        return y, seen is alias

    graphs = Graphs()
    traced = tracer.compile(f, backend=graphs.backend, fullgraph=True)
    for number in range(12):
        y, same = traced(X, [None])
        assert same and len(seen) == 4 * (number + 1) and seen[-4] is y and seen[-3:] == [1, 2, None]
    assert len(graphs) == 1


def test_a_list_is_read_after_it_was_appended_to():
    def f(x, items, again):
        items.append(x)
        first = items[0]
        items += [items, 3]
        again.append(items)
        return first + x, len(items), [*items[1:2]], items[-2] is items, again

    captured(f, X, [X * 2, 5], [])
    items = []

    def grows(x):
        items.append(x)
        return x * len(items)

    traced = tracer.compile(grows, backend="eager")
    for number in range(1, 5):
        assert torch.equal(traced(X), X * number)


def test_an_unread_list_is_carried_over_a_break():
    def f(x, items):
        items.append(x)
        tracer.graph_break()
        items.append(x + 1)
        items.append(items)
        tracer.graph_break()
        return x * 2, items, len(items)

    assert breaks(f, X, [1])


def test_a_list_that_an_iterator_is_on_is_appended_to():
    items = [1, 2]

    def make():
        return (X.clone(), [1, 2, 3]), {}

    def f(x, given):
        iterator = iter(given)
        given.append(next(iterator))
        return x + 1, given

    checked = check_made(f, make)
    assert not checked.breaks and items == [1, 2]


def test_lists_that_a_comparison_empties():
    def make():
        class Emptying:
            def __eq__(self, other):
                lists[0].clear()
                lists[1].clear()
                return NotImplemented

        lists = [[Emptying()], [1]]
        return (torch.ones(2), lists[0], lists[1]), {}

    def fn(x, left, right):
        return x + 1, left == right

    check_made(fn, make)


@pytest.mark.parametrize("change", [list.clear, lambda items: items.append(7), lambda items: items.__setitem__(0, 9)])
@pytest.mark.parametrize("index", [slice(None, None, -1), slice(3, None), slice(1, 3)])
def test_an_iterator_that_changes_the_list_whose_slice_it_is_assigned_to(index, change):
    if sys.version_info < (3, 13) and change is list.clear and index.step:
        pytest.skip("older versions may crash there themselves")

    class Changing:
        def __init__(self, items):
            self.items = items

        def __iter__(self):
            yield from list(self.items)
            change(self.items)

    def fn(x):
        items = list(range(5))
        given = Changing(items)
        tracer.graph_break()
        try:
            items[index] = given
        except ValueError as error:
            return x + 1, items, str(error)
        return x + 1, items

    check(fn, X)
