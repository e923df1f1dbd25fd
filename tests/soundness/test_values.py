"""Plain values and containers: which differences between two calls an entry must see."""

from __future__ import annotations

import collections
import enum
import math

import pytest
import torch

from tests.soundness.watching import Watched, noticed, traced

X = torch.tensor([1.0, 2.0, 3.0])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class MyInt(int):
    pass


class MyStr(str):
    pass


def names_the_type(x, v):
    """Different for every value that Python can tell apart."""
    text = f"{type(v).__name__} {v!r}"
    return x * len(text), text


VALUES = {
    "int bool float": [1, True, 1.0, 1, True, 1.0],
    "zero false": [0, False, 0.0, -0.0, 0, False, 0.0, -0.0],
    "complex": [1j, 1j * 1.0, complex(0.0, -0.0), complex(-0.0, 0.0), 0j],
    "nan": [float("nan"), 1.0, float("nan"), -float("nan")],
    "inf": [math.inf, -math.inf, 1e308, math.inf],
    "None": [None, 0, None, False, ""],
    "str bytes": ["a", b"a", "b", "a", "", b""],
    "str subclass": ["a", MyStr("a"), "a"],
    "int subclass": [1, MyInt(1), Level.LOW, True, 1],
    "enum": [Color.RED, Color.BLUE, 1, Color.RED, Level.HIGH, 2],
    "dtype": [torch.float32, torch.float64, "torch.float32", torch.float32],
    "device": [torch.device("cpu"), torch.device("meta"), "cpu", torch.device("cpu", 0), torch.device("cpu")],
    "layout": [torch.strided, torch.sparse_coo, torch.preserve_format, torch.contiguous_format],
    "tuple": [(1, 2), (1, 2.0), [1, 2], (1, 2, 3), (), (1, 2), (True, 2)],
    "nested": [(1, (2, "a")), (1, (2, "b")), (1, [2, "a"]), (1, (2, "a"))],
    "dict": [{"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}, {"b": 1, "a": 1}, {}, {"a": True}],
    "dict keys": [{1: 1}, {True: 1}, {1.0: 1}, {"1": 1}, {None: 1}, {(1, 2): 1}, {Color.RED: 1}],
    "set": [{1, 2}, {2, 1}, {1, 3}, frozenset({1, 2}), set(), {1, 2, 3}],
    "kinds of dict": [{"a": 1}, collections.OrderedDict(a=1), collections.defaultdict(int, a=1), {"a": 1}],
    "slice": [slice(1), slice(1, 2), slice(None), slice(1), slice(0, 2, 1)],
    "range": [range(3), range(4), range(0, 3), range(0, 6, 2), range(3)],
    "size": [torch.Size([1, 2]), (1, 2), torch.Size([1, 3])],
    "type": [int, float, bool, int],
    "function": [math.sin, math.cos, len, math.sin],
    "ellipsis": [..., NotImplemented, None, ...],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_python_tells_apart(name):
    watched = Watched(names_the_type, recompile_limit=64)
    for value in VALUES[name]:
        watched(X, value)


@pytest.mark.parametrize("name", [name for name in VALUES if name not in ("function", "type", "layout")])
def test_values_below_containers_and_attributes(name):
    class Holder:
        pass

    holder = Holder()

    def fn(x, values, table):
        return names_the_type(x, values[0])[0], names_the_type(x, table["k"])[1], names_the_type(x, holder.value)

    watched = Watched(fn, recompile_limit=64)
    for value in VALUES[name]:
        holder.value = value
        watched(X, [value], {"k": value})


def arithmetic(x, v):
    return x * v, v * 2, v == 1, x + (1 if v else 2), math.copysign(1.0, v), 1 / v if v else 0


@pytest.mark.parametrize("name", ["int bool float", "zero false", "nan", "inf"])
def test_arithmetic_on_numbers_that_vary(name):
    watched = Watched(arithmetic, recompile_limit=64)
    for value in [2, 3, 4, 2.5, 3.5, *VALUES[name], *VALUES[name]]:
        watched(X, value)


def test_ints_beyond_64_bits():
    watched = Watched(lambda x, n: (x * (n % 7), n + 1, n.bit_length()), recompile_limit=64)
    for n in (5, 6, 2**40, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 2**100, 7):
        watched(X, n)


def test_an_int_that_becomes_a_bool_once_it_is_symbolic():
    watched = Watched(lambda x, n: (x * n, type(n).__name__), recompile_limit=64)
    for n in (2, 3, 4, True, False, 1, 0, 2.0, None and 1 or 5, MyInt(4), Level.HIGH):
        watched(X, n)


def test_a_list_mutated_between_calls():
    l = [1, 2, "a", None]
    fn = lambda x: x * len(l) + (l[0] or 0) + (3 if l[2] == "a" else 4)
    noticed(fn, (X,), lambda: l.__setitem__(0, 5))
    noticed(fn, (X,), lambda: l.append(1))
    noticed(fn, (X,), lambda: l.__setitem__(2, "b"))
    noticed(fn, (X,), lambda: l.reverse())
    watched = traced(fn, (X,))
    l.clear()
    assert isinstance(watched(X), IndexError)


def test_a_dict_mutated_between_calls():
    d = {"a": 1, "b": 2}
    fn = lambda x: sum(v * (i + 1) for i, v in enumerate(d.values())) * x + ("c" in d)
    noticed(fn, (X,), lambda: d.__setitem__("a", 7))
    noticed(fn, (X,), lambda: d.__setitem__("c", 1))
    noticed(fn, (X,), lambda: d.pop("b"))
    noticed(fn, (X,), lambda: d.__setitem__("a", d.pop("a")))  # the order of the keys
    noticed(fn, (X,), lambda: d.clear())


def test_a_dict_of_which_one_key_is_read():
    d = {"a": 1, "b": 2}
    fn = lambda x: x * d["a"]
    noticed(fn, (X,), lambda: d.__setitem__("a", 7))
    watched = traced(fn, (X,))
    d["z"] = 9
    watched(X)
    del d["b"]
    watched(X)


def test_a_set_mutated_between_calls():
    s = {1, 2}
    fn = lambda x: x * len(s) + (2 in s)
    noticed(fn, (X,), lambda: s.add(7))
    noticed(fn, (X,), lambda: s.discard(2))


def test_an_ordered_dict_whose_order_changes():
    d = collections.OrderedDict(a=1, b=2)
    noticed(lambda x: [x * v for v in d.values()], (X,), lambda: d.move_to_end("a"))


def test_a_default_factory_that_changes():
    d = collections.defaultdict(int, a=1)

    def fn(x):
        return x + d["a"], d.default_factory

    noticed(fn, (X,), lambda: setattr(d, "default_factory", float))


def test_a_deque_mutated_between_calls():
    d = collections.deque([1, 2], maxlen=3)
    watched = Watched(lambda x: x * d[0] + len(d))
    watched(X)
    d.appendleft(5)
    watched(X)
    d.append(7)
    watched(X)


def test_a_namedtuple_and_a_plain_tuple():
    Pair = collections.namedtuple("Pair", "a b")
    watched = Watched(lambda x, p: (x * p[0], type(p).__name__, p + (1,)))
    for pair in (Pair(1, 2), (1, 2), Pair(1, 3), Pair(2, 2)):
        watched(X, pair)


def test_a_field_of_a_namedtuple_that_becomes_another_one():
    Pair = collections.namedtuple("Pair", "a b")
    pair = Pair(1, 2)
    watched = Watched(lambda x: x * pair.a + Pair(5, 6).a)
    watched(X)
    watched(X)
    Pair.a = Pair.b
    watched(X)
    assert watched.traces == 2


def test_the_same_object_twice_and_two_objects():
    watched = Watched(lambda a, b: (a * b + (1 if a is b else 2), a is b))
    y = X.clone()
    for a, b in ((X, y), (X, X), (y, y), (y, X)):
        watched(a, b)


def test_the_same_tensor_twice_where_one_is_written():
    def fn(a, b):
        a.add_(1)
        return a + b

    compiled = Watched(fn).compiled
    for same in (False, True, False, True):
        a = torch.ones(3)
        b = a if same else torch.ones(3)
        result = compiled(a, b)
        assert result.tolist() == ([4.0] * 3 if same else [3.0] * 3)


def test_views_of_one_storage_where_one_is_written():
    def fn(a, b):
        a.add_(1)
        return a + b

    compiled = Watched(fn).compiled
    for shared in (False, True, False):
        base = torch.zeros(4)
        a, b = (base[:2], base[1:3]) if shared else (torch.zeros(2), torch.zeros(2))
        expected = [1.0, 1.0] if not shared else [2.0, 1.0]
        assert compiled(a, b).tolist() == expected


@pytest.mark.parametrize("write", [True, False])
def test_the_same_list_twice_and_two_lists(write):
    def fn(x, a, b):
        if write:
            a.append(1)
        return x * len(b), a is b, a == b

    plain, compiled = fn, Watched(fn).compiled
    for same in (False, True, False, True):
        lists = []
        for run in (plain, compiled):
            a = [1]
            b = a if same else [1]
            lists.append((run(X, a, b)[0].tolist(), a, b))
        assert lists[0] == lists[1]


def test_an_object_and_none():
    class Mask:
        by = 3

    watched = Watched(lambda x, m: x * m.by if m is not None else x)
    for mask in (None, Mask(), None, Mask()):
        watched(X, mask)


def test_a_tensor_and_none():
    watched = Watched(lambda x, m: x * m if m is not None else x + 1)
    for mask in (None, X, None, X * 2, 3):
        watched(X, mask)


def test_the_same_object_reached_by_two_ways_and_not():
    class Node:
        def __init__(self, value):
            self.value = value
            self.twin = self

    def fn(x, node):
        return x * node.value + (1 if node.twin is node else 2) + node.twin.value

    watched = Watched(fn)
    for twin in (None, Node(1), Node(5)):
        node = Node(1)
        node.twin = twin or node
        watched(X, node)


def test_dtype_and_device_arguments():
    watched = Watched(lambda x, dtype, device: torch.zeros(2, dtype=dtype, device=device) + x.to(dtype)[:2])
    for dtype in (torch.float32, torch.float64, torch.int64, torch.float32):
        watched(X, dtype, "cpu")
        watched(X, dtype, torch.device("cpu"))


def test_string_methods_and_format_on_strings_that_vary():
    watched = Watched(lambda x, s: x + (1 if s.startswith("a") else 2) * len(s.split(",")))
    for s in ("a,b", "b", "a,b,c", "a,b"):
        watched(X, s)


def test_arguments_by_position_by_name_and_by_default():
    def fn(x, a=1, *rest, b=2, **more):
        return x * a + b + len(rest) * 10 + sum(more.values()) * 100, sorted(more)

    watched = Watched(fn, recompile_limit=64)
    for args, kwargs in (
        ((), {}), ((1,), {}), ((), {"a": 1}), ((), {"b": 3}), ((1, 2), {}), ((1, 2, 3), {}), ((), {"c": 1}),
        ((), {"d": 1}), ((), {"c": 1, "d": 1}), ((), {"d": 1, "c": 1}), ((1.0,), {}),
    ):  # fmt: skip
        watched(X, *args, **kwargs)
        watched(X, *args, **kwargs)


def test_a_warm_call_with_an_argument_that_is_compared_by_user_code():
    class Hostile:
        calls = 0

        def __eq__(self, other):
            Hostile.calls += 1
            return True

        __hash__ = None

        def __len__(self):
            Hostile.calls += 1
            return 1

        def __bool__(self):
            Hostile.calls += 1
            return True

    watched = traced(lambda x, v: x * 2 if v == 1 else x, (X, 1))
    hostile = Hostile()
    watched.compiled(X, 1)
    Hostile.calls = 0
    expected = 1  # what plain Python asks
    watched.compiled(X, hostile)
    assert Hostile.calls == expected
