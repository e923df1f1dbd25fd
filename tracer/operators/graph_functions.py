"""Which functions of torch are operations of a graph."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.nested._internal import nested_tensor as jagged

_NAMESPACES = (torch.linalg, torch.fft, torch.special, torch._C._nn, torch._C._linalg, torch._C._fft, torch._C._special)
_NOT_OPERATIONS = frozenset(
    "assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary "
    "has_torch_function_variadic overload weak_script_method_ is_grad_enabled is_tensor set_module "
    # traced through: their arguments may be callables, or they look at data
    "triplet_margin_with_distance_loss gaussian_nll_loss linear_cross_entropy".split()
)
_METADATA = frozenset(
    "is_tensor is_floating_point is_complex is_nonzero is_inference is_signed is_conj is_neg is_same_size numel "
    "promote_types can_cast result_type get_device from_numpy frombuffer is_distributed _has_compatible_shallow_copy_type "
    "is_vulkan_available _is_zerotensor scalar_tensor_ _debug_has_internal_overlap equal allclose "
    "_use_cudnn_ctc_loss _cudnn_rnn_flatten_weight_ _nnpack_available _sync".split()
)
_QUANTISING = re.compile(r"quantize|quantized_|_make_per_|_empty_(per_channel_)?affine_quantized|int_repr|q_")  # fakes forget it
# The functions by which torch's own code makes nested tensors with the jagged layout. What calls them is traced through.
NESTED_TENSOR_MAKERS = frozenset(
    (
        jagged.nested_view_from_values_offsets,
        jagged.nested_view_from_values_offsets_lengths,
        jagged.nested_from_padded,
        torch._nested_view_from_jagged,
        torch._nested_from_padded_tensor,
    )
)
_PYTHON_MODULES = ("torch.nn.functional", "torch.functional", "torch._jit_internal", "torch._lowrank", "torch.linalg")


@functools.cache
def graph_operations() -> dict[int, Any]:
    """Operations by id. They live as long as torch does."""
    return {id(function): function for function in _operations()}


def _operations() -> Iterator[Any]:
    for name in dir(torch._C._VariableFunctions):
        if not name.startswith("__") and name not in _METADATA and not _QUANTISING.match(name):
            yield getattr(torch._C._VariableFunctions, name)
            if hasattr(torch, name):
                yield getattr(torch, name)
    yield from NESTED_TENSOR_MAKERS
    yield from (torch.sparse.mm, torch.sparse.addmm)
    yield torch.nested.to_padded_tensor
    for name in torch.functional.__all__:
        yield getattr(torch.functional, name)
    for name, function in vars(F).items():
        if _is_operation(name, function):
            yield function
    for namespace in _NAMESPACES:
        for name in dir(namespace):
            function = getattr(namespace, name)
            if _is_operation(name, function):
                yield function


def _is_operation(name: str, function: Any) -> bool:
    if name in _NOT_OPERATIONS or name in _METADATA or name.startswith("__"):
        return False
    if isinstance(function, types.BuiltinFunctionType):
        return True
    return isinstance(function, types.FunctionType) and (not name.startswith("_") and function.__module__ in _PYTHON_MODULES)
