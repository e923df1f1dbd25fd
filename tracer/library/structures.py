"""Arguments and results of traced calls as Python containers with tracked leaves, which `torch.utils._pytree` can flatten."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from tracer.graph_breaks import unsupported
from tracer.operators.proxies import SYM_TYPES
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, NamedTupleVariable, SequenceVariable, TupleVariable
from tracer.variables.containers.tuples import is_named_tuple
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import is_constant_value
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_MAPPINGS = (dict, collections.OrderedDict)


def containers_of(tx: Tracer, value: VariableTracker) -> Any:
    """The containers of a value, with `VariableTracker`s for leaves."""
    kind = value.python_type()
    if isinstance(value, SequenceVariable) and kind in (list, tuple):
        return kind(containers_of(tx, item) for item in value.items(tx))
    if isinstance(value, NamedTupleVariable) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, [containers_of(tx, item) for item in value.items(tx)])
    if isinstance(value, NamedTupleVariable):
        return kind([containers_of(tx, item) for item in value.items(tx)])
    if isinstance(value, DictVariable) and kind in _MAPPINGS:
        return kind((key.constant(), containers_of(tx, item)) for key, item in value.pairs(tx))
    if kind in pytree.SUPPORTED_NODES:
        unsupported("not-a-graph-argument", value=f"{value.describe()}, a container")
    return value


def tracked(tx: Tracer, structure: Any, leaf: Callable[[Any], VariableTracker]) -> VariableTracker:
    """The tracked form of containers; `leaf` makes the tracked form of each leaf."""
    kind = type(structure)
    if kind is list:
        return ListVariable([tracked(tx, item, leaf) for item in structure])
    if kind is tuple:
        return TupleVariable([tracked(tx, item, leaf) for item in structure])
    if kind in _MAPPINGS:
        pairs = [(tx.literal(key), tracked(tx, item, leaf)) for key, item in structure.items()]
        return DictVariable({key.hash_key(tx): (key, item) for key, item in pairs}, cls=kind)
    if isinstance(structure, tuple) and is_named_tuple(kind):
        return NamedTupleVariable([tracked(tx, item, leaf) for item in structure], kind)
    return leaf(structure)


def example_of_leaf(leaf: VariableTracker) -> Any:
    """The value that operations on fakes get for a leaf; a leaf that cannot be a value of a graph is returned itself."""
    if isinstance(leaf, TensorVariable):
        return leaf.fake
    if isinstance(leaf, SymNodeVariable):
        return leaf.example
    return leaf.constant() if leaf.is_constant() else leaf


def fakes_of(structure: Any) -> Any:
    """Containers with tracked leaves as operations on fakes get them."""
    if isinstance(structure, (list, tuple)):
        return type(structure)(fakes_of(item) for item in structure)
    if isinstance(structure, dict):
        return {key: fakes_of(item) for key, item in structure.items()}
    example = example_of_leaf(structure)
    if isinstance(example, VariableTracker):
        unsupported("not-a-graph-argument", value=structure.describe())
    return example


def argument_of_leaf(leaf: VariableTracker) -> Any:
    """The argument of a node for a leaf; None for a leaf that cannot be a value of a graph."""
    if isinstance(leaf, (TensorVariable, SymNodeVariable)):
        return leaf.node
    if not leaf.is_constant():
        return None
    return leaf.graph_arg() if is_constant_value(leaf.constant()) else None


def is_value_of_graph(example: Any) -> bool:
    return isinstance(example, (torch.Tensor, *SYM_TYPES))
