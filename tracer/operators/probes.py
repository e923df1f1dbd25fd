"""Facts that only running an operator's kernel shows. It is run on small stand-ins for the arguments of a call, and the answer is
remembered for similar calls.

  - Dtypes that it refuses although its fake form takes them, such as a product of a float64 and a float32 matrix.
  - Whether an elementwise operator may fail on data. The only data on which one of ATen's fails are zeros (by which an integer is
    divided).
  - Whether an elementwise operator keeps the strides of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._dispatch.python import no_python_dispatcher
from torch.utils._python_dispatch import _disable_current_modes

from tracer.operators.facts import OperatorFacts, facts_of, leaves
from tracer.operators.layout import hint, hints
from tracer.operators.proxies import SYM_TYPES

_MOST_ANSWERS = 4096


# -- stand-ins ---------------------------------------------------------------------------------------------------


def run_kernel(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensor: Callable[[torch.Tensor], torch.Tensor],
    number: Callable[[Any], Any],
) -> tuple[Any, Exception | None]:
    """Runs an operator on stand-ins and returns (result, None) or (None, error). `tensor` and `number` make the stand-ins for the
    tensors and for the other arguments. No mode of torch sees the call, and the random generator is put back."""

    def stand_in(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [stand_in(item) for item in value]
        return tensor(value) if isinstance(value, torch.Tensor) else number(value)

    with _disable_current_modes(), no_python_dispatcher(), torch.no_grad():
        state = torch.get_rng_state() if not facts_of(func).only_computes else None
        try:
            return func(*map(stand_in, args), **{name: stand_in(value) for name, value in kwargs.items()}), None
        except Exception as error:
            return None, error.with_traceback(None)
        finally:
            if state is not None:
                torch.set_rng_state(state)


def run_on_zeros(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator on tensors of zeros with the sizes and strides of this call; None if it fails on them."""

    def zeros(tensor: torch.Tensor) -> torch.Tensor:
        shape, strides = hints(tensor.shape), hints(tensor.stride())
        length = 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
        return torch.zeros(length, dtype=tensor.dtype).as_strided(shape, strides)

    def number(value: Any) -> Any:
        return hint(value) if isinstance(value, torch.SymInt) else 1.0 if isinstance(value, torch.SymFloat) else value

    return run_kernel(func, args, kwargs, zeros, number)[0]


# -- dtypes that are refused, and zeros ----------------------------------------------------------------------------

_KINDS = (bool, int, float, complex)
_DTYPES = (torch.float32, torch.int64, torch.bool)  # every elementwise operator takes one of these
_NUMBERS: dict[Any, Any] = {torch.float32: 1.0, torch.int64: 1, torch.bool: True}


class Answer(NamedTuple):
    refusal: Exception | None
    fails_on_zeros: bool


_answers: dict[Any, Answer] = {}  # by the operator and all that the answer may depend on


def may_refuse(facts: OperatorFacts, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call mixes dtypes and the operator does not promote them, so that its kernel may refuse them. Operators of
    backward passes are never tried: they trust the sizes of what their forward operator saved, and would read beyond a stand-in
    of one element."""
    if facts.elementwise or facts.of_backward or not facts.has_schema:
        return False
    return len({each.dtype for each in leaves(args, kwargs) if isinstance(each, torch.Tensor)}) > 1


def check_dtypes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Raises the error with which the CPU kernel of an operator refuses the dtypes of its arguments, if it does. Else returns
    whether the operator is elementwise and may fail on data. `func` is an OpOverload that draws no random numbers."""
    key: list[Any] = [func, *kwargs]
    on_cpu, tensors = True, []
    for each in leaves(args, kwargs):
        if isinstance(each, torch.Tensor):
            on_cpu &= each.device.type == "cpu" and each.layout is torch.strided
            tensors.append(each)
            key += (each.dtype, *map(_small, each.shape), None)
        elif isinstance(each, SYM_TYPES):
            on_cpu = False  # its error for the number 1 need not be that for other numbers
            key.append(type(each))
        else:
            on_cpu &= not isinstance(each, torch.device) or each.type == "cpu"
            key += (type(each), each)
    if not tensors:
        return False
    key.append(on_cpu)
    known = tuple(key)
    answer = _answers.get(known)
    if answer is None:
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        answer = _answers[known] = _ask(func, args, kwargs, tensors[0].dtype, on_cpu)
    if answer.refusal is not None:
        raise type(answer.refusal)(*answer.refusal.args)
    return answer.fails_on_zeros


def _small(size: Any) -> int:
    """The size of a stand-in: 0 for a size that is 0 in every call, which a symbol may have turned out to be."""
    return 0 if (size if type(size) is int else size.node.maybe_as_int()) == 0 else 1


def _ask(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype, on_cpu: bool) -> Answer:
    """Tries the kernel on stand-ins. An error counts as a refusal of the dtypes only if it comes with zeros, too, and the kernel
    takes the same stand-ins with other dtypes; otherwise it may be about data, as an index that is too large, or about sizes."""
    elementwise = facts_of(func).elementwise
    if not on_cpu and not elementwise:
        return Answer(None, False)
    error = _raised(func, args, kwargs, 1, None)
    if error is None:
        return Answer(None, elementwise and _raised(func, args, kwargs, 0, None) is not None)
    if _raised(func, args, kwargs, 0, None) is None:
        return Answer(None, False)
    others = _DTYPES if elementwise else (dtype,)
    refused = on_cpu and any(_raised(func, args, kwargs, 1, other) is None for other in others)
    return Answer(error if refused else None, False)


def _raised(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], fill: int, dtype: torch.dtype | None) -> Exception | None:
    """The error of the kernel on tensors of one element, which is `fill`, as is each symbolic number. With `dtype`, all tensors
    have that dtype, and plain numbers its type."""
    number = _NUMBERS.get(dtype) if facts_of(func).elementwise else None

    def small(tensor: torch.Tensor) -> torch.Tensor:
        return torch.full(tuple(map(_small, tensor.shape)), fill, dtype=dtype or tensor.dtype)

    def plain(value: Any) -> Any:
        if isinstance(value, SYM_TYPES):
            return _of_kind(value, fill)
        return number if number is not None and type(value) in _KINDS else value

    return run_kernel(func, args, kwargs, small, plain)[1]


def _of_kind(number: Any, fill: int) -> Any:
    return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(number)](fill)


# -- how elementwise operators lay out their results -------------------------------------------------------------

SORTS, FLATTENS = "sorts", "flattens"
# Shapes and strides of operands that are tried, and what the strides of the three results say.
_PROBES = ((1, 2), (1, 1)), ((1, 2), (7, 1)), ((2, 1, 2), (1, 7, 2))
_OUTCOMES: dict[Any, str] = {((1, 1), (2, 1), (1, 4, 2)): SORTS, ((2, 1), (2, 1), (1, 7, 2)): FLATTENS}
_ways: dict[Any, str | None] = {}  # by operator, dtypes and kinds of numbers, which are few


def way_of_elements(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """How an elementwise operator lays out its result for operands of one shape: SORTS or FLATTENS (see `strides`), or None for
    any other way."""
    key = func, tuple(map(_kind_of, args)), tuple(map(_kind_of, kwargs.values()))
    if key not in _ways:
        _ways[key] = _OUTCOMES.get(tuple([_strides(func, args, kwargs, *probe) for probe in _PROBES]))
    return _ways[key]


def _kind_of(arg: Any) -> Any:
    """What the layout may depend on."""
    if isinstance(arg, torch.Tensor):
        return arg.dtype, arg.dim() > 0
    return arg if arg is None or isinstance(arg, (str, bool, torch.dtype)) else type(arg)


def _strides(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...] | None:
    def ones(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim():
            return torch.ones((), dtype=tensor.dtype)
        return torch.empty_strided(shape, strides, dtype=tensor.dtype).fill_(1)

    def plain(value: Any) -> Any:
        return _of_kind(value, 1) if isinstance(value, SYM_TYPES) else value

    result, _ = run_kernel(func, args, kwargs, ones, plain)
    return result.stride() if isinstance(result, torch.Tensor) else None
