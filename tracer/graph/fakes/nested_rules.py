"""What runs on fakes in the place of those functions of torch that make nested tensors with the strided layout on the way. Such
tensors have no fakes, so that compilers cannot compile these functions. As of a rule under `operators.meta`, the result has the
metadata and the autograd state of the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nested._internal import sdpa
from torch.nested._internal.nested_tensor import nested_view_from_values_offsets_lengths

from tracer.graph.fakes.nested_fakes import is_nested


def nested_form(function: Any, as_written: bool) -> Any:
    """What to run on fakes for a function that is called with nested tensors, or wrappers. `as_written`: the graph will call the
    function itself; a compiler could not."""
    try:
        return _RULES.get(function, function) if as_written else function
    except TypeError:  # not hashable
        return function


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention by separate matrix products, for which torch converts its operands to the strided layout."""
    options = (attn_mask, dropout_p, is_causal)
    if not all(map(is_nested, (query, key, value))) or (query.dim() > 3 and query._ragged_idx == 1):
        return F.scaled_dot_product_attention(query, key, value, *options, scale=scale, enable_gqa=enable_gqa)
    sdpa._validate_sdpa_input(query, key, value, *options, scale)
    cast = sdpa._autocast(query, key, value, attn_mask)
    chosen = sdpa._select_sdp_backend(*cast, dropout_p, is_causal, enable_gqa)
    if chosen is not torch.nn.attention.SDPBackend.MATH:
        return F.scaled_dot_product_attention(query, key, value, *options, scale=scale, enable_gqa=enable_gqa)
    of_query, of_key, of_value = (each.transpose(1, 2).values() for each in cast[:3])
    of_each_row = of_query.sum(-1, keepdim=True) + of_key.sum() + of_value.sum()
    result = of_each_row.expand(*of_each_row.shape[:-1], of_value.shape[-1]).contiguous()
    result = F.dropout(result, dropout_p) if dropout_p else result
    seqlens = {"min_seqlen": query._maybe_min_seqlen, "max_seqlen": query._maybe_max_seqlen}
    return nested_view_from_values_offsets_lengths(result, query.offsets(), query.lengths(), **seqlens).transpose(1, 2)


_RULES: dict[Any, Callable[..., Any]] = {F.scaled_dot_product_attention: _attention}
