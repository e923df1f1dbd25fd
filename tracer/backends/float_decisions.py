"""What a compiler decides on floats that it takes for data (`float_inputs.floats_as_data`).

torch's ShapeEnv refuses to decide on data. These data are inputs of the graph, though: a condition on them (is the exponent
zero?) is decided for the traced call, and becomes a guard of the entry as one on sizes does. So the compiler needs no value, and
one graph serves all floats for which the condition comes out the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from sympy.logic.boolalg import BooleanFunction

from shapes.env import ShapeEnv as OwnShapeEnv


class FloatDecisions:
    """Decides conditions of torch's ShapeEnv on symbols that `item()` gives for scalar tensors, which stand for float inputs."""

    def __init__(self, env: OwnShapeEnv | None, own_symbols: Mapping[Any, sympy.Basic]) -> None:
        self._env = env
        self._own_symbols = own_symbols  # the tracer's symbol -> torch's
        self._tensors: list[tuple[Any, sympy.Basic]] = []
        self._floats: dict[sympy.Basic, sympy.Basic] = {}  # torch's symbol -> the tracer's expression
        self.made: list[sympy.Basic] = []  # what holds for the traced call, in the tracer's symbols

    def add(self, tensor: Any, expr: sympy.Basic) -> None:
        """`item()` of this fake tensor is the float input `expr`. Each pass over the graph makes another symbol for it."""
        self._tensors.append((tensor, expr))

    def decide(self, condition: Any) -> sympy.Basic | None:
        """True or False as sympy has them; None where a condition is not about such floats, or no condition."""
        if not self._tensors or not isinstance(condition, (sympy.Rel, BooleanFunction)):
            return None
        for tensor, expr in self._tensors:
            if tensor.item_memo is not None:
                self._floats[tensor.item_memo.node.expr] = expr
        ours = {theirs: own for own, theirs in self._own_symbols.items()} | self._floats
        if self._env is None or self._floats.keys().isdisjoint(condition.free_symbols) or condition.free_symbols - ours.keys():
            return None
        own = condition.xreplace(ours)
        holds = self._env.hint_of(self._env.boolean(own))
        if holds is None:
            return None
        self.made.append(own if holds else sympy.Not(own))
        return sympy.true if holds else sympy.false
