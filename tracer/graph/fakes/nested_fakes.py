"""Fakes of nested tensors with the jagged layout. Such a tensor is an object of torch's own class around a tensor of values and a
tensor of offsets, and torch's code for it is Python. So a fake is an object of that very class around fakes, and torch's code
runs on it: it gives the metadata of results as it gives the results when the graph runs.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nested._internal import nested_tensor as jagged
from torch.nested._internal.nested_tensor import NestedTensor as NestedTensor
from torch.nested._internal.nested_tensor import _nt_view_dummy

from tracer.graph.fakes.wrapper_fakes import with_history
from tracer.graph.symbols.ragged import RaggedSize, ragged_of
from tracer.guards.nested import ragged_number
from tracer.operators.graph_functions import NESTED_TENSOR_MAKERS

if TYPE_CHECKING:
    from shapes.env import ShapeEnv
    from tracer.graph.fakes.fake_mode import FakeMode

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
SEQLENS = ("min_seqlen", "max_seqlen")  # what a nested tensor may remember of its lengths: each the size of an empty tensor


def is_nested(value: Any) -> bool:
    """Whether a value is a nested tensor with the jagged layout, or the fake of one."""
    return type(value) is NestedTensor


def nested_in(structure: Any) -> bool:
    """Whether there is a nested tensor among the arguments of an operation."""
    if isinstance(structure, dict):
        structure = structure.values()
    elif not isinstance(structure, (tuple, list)):
        return type(structure) is NestedTensor
    return any(map(nested_in, structure))


def makes_nested(function: Any) -> bool:
    """Whether a function of torch makes nested tensors of plain ones."""
    return function is NestedTensor or (type(function) in _FUNCTIONS and function in NESTED_TENSOR_MAKERS)


def share_ragged_size(mode: FakeMode, real: torch.Tensor, fake: Any) -> bool:
    """Gives the fake of offsets or lengths the ragged size that belongs to the number of the real tensor. Returns False if it has
    another one already."""
    number = ragged_number(real)
    if number is None:
        return True
    if fake.nested_int_memo is None:
        fake.nested_int_memo = mode.ragged_size(number)
    found = ragged_of(fake.nested_int_memo)
    return found is not None and mode.ragged_numbers.setdefault(number, found.number) == found.number


def parts_of(fake: Any) -> dict[str, torch.Tensor]:
    """The tensors that a nested tensor is made of, by the attributes that hold them."""
    names, _ = fake.__tensor_flatten__()
    return {name: getattr(fake, name) for name in names}


def around(
    values: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor | None,
    ragged_idx: int,
    seqlens: dict[str, torch.Tensor],
) -> NestedTensor:
    """A nested tensor that is made of these tensors. `seqlens`: what it remembers of its lengths, by the names of `SEQLENS`."""
    return NestedTensor(values, offsets=offsets, lengths=lengths, _ragged_idx=ragged_idx, _metadata_cache=seqlens)


def nested_fake(
    real: NestedTensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor | None,
    seqlens: dict[str, torch.Tensor],
) -> NestedTensor:
    """The fake of a nested tensor that exists before the trace, around the fakes of its parts."""

    def make() -> NestedTensor:
        with torch._C.DisableTorchFunctionSubclass(), torch.inference_mode(False), torch.no_grad():
            return around(values, offsets, lengths, real._ragged_idx, seqlens)

    fake: Any = make() if real.is_leaf or not real.requires_grad else with_history(make)
    if real.requires_grad and real.is_leaf:
        fake.requires_grad_(True)
    assert type(fake) is NestedTensor
    return fake


def ragged_size_of(fake: Any) -> RaggedSize | None:
    """The ragged size of the fake of a nested tensor, or of the fake of offsets or lengths."""
    if type(fake) is NestedTensor:
        return ragged_of(fake._size[fake._ragged_idx])
    return ragged_of(getattr(fake, "nested_int_memo", None))


def _extreme_length(choose: Callable[[torch.Tensor], torch.Tensor], lengths: torch.Tensor) -> Any:
    """The least or greatest length, as torch finds it. Torch also calls int() on it, which no symbolic number survives. Of real
    tensors, for other threads, it gives what torch does."""
    found = choose(lengths).item()
    torch._check(found >= 0)
    return found


@contextlib.contextmanager
def running_nested(mode: FakeMode, env: ShapeEnv) -> Iterator[None]:
    """Entered around an operation on nested tensors. Torch's Python code for them runs as when the graph runs. It may read
    lengths off the offsets: each is a number that depends on data, whatever the configuration is, for none leaves the operation
    but as a size of a result."""
    _nt_view_dummy()  # made at its first use, which must not be under the fake mode
    shape_env: Any = mode.shape_env
    before = shape_env.allow_scalar_outputs
    shape_env.allow_scalar_outputs, extreme_length = True, jagged._get_sdpa_extreme_seqlen
    jagged._get_sdpa_extreme_seqlen = _extreme_length
    written = len(mode.writes)
    try:
        with torch._C._EnableTorchFunction(), env.asserting_itself():
            yield
    finally:
        jagged._get_sdpa_extreme_seqlen = extreme_length
        shape_env.allow_scalar_outputs = before
    mode.note_written_in_nested(written)
