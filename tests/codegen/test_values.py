"""Values that leave the frame: each one that the trace made is made once, and they refer to each other as in CPython."""

from __future__ import annotations

import collections
import functools

import pytest
import torch

import tracer
from tests.support import breaks, captured, captured_made

X = torch.ones(3)


class Node:
    def __init__(self, value):
        self.value = value

    def read(self):
        return self.value


def one_list_in_three_places(x):
    items = [x + 1]
    return items, {"again": items}, (items,)


def a_list_that_holds_itself(x):
    items = [x + 1]
    items.append(items)
    return items


def objects_that_hold_one_another(x):
    left, right = Node(x), Node(x + 1)
    left.other, right.other = right, left
    return left


def a_dict_that_is_a_value_of_its_own_item(x):
    table = {"x": x + 1}
    table["rows"] = [table, (table,)]
    return table


def containers_of_the_standard_library(x):
    counted = collections.Counter("aab")
    queue = collections.deque([x + 1, counted], maxlen=3)
    grouped = collections.defaultdict(list, {"queue": [queue]})
    return grouped, collections.OrderedDict(b=queue, a=counted)


def functions_that_share_a_cell(x):
    value = x + 1

    def read():
        return value

    def write(new):
        nonlocal value
        value = new

    return read, write, functools.partial(write, x)


def an_iterator_half_way(x):
    items = [x, x + 1, x + 2]
    iterator = iter(items)
    next(iterator)
    return iterator, items, zip(items, range(3))


def a_method_and_its_object(x):
    node = Node(x + 1)
    return node.read, [node], node


MAKERS = (
    one_list_in_three_places, a_list_that_holds_itself, objects_that_hold_one_another, a_dict_that_is_a_value_of_its_own_item,
    containers_of_the_standard_library, functions_that_share_a_cell, an_iterator_half_way, a_method_and_its_object,
)  # fmt: skip


@pytest.mark.parametrize("program", MAKERS)
def test_what_the_trace_makes_leaves_the_frame_in_one_piece(program):
    captured(program, X)


def test_an_argument_that_is_returned_is_the_argument():
    def fn(x, items, node):
        return items, [node, items], x + 1

    def make():
        items = [1, 2]
        return (X.clone(), items, Node(items)), {}

    captured_made(fn, make)


def test_a_tensor_that_is_returned_twice_is_one_tensor():
    def fn(x):
        y = x + 1
        return y, [y], y.view(-1), y

    captured(fn, X)


class HashedByAttribute(list):
    def __init__(self, items):
        self[:] = items
        self.number = len(items)

    def __hash__(self):
        return self.number


def test_a_key_has_its_attributes_before_it_is_hashed_in_a_dict_of_another_cell():
    def f(x):
        cache, last = {}, []
        last[:] = [last, None]

        def cached(*args):
            key = HashedByAttribute(args)
            if key in cache:
                return cache[key][2]
            cache[key] = last[1] = [last, key, x + len(args)]
            return cache[key][2]

        one = cached(1, 2)
        tracer.graph_break()
        return one, cached(1, 2), cached(1), len(cache)

    breaks(f, X)


class Named:
    def __init__(self, container):
        self.container = container
        self.name = "a"

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


def _dict_of(item, x):
    item.container[item] = x


def _set_of(item, x):
    item.container.add(item)


@pytest.mark.parametrize(
    "make, store",
    [
        (dict, _dict_of),
        (collections.OrderedDict, _dict_of),
        (lambda: collections.defaultdict(list), _dict_of),
        (type("Dict", (dict,), {}), _dict_of),
        (set, _set_of),
        (type("Set", (set,), {}), _set_of),
    ],
)
def test_an_object_that_its_own_container_hashes(make, store):
    def f(x):
        item = Named(make())
        store(item, x + 1)
        return item

    result = tracer.compile(f)(X)
    assert [*result.container] == [result] and result in result.container
    assert [*vars(result)] == ["container", "name"]


def test_a_dict_of_what_a_key_holds_itself():
    def f(x):
        item = Named(None)
        item.container = [item]
        return {(item, 1): x + 1}

    result = tracer.compile(f)(X)
    ((item, one),) = result
    assert item.container == [item] and torch.equal(result[item, one], X + 1)


class Child:
    def __init__(self, number, parent=None):
        self.children = set()
        self.parent = parent
        self.number = number
        if parent is not None:
            parent.children.add(self)

    def __hash__(self):
        return hash((self.number, self.parent and self.parent.number))


def test_a_tree_whose_nodes_are_in_the_sets_of_their_parents():
    def f(x):
        root = Child(0)
        first, second = Child(1, root), Child(2, root)
        root.data = x + 1
        return Child(3, first), second

    leaf, second = tracer.compile(f)(X)
    root = leaf.parent.parent
    assert root.children == {leaf.parent, second} and leaf.parent.children == {leaf}
    assert torch.equal(root.data, X + 1)


def test_a_frozenset_of_an_object_that_holds_it_breaks():
    def f(x):
        item = Named(None)
        item.container = [frozenset([item])]
        tracer.graph_break()
        return item in item.container[0], x + 1

    breaks(f, X)


def test_an_iterator_over_a_dict_of_an_object_that_holds_itself():
    def f(x):
        item = Named(None)
        item.container = [item]
        iterator = iter({item: x})
        tracer.graph_break()
        return len(list(iterator)), x + 1

    breaks(f, X)
