"""Operators that may raise when the graph runs although they passed on fake tensors: the data decides (an index out of
range, a singular matrix, an integer divided by zero), or the kernel refuses more than the fake form (`rsub` of a bool).
What mixes dtypes may fail too: `dtype_refusals`."""

from __future__ import annotations

import functools
from typing import Any

# Names of aten operators without their overload and the underscore of in-place forms.
_DATA_DECIDES = frozenset(
    "index index_put _index_put_impl _unsafe_index index_select index_add index_copy index_fill index_reduce gather scatter "
    "scatter_add scatter_reduce take put take_along_dim embedding embedding_bag _embedding_bag embedding_renorm "
    "_embedding_bag_forward_only nll_loss nll_loss_forward nll_loss2d_forward nll_loss_nd multi_margin_loss "
    "multilabel_margin_loss_forward cross_entropy_loss binary_cross_entropy ctc_loss _ctc_loss one_hot multinomial bernoulli "
    "binomial poisson normal bincount histc repeat_interleave masked_scatter masked_select max_unpool2d max_unpool3d "
    "segment_reduce div floor_divide remainder fmod inverse cholesky cholesky_inverse linalg_cholesky linalg_inv linalg_solve "
    "linalg_eigh linalg_svd linalg_qr linalg_lstsq _linalg_check_errors _linalg_eigh _linalg_svd _linalg_det "
    "_linalg_solve_ex lu_unpack triangular_solve _assert_async _assert_scalar _assert_tensor_metadata item "
    "_local_scalar_dense equal to_dense rsub sparse_coo_tensor nonzero_static searchsorted bucketize split_with_sizes".split()
)


@functools.cache
def may_fail_on_data(func: Any) -> bool:
    """Whether an operator (an OpOverload) may raise because of what its tensors hold; custom ones may."""
    schema = getattr(func, "_schema", None)  # higher-order operators have none
    if schema is None:
        return True
    namespace, _, name = schema.name.partition("::")
    return namespace not in ("aten", "prims") or name.rstrip("_") in _DATA_DECIDES
