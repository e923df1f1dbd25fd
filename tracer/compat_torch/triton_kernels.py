"""Launches of Triton kernels in torch's graphs, and what differs between versions of torch and Triton there.

torch has one operator for a launch. Compilers see through it: AOTAutograd gives a kernel new tensors in place of those that it
writes to, and Inductor generates the call. The operator names kernels and constants by numbers in a table of the process.
Neither Triton nor torch's module for it is loaded before the program has launched a kernel.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_MOST_KNOWN = 1024
_BY_VALUE = (int, float, str, type(None))
_log = logging.getLogger("torch._dynamo")
_written: dict[tuple[Any, ...], tuple[frozenset[str], Any]] = {}  # with the objects whose ids are in the key


def launch_by_operator(
    kernel: Any, constants: Mapping[str, Any], grids: Sequence[tuple[Any, ...]], values: Mapping[str, Any]
) -> None:
    """Calls torch's operator, under whatever modes are active. `grids` has one grid, or one for each configuration of an
    autotuned kernel; `values` are the arguments that are tensors and numbers of a graph, by name."""
    from torch._higher_order_ops import triton_kernel_wrap as torchs  # late: no program without kernels needs it

    torchs.triton_kernel_wrapper_mutation(
        kernel_idx=torchs.kernel_side_table.add_kernel(kernel),
        constant_args_idx=torchs.kernel_side_table.add_constant_args(dict(constants)),
        grid=[(*grid, *(1,) * (3 - len(grid))) for grid in grids],
        tma_descriptor_metadata={},
        kwargs=dict(values),
    )


def written_arguments(
    kernel: Any, constants: Mapping[str, Any], dtypes: Mapping[str, torch.dtype], numbers: Sequence[str]
) -> frozenset[str]:
    """The names of the tensors that a launch writes to. `dtypes` are those of all tensors, `numbers` the names of arguments whose
    value is not known.

    torch reads it off the kernel's code as Triton compiles it, for which there has to be a device. Else it may be any of them."""
    if not _has_device():
        return frozenset(dtypes)
    values = [(name, type(value), value if isinstance(value, _BY_VALUE) else id(value)) for name, value in constants.items()]
    key = id(kernel), tuple(values), tuple(dtypes.items()), tuple(numbers)
    known = _written.get(key)
    if known is None:
        if len(_written) >= _MOST_KNOWN:
            _written.clear()
        known = _written[key] = _found_written(kernel, constants, dtypes, numbers), (kernel, constants)
    return known[0]


def _found_written(
    kernel: Any, constants: Mapping[str, Any], dtypes: Mapping[str, torch.dtype], numbers: Sequence[str]
) -> frozenset[str]:
    from torch._higher_order_ops import triton_kernel_wrap as torchs  # late: as above

    places = torchs.kernel_side_table.add_kernel(kernel), torchs.kernel_side_table.add_constant_args(dict(constants))
    tensors = {name: torch.empty(2, dtype=dtype) for name, dtype in dtypes.items()}
    _log.disabled = True  # it warns of code that does not compile, of which the launch will tell
    try:
        return frozenset(torchs.get_mutated_tensors(*places, tensors | dict.fromkeys(numbers, 2), {}))
    finally:
        _log.disabled = False


def _has_device() -> bool:
    """Whether Triton has a device to compile for."""
    driver = getattr(sys.modules.get("triton.runtime.driver"), "driver", None)
    try:
        return driver is not None and driver.active.get_current_target() is not None
    except Exception:  # RuntimeError, or what the driver of a device that is not there raises
        return False
