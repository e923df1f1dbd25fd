"""Models of functions of `torch.utils._pytree`, for trees of lists, tuples and dicts around tensors and constants. They do not
read the registry of node types, so it need not be guarded. For other trees the functions are traced through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from tracer.library.class_checks import is_instance
from tracer.library.structures import containers_of, tracked
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, SequenceVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.values.constant import CONSTANT_TYPES, NONE, TRUE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _is_leaf(value: Value) -> bool:
    """Whether a value is of a class that nobody registers as a node type."""
    kind = value.python_type()
    return (kind in CONSTANT_TYPES or issubclass(kind, torch.Tensor)) and kind not in pytree.SUPPORTED_NODES


def _is_plain(tx: Tracer, value: Value) -> bool:
    kind = value.python_type()
    if isinstance(value, SequenceVariable) and kind in (list, tuple):
        return all(_is_plain(tx, item) for item in value.items(tx))
    if isinstance(value, DictVariable) and kind is dict:
        return all(key.is_constant() and _is_plain(tx, item) for key, item in value.pairs(tx))
    return _is_leaf(value)


@models(pytree.tree_is_leaf)
def _tree_is_leaf(tx: Tracer, tree: Value, is_leaf: Value = NONE) -> Value:
    if is_leaf.is_none() and _is_leaf(tree):
        return TRUE
    return tx.inline(_TREE_IS_LEAF, [tree, is_leaf], {})


@models(pytree.tree_leaves)
def _tree_leaves(tx: Tracer, tree: Value, is_leaf: Value = NONE) -> Value:
    if not is_leaf.is_none() or not _is_plain(tx, tree):
        return tx.inline(_TREE_LEAVES, [tree, is_leaf], {})
    return ListVariable(pytree.tree_leaves(containers_of(tx, tree)))


@models(pytree.tree_map)
def _tree_map(tx: Tracer, func: Value, tree: Value, *rests: Value, is_leaf: Value = NONE) -> Value:
    if rests or not is_leaf.is_none() or not _is_plain(tx, tree):
        return tx.inline(_TREE_MAP, [func, tree, *rests], {"is_leaf": is_leaf})
    return tracked(tx, containers_of(tx, tree), lambda leaf: func.call(tx, [leaf], {}))


@models(pytree.tree_map_only)
def _tree_map_only(tx: Tracer, kinds: Value, func: Value, tree: Value, is_leaf: Value = NONE) -> Value:
    classes = kinds.items(tx) if isinstance(kinds, TupleVariable) else [kinds]
    known = [each for each in classes if isinstance(each, ClassVariable)]
    if len(known) < len(classes) or not is_leaf.is_none() or not _is_plain(tx, tree):
        return tx.inline(_TREE_MAP_ONLY, [kinds, func, tree, is_leaf], {})

    def mapped(leaf: Value) -> Value:
        return func.call(tx, [leaf], {}) if any(is_instance(tx, leaf, cls) for cls in known) else leaf

    return tracked(tx, containers_of(tx, tree), mapped)


_TREE_IS_LEAF = as_written(pytree.tree_is_leaf)
_TREE_LEAVES = as_written(pytree.tree_leaves)
_TREE_MAP = as_written(pytree.tree_map)
_TREE_MAP_ONLY = as_written(pytree.tree_map_only)
