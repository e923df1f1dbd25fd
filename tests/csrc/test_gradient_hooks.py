"""Hooks of gradients that C reads off nodes of autograd's graph."""

from __future__ import annotations

import pytest
import torch

from tracer._C import has_gradient_hooks


def nodes():
    """(a tensor, the node that its gradient comes to): of a leaf, of what an operator made, of what a Function made."""
    leaf = torch.ones(2, requires_grad=True)
    made = leaf * 2

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    of_function = Double.apply(leaf)
    return [(leaf, made.grad_fn.next_functions[0][0]), (made, made.grad_fn), (of_function, of_function.grad_fn)]


def test_hooks_of_tensors_are_seen_as_long_as_they_are_there():
    for tensor, node in nodes():
        assert not has_gradient_hooks(node)
        handle = tensor.register_hook(lambda gradient: gradient)
        assert has_gradient_hooks(node)
        del tensor
        assert has_gradient_hooks(node)
        handle.remove()


def test_hooks_of_nodes_are_seen():
    for _, node in nodes()[1:]:
        node.register_prehook(lambda gradients: gradients)
        assert has_gradient_hooks(node)


def test_what_is_no_node_is_refused():
    with pytest.raises(TypeError, match="takes a node of autograd's graph, not Tensor"):
        has_gradient_hooks(torch.ones(2))
