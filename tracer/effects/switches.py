"""Parts of torch's global state: how each is read and written, among them flags and precisions of the process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tracer import _C


@dataclasses.dataclass(frozen=True)
class Setting:
    """A part of the state: `write(*read())` changes nothing."""

    read: Callable[[], tuple[Any, ...]]
    write: Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Switch:
    """A flag of the process that chooses kernels. No guard on torch's state covers it, so each trace that meets it guards what it
    was at the entry. `is_read_late`: kernels read it when they run, not when torch chooses the operators of a function."""

    ask: Callable[[], Any]
    write: Callable[..., Any]
    is_read_late: bool

    def setting(self) -> Setting:
        return Setting(lambda: (_as_constant(self.ask()),), self.write)


def _as_constant(answer: Any) -> Any:
    return tuple(answer) if type(answer) is list else answer


def _switches() -> Iterator[Switch]:
    for names, is_read_late in ((_CHOOSING, False), (_READ_LATE, True)):
        for pair in names.split():
            ask, write = (getattr(torch._C, name, None) for name in pair.split("/"))
            if ask is not None and write is not None:  # not in every build
                yield Switch(ask, write, is_read_late)


_CHOOSING = """
_get_flash_sdp_enabled/_set_sdp_use_flash _get_mem_efficient_sdp_enabled/_set_sdp_use_mem_efficient
_get_math_sdp_enabled/_set_sdp_use_math _get_cudnn_sdp_enabled/_set_sdp_use_cudnn
_get_overrideable_sdp_enabled/_set_sdp_use_overrideable _get_sdp_priority_order/_set_sdp_priority_order
_get_math_sdp_allow_fp16_bf16_reduction/_set_math_sdp_allow_fp16_bf16_reduction
"""
_READ_LATE = """
_get_cudnn_enabled/_set_cudnn_enabled _get_cudnn_benchmark/_set_cudnn_benchmark
_get_cudnn_deterministic/_set_cudnn_deterministic _get_mkldnn_enabled/_set_mkldnn_enabled
_get_mkldnn_deterministic/_set_mkldnn_deterministic _get_nnpack_enabled/_set_nnpack_enabled
_get_cudnn_depthwise_kernel/_set_cudnn_depthwise_kernel
_cuda_get_cudnn_benchmark_limit/_cuda_set_cudnn_benchmark_limit
"""
SWITCHES: tuple[Switch, ...] = tuple(_switches())

# -- precisions, of which one setter changes several ---------------------------------------------------------------------

get_precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)
set_precision: Any = getattr(torch._C, "_set_fp32_precision_setter", None)
_INHERITED = (("generic", "all"), ("cuda", "all"), ("mkldnn", "all"))  # where these are "none", the others hold what was set


def _precisions(name: str, ask: Callable[[], Any], write: Callable[[Any], None], places: tuple[tuple[str, str], ...]) -> Switch:
    """The answer to one question and the precisions that its setter changes besides, which are written back after it. The answer
    is empty where they cannot be put back: they are inherited, or were set in two ways that contradict each other."""

    def read() -> tuple[Any, ...]:
        if set_precision is None or any(get_precision(*place) != "none" for place in _INHERITED):
            return ()
        try:
            return (ask(), *(get_precision(*place) for place in places))
        except RuntimeError:  # a contradiction
            return ()

    def write_all(precisions: tuple[Any, ...]) -> None:
        if precisions:
            write(precisions[0])
            for place, precision in zip(places, precisions[1:]):
                set_precision(*place, precision)

    read.__name__ = name
    _C.never_trace(write_all.__code__)
    return Switch(read, write_all, is_read_late=True)


MATMUL_PRECISIONS = _precisions(
    "precisions_of_matmul",
    torch._C._get_float32_matmul_precision,
    torch._C._set_float32_matmul_precision,
    (("cuda", "matmul"), ("mkldnn", "matmul")),
)
CUDNN_PRECISIONS = _precisions(
    "precisions_of_cudnn", torch._C._get_cudnn_allow_tf32, torch._C._set_cudnn_allow_tf32, (("cuda", "conv"), ("cuda", "rnn"))
)
KEPT: tuple[Switch, ...] = (*SWITCHES, MATMUL_PRECISIONS, CUDNN_PRECISIONS)
