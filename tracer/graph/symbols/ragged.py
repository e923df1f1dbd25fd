"""The size of a ragged dim: what PyTorch calls a nested int. It stands for the lengths of all rows of a nested tensor, so it is
no number. It equals itself alone, and its only arithmetic is to be multiplied.

PyTorch tells nested ints apart by the offsets that they belong to. So does a trace: each fake of offsets has a ragged size of its
own.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.symbols.sym_node import SymNode

if TYPE_CHECKING:
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv

_LEAST = 2  # PyTorch holds every nested int to be at least this


class RaggedSize:
    """The node of `factor` times a ragged size. `number` tells the ragged sizes of a trace apart.

    Methods without a docstring are PyTorch's protocol, under the names that PyTorch gives them."""

    __slots__ = ("shape_env", "number", "factor", "__weakref__")

    constant = hint = None
    pytype = int

    def __init__(self, shape_env: TorchShapeEnv, number: int, factor: SymNode) -> None:
        self.shape_env = shape_env
        self.number = number
        self.factor = factor

    def is_int(self) -> bool:
        return True

    def is_float(self) -> bool:
        return False

    is_bool = is_symbolic = is_constant = is_float

    def is_nested_int(self) -> bool:
        return True

    def has_hint(self) -> bool:
        return True

    def nested_int(self) -> int:
        return self.number

    def nested_int_coeff(self) -> Any:
        return self.factor.maybe_as_int()

    def maybe_as_int(self) -> None:
        return None

    def clone(self) -> RaggedSize:
        return self

    def wrap_int(self, number: int) -> SymNode:
        return self.shape_env.int_nodes[number]

    def __str__(self) -> builtins.str:
        factor = f"{self.factor}"
        return f"j{self.number}" if factor == "1" else f"{factor}*j{self.number}"

    __repr__ = _graph_repr = str = __str__

    def _refuse(self, *_: Any) -> Any:
        raise ValueError("the size of a ragged dim is no number")

    guard_int = int_ = add = sub = neg = mod = int_floordiv = int_truediv = sym_float = pow_by_natural = _refuse

    def mul(self, other: Any) -> RaggedSize:
        if type(other) is RaggedSize:
            self._refuse()
        return RaggedSize(self.shape_env, self.number, self.factor.mul(other))

    def reflected(self, operation: builtins.str, other: SymNode) -> Any:
        """`other <operation> self`, where `other` is a plain number."""
        mirrored = _MIRRORED.get(operation)
        return self._refuse() if mirrored is None else getattr(self, mirrored)(other)

    # -- relations -----------------------------------------------------------------------------------------------

    def eq(self, other: Any) -> SymNode:
        if type(other) is not RaggedSize:
            return self.factor.wrap_bool(False)
        if other.number == self.number:
            equal: SymNode = self.factor.eq(other.factor)
            return equal
        return self.factor.wrap_bool(False)

    def ne(self, other: Any) -> SymNode:
        different: SymNode = self.eq(other).sym_not()
        return different

    def ge(self, other: Any) -> SymNode:
        if type(other) is not RaggedSize:
            return self._known(other.le(self.shape_env.int_nodes[_LEAST]), True)
        if other.number != self.number:
            self._refuse()
        not_less: SymNode = self.factor.ge(other.factor)
        return not_less

    def lt(self, other: Any) -> SymNode:
        if type(other) is not RaggedSize:
            return self._known(other.le(self.shape_env.int_nodes[_LEAST]), False)
        less: SymNode = self.ge(other).sym_not()
        return less

    def le(self, other: Any) -> SymNode:
        if type(other) is not RaggedSize:
            return self._known(other.lt(self.shape_env.int_nodes[_LEAST]), False)
        not_greater: SymNode = other.ge(self)
        return not_greater

    def gt(self, other: Any) -> SymNode:
        if type(other) is not RaggedSize:
            return self._known(other.lt(self.shape_env.int_nodes[_LEAST]), True)
        greater: SymNode = other.lt(self)
        return greater

    def _known(self, decides: SymNode, answer: bool) -> SymNode:
        """`answer`, if the condition holds, which a guard then says; nothing is known of other numbers."""
        return self.factor.wrap_bool(answer) if decides.guard_bool("", 0) else self._refuse()


_MIRRORED = {"mul": "mul", "eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def ragged_of(number: Any) -> RaggedSize | None:
    """The node of a number that is a ragged size, or a multiple of one."""
    node = number.node if isinstance(number, torch.SymInt) else None
    return node if type(node) is RaggedSize else None
