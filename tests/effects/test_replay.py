"""Effects of the traced program are replayed once, after the graph, with the values that they had in the trace."""

from __future__ import annotations

import collections

import pytest
import torch

from tests.support import captured_made

X = torch.ones(3)
COUNT = 0


class Node:
    def __init__(self, value=None):
        self.value = value


def exchanged(x, a, b, node, table):
    a[:], b[:] = list(b), list(a)
    return x + len(a)


def moved_from_one_to_the_other(x, a, b, node, table):
    b.append(a.pop(0))
    table["popped"] = b
    node.value = a
    return x + 1


def filled_with_one_another(x, a, b, node, table):
    a.append(b)
    b.append(a)
    table[0] = node
    node.value = table
    return x * 2


def read_before_it_was_changed(x, a, b, node, table):
    before = list(a), dict(table), node.value
    a.clear()
    table.clear()
    node.value = before
    return x + 1, before


def changed_and_changed_back(x, a, b, node, table):
    item = a.pop()
    a.append(item)
    node.value, kept = 5, node.value
    node.value = kept
    return x + 1


def tensors_of_the_graph_in_containers(x, a, b, node, table):
    y = x * 2
    a[0] = y
    table["y"] = [y, y + 1]
    node.value = y.sum()
    return y


def new_objects_that_hold_the_arguments(x, a, b, node, table):
    made = Node([a, table])
    node.value = made
    table["made"] = collections.deque([made, node])
    return x + 1, made


def a_global(x, a, b, node, table):
    global COUNT
    COUNT = COUNT + len(a)
    a.append(COUNT)
    return x + COUNT


PROGRAMS = (
    exchanged, moved_from_one_to_the_other, filled_with_one_another, read_before_it_was_changed, changed_and_changed_back,
    tensors_of_the_graph_in_containers, new_objects_that_hold_the_arguments, a_global,
)  # fmt: skip


def make():
    return (X.clone(), [1, 2, 3], ["b"], Node("before"), {"k": 1, "l": 2}), {}


def reset():
    global COUNT
    COUNT = 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_are_left_as_cpython_leaves_them(program):
    captured_made(program, make, reset=reset)


def test_an_argument_reached_by_two_names_is_changed_as_one():
    def fn(x, a, b):
        a.append(1)
        b.append(2)
        return x + len(a), a is b

    def same():
        items = []
        return (X.clone(), items, items), {}

    captured_made(fn, same)


def test_a_replay_happens_once_where_the_graph_fails():
    def fn(x, items):
        items.append(1)
        return torch.linalg.inv(x), items

    checked = captured_made(fn, lambda: ((torch.zeros(2, 2), []), {}), calls=2)
    assert isinstance(checked.error, torch.linalg.LinAlgError) and checked.raised
