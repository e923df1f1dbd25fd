"""Functions of `torch.utils._pytree` on trees that programs pass around."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.support import captured, check

X = torch.arange(6.0).reshape(2, 3)


class Pair(NamedTuple):
    first: Any
    second: Any


class Leaf:
    def __init__(self, value: Any) -> None:
        self.value = value


def _grow(tree: Any) -> Any:
    """Changes the tree while it is mapped."""
    copy = [tree[0], list(tree[1])]

    def grow(leaf: Any) -> Any:
        copy.append(leaf)
        return leaf

    return pytree.tree_map(grow, copy), len(copy)


def _fails(tree: Any) -> Any:
    seen = []

    def fail(leaf: Any) -> Any:
        seen.append(leaf)
        return [].pop() if leaf == 3 else leaf

    try:
        pytree.tree_map(fail, (1, [2, 3], 4))
    except IndexError as error:
        return str(error), seen, tree[0] * 2


PROGRAMS = {
    "map": lambda tree: pytree.tree_map(lambda leaf: leaf * 2 if isinstance(leaf, torch.Tensor) else leaf, tree),
    "map of tensors": lambda tree: pytree.tree_map_only(torch.Tensor, lambda leaf: leaf + 1, tree),
    "map of several kinds": lambda tree: pytree.tree_map_only((torch.Tensor, str), lambda leaf: [leaf], tree),
    "map of what a function says": lambda tree: pytree.tree_map_only(lambda leaf: leaf is None, lambda leaf: 0, tree),
    "map of two": lambda tree: pytree.tree_map(lambda one, other: (one, other), tree, tree),
    "leaves": lambda tree: [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)][0] * 2,
    "leaves, as a function says": lambda tree: (pytree.tree_leaves(tree, is_leaf=lambda node: isinstance(node, list)), X + 1),
    "apart and together": lambda tree: pytree.tree_unflatten(*pytree.tree_flatten(tree)),
    "questions": lambda tree: (pytree.tree_is_leaf(tree), pytree.tree_is_leaf(tree[0]), pytree.tree_is_leaf(None), tree[0] + 1),
}
PROGRAMS |= {f.__name__: f for f in (_grow, _fails)}
TREES = {
    "lists and tuples": lambda: (X.clone(), [X + 1, (2, None)], "text"),
    "dicts": lambda: [X.clone(), {"b": X + 1, "a": [2.5, {}]}],
    "others": lambda: (X.clone(), [Pair(X + 1, 2), collections.OrderedDict(z=1, y=X + 2), collections.deque([3])]),
    "objects": lambda: [X.clone(), [Leaf(X)], range(3)],
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_trees_are_taken_apart_as_in_python(name: str, tree: str) -> None:
    assert not check(PROGRAMS[name], TREES[tree]()).breaks


def test_nothing_is_guarded_of_how_torch_takes_plain_trees_apart() -> None:
    seen = captured(lambda x: pytree.tree_map(lambda leaf: leaf * 2, [x, (x + 1, {"a": x})]), X)
    assert not any("SUPPORTED_NODES" in line for guard in seen.guards for line in guard.lines())


def test_a_kind_of_node_that_is_registered_later_is_noticed() -> None:
    from tracer import optimize

    class Registered:
        def __init__(self, value: Any) -> None:
            self.value = value

    program = lambda x, box: pytree.tree_map(lambda leaf: isinstance(leaf, torch.Tensor), [x * 2, box])[1]
    run = optimize("eager")(program)
    assert run(X, Registered(X)) is program(X, Registered(X)) is False
    pytree.register_pytree_node(Registered, lambda box: ([box.value], None), lambda values, _: values[0])
    try:
        assert run(X, Registered(X)) is program(X, Registered(X)) is True
    finally:
        pytree._deregister_pytree_node(Registered)


def test_results_with_named_fields_are_taken_apart_and_made_again():
    def fn(x):
        leaves, spec = pytree.tree_flatten(torch.sort(x, 1))
        doubled = pytree.tree_map(lambda leaf: leaf * 2, x.max(dim=0))
        return pytree.tree_unflatten([leaf + 1 for leaf in leaves], spec), doubled, torch.return_types.max((x, x)).indices

    captured(fn, X)


def test_a_result_with_named_fields_of_too_few_items_is_the_error_of_torch():
    check(lambda x: torch.return_types.max((x + 1,)), X)
