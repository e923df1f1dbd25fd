"""Operators of torch.SymInt, SymFloat and SymBool that PyTorch lacks, or computes otherwise than Python does.

They are installed on torch's classes and act on numbers of the tracer only: those whose node is a `SymNode` of this package. For
other numbers they call what PyTorch had there before.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from tracer.graph.symbols.sym_node import SymNode
from tracer.operators.proxies import SYM_TYPES, wrap

_NUMBERS = (int, float, *SYM_TYPES)


def for_own_nodes(cls: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Installs a method of `cls` for numbers of the tracer, in front of the one that is there."""

    def install(method: Callable[..., Any]) -> Callable[..., Any]:
        theirs = getattr(cls, name, None)

        @functools.wraps(theirs or method)
        def dispatch(self: Any, *args: Any) -> Any:
            if type(self.node) is SymNode:
                return method(self, *args)
            return NotImplemented if theirs is None else theirs(self, *args)

        setattr(cls, name, dispatch)
        return method

    return install


def _nodes(a: Any, b: Any) -> tuple[SymNode, SymNode] | None:
    """Both numbers as float nodes; None if one is no number. At least one of them is symbolic."""
    if not isinstance(a, _NUMBERS) or not isinstance(b, _NUMBERS):
        return None
    node: SymNode = a.node if isinstance(a, SYM_TYPES) else b.node  # type: ignore[union-attr]  # one of the two is symbolic
    return node.node_of(a).sym_float(), node.node_of(b).sym_float()


def _float_binary(compute: Callable[[SymNode, SymNode], SymNode], reflected: bool) -> Callable[[Any, Any], Any]:
    def operation(self: Any, other: Any) -> Any:
        nodes = _nodes(other, self) if reflected else _nodes(self, other)
        return NotImplemented if nodes is None else wrap(compute(*nodes))

    return operation


for _name, _compute in (("floordiv", SymNode.int_floordiv), ("pow", SymNode.float_pow)):
    for _reflected in (False, True):
        _method = f"__{'r' if _reflected else ''}{_name}__"
        for_own_nodes(torch.SymFloat, _method)(_float_binary(_compute, _reflected))


def _is_float(value: Any) -> bool:
    return isinstance(value, (float, torch.SymFloat))


_int_floordiv, _int_rfloordiv = torch.SymInt.__floordiv__, torch.SymInt.__rfloordiv__


@for_own_nodes(torch.SymInt, "__floordiv__")
def _floordiv(self: torch.SymInt, other: Any) -> Any:
    return torch.sym_float(self) // other if _is_float(other) else _int_floordiv(self, other)


@for_own_nodes(torch.SymInt, "__rfloordiv__")
def _rfloordiv(self: torch.SymInt, other: Any) -> Any:
    return other // torch.sym_float(self) if _is_float(other) else _int_rfloordiv(self, other)


def _divmod(a: Any, b: Any) -> Any:
    return (a // b, a % b) if isinstance(b, _NUMBERS) else NotImplemented


def _rdivmod(a: Any, b: Any) -> Any:
    return (b // a, b % a) if isinstance(b, _NUMBERS) else NotImplemented


for _cls in (torch.SymInt, torch.SymFloat):
    for_own_nodes(_cls, "__divmod__")(_divmod)
    for_own_nodes(_cls, "__rdivmod__")(_rdivmod)


@for_own_nodes(torch.SymInt, "__round__")
def _round(self: torch.SymInt, ndigits: int | None = None) -> Any:
    if ndigits is None or ndigits >= 0:
        return self
    return to_multiple(lambda operation, a, b: operation(a, b), self, 10**-ndigits)


def to_multiple(binary: Callable[[Callable[..., Any], Any, Any], Any], number: Any, unit: int) -> Any:
    """The multiple of an even `unit` that is nearest to an int; of two that are as near, the even one, as `int.__round__`.

    `binary(operator.add, a, b)` and its like compute: on symbolic ints, or on the tracked values of a program.
    """
    odd = binary(operator.mod, binary(operator.floordiv, number, unit), 2)
    raised = binary(operator.add, binary(operator.add, number, unit // 2 - 1), odd)
    return binary(operator.mul, binary(operator.floordiv, raised, unit), unit)


@for_own_nodes(torch.SymBool, "__sym_ite__")
def _sym_ite(self: torch.SymBool, then: Any, other: Any) -> Any:
    node = self.node
    return wrap(node.sym_ite(node.node_of(then), node.node_of(other)))
