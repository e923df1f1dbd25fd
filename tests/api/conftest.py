"""Fixtures of the tests of the public API: a backend that counts graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch


class Graphs:
    """A backend that keeps every graph it is given and runs it as it is."""

    def __init__(self) -> None:
        self.modules: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.modules.append(gm)
        return gm.forward

    @property
    def count(self) -> int:
        return len(self.modules)

    @property
    def operations(self) -> int:
        inert = ("placeholder", "output", "get_attr")
        return sum(node.op not in inert for gm in self.modules for node in gm.graph.nodes)


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()
