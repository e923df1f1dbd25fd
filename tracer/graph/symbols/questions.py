"""Questions of PyTorch about sizes that are answered without a guard. They are known by the code that asks them.

In C++ that is a file. In Python it is a function that calls `guard_or_false` or `guard_or_true`. For sizes that depend on data
such a function gets the default as its answer, so what it concludes from the default must be right for all sizes. The functions
below use the answer for the strides of a result only, or state what they assumed by `torch._check`, which becomes a guard.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shapes.relations import BoolExpr

#: Files of PyTorch's C++ that ask about sizes only to avoid building an expression. Whatever the answer is, what they conclude
#: holds for all sizes: "Not taking this branch could make this return False instead of True but not vice-versa". After a False
#: they build the expression.
ASKS_WITHOUT_NEED = ("c10/core/Contiguity.h", "ATen/EmptyTensor.cpp")

_OF_LAYOUT = {  # file -> functions, including functions that are defined inside of these
    "_prims_common/__init__.py": (
        "check_contiguous_sizes_strides",
        "is_contiguous",
        "is_channels_last_contiguous_2d",
        "is_channels_last_contiguous_3d",
        "_is_non_overlapping_and_dense_or_false",
        "are_strides_like_channels_last_or_false",
        "compute_elementwise_output_logical_to_physical_perm",
    ),
    "_prims/__init__.py": ("_broadcast_in_dim_meta",),  # checks that sizes that are not broadcast are equal
    "_refs/__init__.py": ("_broadcast_shapes", "_maybe_broadcast"),  # the same
    "_subclasses/fake_impls.py": ("infer_size", "make_fast_binary_impl"),  # the same
    "_decomp/decompositions.py": ("matmul", "should_fold"),  # whether one is computed as a product of two matrices or of many
    "_meta_registrations.py": (
        "meta_index_Tensor",  # whether there are no elements, so that strides need not be found
        "scatter_gather_dtype_check",  # whether there are indices, whose dtype is to be checked
        "scatter_shape_check",  # whether there are indices; else their sizes are checked
    ),
}
# In which order the dims are looked at to find out whether a tensor has no gaps. That is checked then, whatever the order.
_ORDER = ("_prims_common/__init__.py", "K.__lt__")
# Whether a tensor has other sizes than a result. One that has the same may be expanded, too; one that has others has to be.
_EXPANDS = ("_refs/__init__.py", "_maybe_broadcast")


def answer(asker: CodeType, condition: BoolExpr, default: bool) -> bool | None:
    """The answer that a function of PyTorch gets without a guard; None if the question needs a guard."""
    found = asker.co_filename.rpartition("/torch/")[2], asker.co_qualname.partition(".<locals>")[0]
    if found == _ORDER:
        return condition.hint
    if found == _EXPANDS and condition.kind == "ne":
        return condition.hint or None
    return default if condition.hint is default and found[1] in _OF_LAYOUT.get(found[0], ()) else None
