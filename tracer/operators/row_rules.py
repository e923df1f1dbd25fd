"""For each operator: where the rows of its results are, if rows of its inputs do not mix.

`graph.independent_rows`, which says what rows are, runs a graph and asks `rows_after` of each call in it. An operator without a
rule is refused; so is one that draws random numbers or writes into its inputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.utils._pytree import tree_leaves

from tracer.operators.facts import facts_of


class Dependent(Exception):
    """Raised if it cannot be proved that rows do not depend on each other."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Where the rows of a tensor are: along `dim`, of size batch times `block`, where each row has `block` adjacent places.

    `own`: every element of a row is that row's number, as in `arange(batch)`. Such a tensor may index the rows of another."""

    dim: int
    block: Any = sympy.Integer(1)
    own: bool = False

    def at(self, dim: int) -> Rows:
        return dataclasses.replace(self, dim=dim)


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """One call of an operator, its arguments by name, and what it gave. `tracker` (of `graph.independent_rows`) knows the rows
    and the sizes of each tensor."""

    func: Any
    arguments: dict[str, Any]
    results: list[torch.Tensor]
    tracker: Any

    @classmethod
    def of(cls, func: Any, args: Sequence[Any], kwargs: dict[str, Any], results: list[torch.Tensor], tracker: Any) -> Call:
        if not isinstance(func, torch._ops.OpOverload):
            raise Dependent(f"there is no rule for {func}")
        names = [argument.name for argument in func._schema.arguments]
        defaults = {arg.name: arg.default_value for arg in func._schema.arguments if arg.has_default_value()}
        return cls(func, {**defaults, **dict(zip(names, args)), **kwargs}, results, tracker)

    @property
    def name(self) -> str:
        return str(self.func._schema.name)

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in tree_leaves(list(self.arguments.values())) if isinstance(leaf, torch.Tensor)]

    def rows(self, value: Any) -> Rows | None:
        return self.tracker.known(value) if isinstance(value, torch.Tensor) else None

    def sizes(self, tensor: torch.Tensor) -> list[Any]:
        found: list[Any] = self.tracker.sizes(tensor)
        return found

    def refuse(self, why: str) -> Dependent:
        """The error to raise where rows may depend on each other. `why` follows the name of the operator in its message."""
        return Dependent(f"{self.name} {why}")

    def only(self, *names: str) -> None:
        """Refuses the call if any other argument has rows."""
        allowed = {id(self[name]) for name in names}
        for tensor in self.tensors():
            if id(tensor) not in allowed and self.rows(tensor) is not None:
                raise self.refuse("has rows where none are expected")


Rule = Callable[[Call, Rows], Any]  # -> Rows of the one result, or a list of them
RULES: dict[str, Rule] = {}
_SHAPES_ONLY: set[str] = set()  # operators with arguments that may be numbers that grow with the batch; their rules check which


def rule(*names: str, sizes: bool = False) -> Callable[[Rule], Rule]:
    """The rule of operators of ATen, by name. The Rows that it is given are those of the first argument with rows. `sizes`: their
    arguments may be numbers that grow with the batch."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[f"aten::{name}"] = function
            if sizes:
                _SHAPES_ONLY.add(f"aten::{name}")
        return function

    return register


def rows_after(call: Call) -> list[Rows | None]:
    """The rows of each tensor that the call gave; None of one that has none. Raises Dependent for what is not proved."""
    if not call.results and call.name in _OF_LAYOUT:
        return []
    facts = facts_of(call.func)
    if facts.random and RULES.get(call.name) is not _attention:
        raise call.refuse("draws random numbers: those of a row change with the batch")
    if facts.writes or facts.statistics:
        raise call.refuse("writes into its input")
    first = next((rows for tensor in call.tensors() if (rows := call.rows(tensor)) is not None), None)
    if first is None or call.name.startswith("aten::new_"):
        return [_made_of_sizes(call, result) for result in call.results]
    if call.name not in _SHAPES_ONLY and any(map(call.tracker.grows, tree_leaves(list(call.arguments.values())))):
        raise call.refuse("computes with the batch size")
    found = RULES.get(call.name)
    if found is None and facts.elementwise:
        found = _pointwise
    if found is None:
        raise call.refuse("has no rule that says that rows do not depend on each other")
    given = found(call, first)
    after = given if isinstance(given, list) else [given] * len(call.results)
    return after if call.name in _MOVES else [None if rows is None else Rows(rows.dim, rows.block) for rows in after]


def _made_of_sizes(call: Call, result: torch.Tensor) -> Rows | None:
    """The rows of a result whose arguments have none, but one of whose sizes grows with the batch: constants, or the numbers of
    the rows. None if neither its sizes nor the numbers among the arguments depend on the batch."""
    grown = [dim for dim, size in enumerate(call.sizes(result)) if call.tracker.batch in size.free_symbols]
    numbers = any(map(call.tracker.grows, tree_leaves(list(call.arguments.values()))))
    if not numbers and not grown:
        return None
    counts = call.name == "aten::arange"
    if len(grown) != 1 or not (counts or call.name in _CONSTANT) or call.tracker.grows(call["fill_value"]):
        raise call.refuse("makes a tensor of the batch size")
    if (call["start"] or 0) != 0 or (call["step"] or 1) != 1:
        raise call.refuse("makes a tensor of the batch size")
    block = sympy.cancel(call.sizes(result)[grown[0]] / call.tracker.batch)
    return Rows(grown[0], block, counts and block == 1)


_OF_LAYOUT = {"prim::device", "prim::layout", "aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::is_contiguous"}
_CONSTANT = {f"aten::{name}" for name in ("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "expand", "slice")}
_MOVES = {f"aten::{name}" for name in ("view", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand",
                                       "slice", "alias", "detach", "clone")}  # fmt: skip


def _dim(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def _dims(call: Call, value: Any, rank: int) -> set[int]:
    """Dims that are reduced; all of them for None and ()."""
    if value is None or value == [] or value == ():
        return set(range(rank))
    return {_dim(dim, rank) for dim in ([value] if isinstance(value, int) else value)}


def _input(call: Call) -> torch.Tensor:
    """The first argument; refuses the call if another one has rows."""
    first = call.tensors()[0]
    if call.rows(first) is None or any(call.rows(other) is not None for other in call.tensors() if other is not first):
        raise call.refuse("has rows where none are expected")
    return first


# -- element by element ------------------------------------------------------------------------------------------------


@rule("copy")
def _pointwise(call: Call, rows: Rows) -> Rows:
    """Operands are aligned at their last dims: rows have to meet rows, or a size of 1."""
    distance, block = _aligned(call, call.tensors())
    return Rows(call.results[0].dim() - distance, block)


def _aligned(call: Call, tensors: list[torch.Tensor]) -> tuple[int, Any]:
    """How far from the last dim the rows are of tensors that are broadcast, some of which have rows; and their block."""
    from_right = None
    for tensor in tensors:
        own = call.rows(tensor)
        if own is not None:
            here = tensor.dim() - own.dim, own.block
            if from_right not in (None, here):
                raise call.refuse("combines rows at different dims")
            from_right = here
    assert from_right is not None
    distance = from_right[0]
    for tensor in tensors:
        if call.rows(tensor) is None and tensor.dim() >= distance and call.sizes(tensor)[-distance] != 1:
            raise call.refuse("combines rows with a tensor that has as many elements and no rows")
    return from_right


@rule("zeros_like", "ones_like", "full_like", "alias", "detach", "clone", "lift_fresh", "lift_fresh_copy", "contiguous")
def _like(call: Call, rows: Rows) -> Rows:
    return rows


# -- along dims --------------------------------------------------------------------------------------------------------


@rule("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "prod", "any", "all", "argmax", "argmin", "linalg_vector_norm",
      "norm", "max", "min", "median", "var_mean", "std_mean")  # fmt: skip
def _reduction(call: Call, rows: Rows) -> Rows:
    x = _input(call)
    reduced = _dims(call, call["dim"], x.dim())
    if rows.dim in reduced:
        raise call.refuse("reduces over the rows")
    if call.results[0].dim() == x.dim():
        return rows
    return rows.at(rows.dim - sum(dim < rows.dim for dim in reduced))


@rule("_softmax", "_log_softmax", "cumsum", "cumprod", "sort", "topk", "flip", "roll", "_safe_softmax", "logcumsumexp", "glu",
      "cummax")  # fmt: skip
def _along(call: Call, rows: Rows) -> Rows:
    x = _input(call)
    name = "dims" if call["dims"] is not None else "dim"
    if rows.dim in _dims(call, call[name], x.dim()):
        raise call.refuse("goes along the rows")
    return rows


@rule("native_layer_norm", "_fused_rms_norm")
def _layer_norm(call: Call, rows: Rows) -> Rows:
    x = _input(call)
    if rows.dim >= x.dim() - len(call["normalized_shape"]):
        raise call.refuse("goes along the rows")
    return rows


@rule("native_group_norm", sizes=True)
def _group_norm(call: Call, rows: Rows) -> Rows:
    _input(call)
    return _first(call, rows)


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(call: Call, rows: Rows) -> list[Rows | None]:
    _input(call)
    return [_first(call, rows), *[None] * (len(call.results) - 1)]


def _first(call: Call, rows: Rows) -> Rows:
    if rows.dim != 0 or rows.block != 1:
        raise call.refuse("has its rows not at the first dim")
    return rows


@rule("avg_pool1d", "avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d", "upsample_nearest2d", "upsample_bilinear2d")
def _pool(call: Call, rows: Rows) -> Rows:
    if _input(call).dim() != (3 if call.name.endswith("1d") else 4):
        raise call.refuse("is of one row alone")
    return _first(call, rows)


@rule("tril", "triu")
def _triangle(call: Call, rows: Rows) -> Rows:
    if rows.dim >= _input(call).dim() - 2:
        raise call.refuse("goes along the rows")
    return rows


@rule("constant_pad_nd")
def _pad(call: Call, rows: Rows) -> Rows:
    padded = math.ceil(len(call["pad"]) / 2)
    if rows.dim >= _input(call).dim() - padded and any(call["pad"][2 * (_input(call).dim() - 1 - rows.dim) :][:2]):
        raise call.refuse("pads the rows")
    return rows


# -- products ----------------------------------------------------------------------------------------------------------


_FACTORS = {"aten::mm": ("self", "mat2"), "aten::bmm": ("self", "mat2"), "aten::addmm": ("mat1", "mat2"),
            "aten::baddbmm": ("batch1", "batch2")}  # fmt: skip


@rule("mm", "addmm", "bmm", "baddbmm")
def _product(call: Call, rows: Rows) -> Rows:
    """Rows of the left operand are rows of the result, columns of the right one its columns. Rows may not be summed over."""
    left, right = [call[name] for name in _FACTORS[call.name]]
    a, b, rank = call.rows(left), call.rows(right), left.dim()
    if a is not None and b is not None:
        if rank != 3 or a != b or a.dim != 0:
            raise call.refuse("multiplies rows with each other")
        found = a
    elif a is not None and a.dim == rank - 2:
        found = a
    elif b is not None and b.dim == rank - 1:
        found = b
    else:
        raise call.refuse("sums over the rows")
    bias = None if call["self"] is left else call["self"]
    if bias is None:
        return found
    if call.rows(bias) is not None:
        if call.rows(bias) != found:
            raise call.refuse("adds rows at another dim")
        return found
    distance = rank - found.dim
    if bias.dim() >= distance and call.sizes(bias)[-distance] != 1:
        raise call.refuse("adds a tensor that has as many elements and no rows")
    return found


def _at_first(rows: Rows | None) -> bool:
    return rows is not None and rows.dim == 0 and rows.block == 1


@rule("convolution")
def _convolution(call: Call, rows: Rows) -> Rows:
    call.only("input")
    return _first(call, rows)


@rule("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
      "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")  # fmt: skip
def _attention(call: Call, rows: Rows) -> list[Rows | None]:
    """The rows are the first dim of queries, keys and values; a mask has them there, or has one for all."""
    for name in ("query", "key", "value"):
        if not _at_first(call.rows(call[name])):
            raise call.refuse(f"has no rows at the first dim of its {name}")
    for name in ("attn_mask", "attn_bias"):
        mask = call[name]
        if mask is None or mask.dim() == 4 and _at_first(call.rows(mask)):
            continue
        if call.rows(mask) is not None or mask.dim() > 3 and call.sizes(mask)[0] != 1:
            raise call.refuse("has a mask with rows at another dim")
    if call["dropout_p"]:
        raise call.refuse("draws random numbers: those of a row change with the batch")
    batch = call.tracker.batch
    return [Rows(0) if result.dim() and call.sizes(result)[0] == batch else None for result in call.results]


# -- looking up --------------------------------------------------------------------------------------------------------


@rule("embedding")
def _embedding(call: Call, rows: Rows) -> Rows:
    call.only("indices")
    return rows


@rule("gather")
def _gather(call: Call, rows: Rows) -> Rows:
    if call.rows(call["self"]) != call.rows(call["index"]) or rows.dim == _dim(call["dim"], call["self"].dim()):
        raise call.refuse("reads from other rows")
    return rows


@rule("index_select")
def _index_select(call: Call, rows: Rows) -> Rows:
    dim = _dim(call["dim"], call["self"].dim())
    if call.rows(call["self"]) is None:
        return rows.at(dim)
    call.only("self")
    if rows.dim == dim:
        raise call.refuse("reads from other rows")
    return rows


@rule("index")
def _index(call: Call, rows: Rows) -> Rows:
    """Adjacent dims are indexed by tensors, which are broadcast. The dim of the rows may only be indexed by the rows' numbers."""
    x, of = call.rows(call["self"]), {dim: index for dim, index in enumerate(call["indices"]) if index is not None}
    first, rank = min(of), max(index.dim() for index in of.values())
    if sorted(of) != list(range(first, first + len(of))) or any(i.dtype in (torch.bool, torch.uint8) for i in of.values()):
        raise call.refuse("reads from places that cannot be assigned to rows")
    if x is not None and x.dim not in of:
        if any(call.rows(index) is not None for index in of.values()):
            raise call.refuse("reads from other rows")
        return x if x.dim < first else x.at(x.dim - len(of) + rank)
    if x is not None and (x.block != 1 or not getattr(call.rows(of[x.dim]), "own", False)):
        raise call.refuse("reads from other rows")
    distance, block = _aligned(call, list(of.values()))
    return Rows(first + rank - distance, block)


# -- other shapes ------------------------------------------------------------------------------------------------------


@rule("view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy", sizes=True)
def _view(call: Call, rows: Rows) -> Rows:
    """The dim of the rows is found by the number of elements before it. Rows have to stay the outermost part of their dim."""
    x, batch = _input(call), call.tracker.batch
    before, after = call.sizes(x), call.sizes(call.results[0])
    dim = next((dim for dim, size in enumerate(after) if batch in size.free_symbols), None)
    if dim is None or sympy.expand(sympy.prod(before[: rows.dim]) - sympy.prod(after[:dim])) != 0:
        raise call.refuse("mixes rows with what stands before them")
    return Rows(dim, sympy.cancel(after[dim] / batch))


@rule("permute")
def _permute(call: Call, rows: Rows) -> Rows:
    rank = _input(call).dim()
    return rows.at([_dim(dim, rank) for dim in call["dims"]].index(rows.dim))


@rule("transpose")
def _transpose(call: Call, rows: Rows) -> Rows:
    rank = _input(call).dim()
    a, b = _dim(call["dim0"], rank), _dim(call["dim1"], rank)
    return rows.at({a: b, b: a}.get(rows.dim, rows.dim))


@rule("t")
def _matrix_transpose(call: Call, rows: Rows) -> Rows:
    return rows.at(1 - rows.dim) if _input(call).dim() == 2 else rows


@rule("unsqueeze")
def _unsqueeze(call: Call, rows: Rows) -> Rows:
    return rows.at(rows.dim + (_dim(call["dim"], _input(call).dim() + 1) <= rows.dim))


@rule("squeeze")
def _squeeze(call: Call, rows: Rows) -> Rows:
    x = _input(call)
    gone = [dim for dim in _dims(call, call["dim"], x.dim()) if call.sizes(x)[dim] == 1]
    if len(gone) != x.dim() - call.results[0].dim() or rows.dim in gone:
        raise call.refuse("may take the dim of the rows away")
    return rows.at(rows.dim - sum(dim < rows.dim for dim in gone))


@rule("expand", sizes=True)
def _expand(call: Call, rows: Rows) -> Rows:
    return rows.at(rows.dim + call.results[0].dim() - _input(call).dim())


@rule("slice", sizes=True)
def _slice(call: Call, rows: Rows) -> Rows:
    x = _input(call)
    if _dim(call["dim"], x.dim()) != rows.dim:
        if any(call.tracker.grows(call[name]) for name in ("start", "end", "step")):
            raise call.refuse("computes with the batch size")
    elif call.sizes(call.results[0])[rows.dim] != call.sizes(x)[rows.dim]:
        raise call.refuse("takes some of the rows")
    return rows


@rule("select", "unbind")
def _select(call: Call, rows: Rows) -> Rows:
    dim = _dim(call["dim"] or 0, _input(call).dim())
    if dim == rows.dim:
        raise call.refuse("takes one of the rows")
    return rows.at(rows.dim - (dim < rows.dim))


@rule("split", "split_with_sizes", "chunk")
def _split(call: Call, rows: Rows) -> Rows:
    if _dim(call["dim"] or 0, _input(call).dim()) == rows.dim:
        raise call.refuse("takes some of the rows")
    return rows


@rule("cat", "stack")
def _cat(call: Call, rows: Rows) -> Rows:
    tensors = call["tensors"]
    if any(call.rows(tensor) != rows for tensor in tensors):
        raise call.refuse("puts rows beside what has none there")
    dim = _dim(call["dim"] or 0, call.results[0].dim())
    if call.name == "aten::stack":
        return rows.at(rows.dim + (dim <= rows.dim))
    if dim == rows.dim:
        raise call.refuse("puts rows behind each other")
    return rows
