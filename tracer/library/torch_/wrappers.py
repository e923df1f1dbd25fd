"""Models of torch's functions that the `__torch_dispatch__` and the constructor of a wrapper subclass call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves

from tracer.graph.fakes.wrapper_fakes import wrapper_fake
from tracer.graph_breaks import unsupported
from tracer.library.structures import containers_of, example_of_leaf, fakes_of, tracked
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.lists import SequenceVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import WrapperVariable, is_wrapper_class

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_OPTIONS = ("strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory", "requires_grad")


@models(torch.Tensor._make_wrapper_subclass)
def _make_wrapper_subclass(tx: Tracer, cls: Value, size: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassVariable) or not is_wrapper_class(cls.value) or not tx.output.traces_wrapper:
        unsupported("tensor-subclass", cls=cls.describe(), source="_make_wrapper_subclass")
    given = {**dict(zip(_OPTIONS, args)), **kwargs}
    if len(args) > len(_OPTIONS) or not given.keys() <= set(_OPTIONS):
        unsupported("tensor-subclass", cls=cls.value.__qualname__, source="_make_wrapper_subclass with these options")
    options = {key: _plain(tx, value) for key, value in given.items()}
    if options.get("layout", torch.strided) is not torch.strided:
        unsupported("tensor-subclass", cls=cls.value.__qualname__, source="a layout that is not strided")
    sizes = _plain(tx, size)
    mode = tx.output.world.fake_mode
    fake = tx.output.run_fake(lambda: wrapper_fake(mode, cls.value, sizes, **options), (), {}, "_make_wrapper_subclass")
    node = tx.output.create_node("call_function", torch.Tensor._make_wrapper_subclass, (), {}, fake, pure=True)
    made = WrapperVariable(node, fake, None, cls.value)
    tx.output.track(fake, made)
    tx.effects.mutate(made)
    tx.trace.overrides.note_class(cls.value)
    return made


def _plain(tx: Tracer, value: Value) -> Any:
    if isinstance(value, SequenceVariable):
        return tuple(example_of_leaf(item) for item in value.items(tx))
    return example_of_leaf(value)


@models(return_and_correct_aliasing)
def _return_and_correct_aliasing(tx: Tracer, func: Value, args: Value, kwargs: Value, out: Value) -> Value:
    """Runs torch's function on fakes: it makes results share memory with the arguments, or returns the arguments themselves."""
    if not tx.output.traces_wrapper:
        unsupported("unsupported-builtin", function="return_and_correct_aliasing")
    operator, given = func.identity(), [containers_of(tx, value) for value in (args, kwargs, out)]
    kinds = {leaf.python_type() for leaf in tree_leaves(given) if isinstance(leaf, WrapperVariable)}
    plain = any(isinstance(leaf, TensorVariable) and not isinstance(leaf, WrapperVariable) for leaf in tree_leaves(given[2]))
    if len(kinds) != 1 or plain:  # torch asserts that a view has the class of its base
        unsupported("unsupported-builtin", function="return_and_correct_aliasing of several kinds of tensors")
    result = tx.output.run_fake(return_and_correct_aliasing, (operator, *map(fakes_of, given)), {}, operator)
    known = {id(example_of_leaf(leaf)): leaf for leaf in tree_leaves(given) if isinstance(leaf, TensorVariable)}
    return tracked(tx, result, lambda leaf: known[id(leaf)] if id(leaf) in known else tx.literal(leaf))
