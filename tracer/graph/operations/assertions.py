"""Conditions on data that the graph tests when it runs. Where one does not hold, the graph fails, and CPython runs the frame and
raises what the program says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def assert_in_graph(tx: Tracer, holds: Any, message: str) -> None:
    """Records the test of a tensor of one element.

    One on another device is copied to the CPU, which waits for it, as the program does. A kernel that finds it false would tell
    of it later, and leave the device unusable."""
    node = holds.graph_arg()
    if holds.fake.device.type != "cpu":
        node = tx.output.call_method("cpu", (node,), {}).graph_arg()
    tx.output.call_function(torch._assert_async, (node, message), {})
