"""Assumptions about values that depend on data, as nodes of the graph that check them when it runs.

An assumption that the program or an operator made in the trace (`torch._check(n <= 8)`, or two sizes that must be equal) may be
false for other data. Each one becomes an `aten._assert_scalar` after the operation that made it. All backends keep those.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from shapes.conversion import show
from shapes.floats import FloatExpr
from shapes.guards import RuntimeAssert
from shapes.polynomial import IntExpr, Monomial
from shapes.relations import BoolExpr
from shapes.symbols import Symbol
from tracer.graph.fakes.fake_tensors import is_symbolic
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.graph.output_graph import OutputGraph

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "product": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": torch.sym_max,
    "min": torch.sym_min,
    "pow": operator.pow,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "where": torch.sym_ite,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "and": operator.and_,
    "or": operator.or_,
    "not": torch.sym_not,
    "float": torch.sym_float,
    "int_truediv": operator.truediv,
    "truediv": operator.truediv,
    "neg": operator.neg,
    "abs": operator.abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "float_eq": operator.eq,
    "float_lt": operator.lt,
    "float_le": operator.le,
}


class RuntimeAsserts:
    """The assumptions of one trace that its graph has to check."""

    def __init__(self, output: OutputGraph) -> None:
        self.output = output
        self.env = output.world.env
        self._placed = 0

    def __bool__(self) -> bool:
        return self._placed > 0

    def place_new(self, condition: fx.Node | None = None) -> None:
        """Adds a check for each assumption that was made since the last call; `condition` computes one of them."""
        asserts = self.env.runtime_asserts
        while self._placed < len(asserts):
            new = asserts[self._placed]
            self._placed += 1
            known = condition is not None and condition.meta["example_value"].node.value is new.expr
            self._place(new, condition if known else self._value(new.expr))

    def _place(self, new: RuntimeAssert, condition: Any) -> None:
        place = "" if new.where is None else f" at {new.where}"
        message = f"{show(new.expr)} was assumed{place}, and does not hold"
        self.output.create_node("call_function", torch.ops.aten._assert_scalar.default, (condition, message), {}, None)
        self.output.world.fake_mode.note_may_fail()

    # -- expressions as nodes ------------------------------------------------------------------------------------

    def _value(self, expr: Any) -> Any:
        """The value of an expression over the symbols of the graph: a node that computes it, or a plain number."""
        if expr.const is not None:
            return expr.const
        if isinstance(expr, IntExpr):
            return self._polynomial(expr)
        if isinstance(expr, FloatExpr) and expr.symbol is not None:
            return self._symbol(expr.symbol, expr)
        args = [self._value(arg) for arg in expr.args]
        kind = expr.kind if isinstance(expr, BoolExpr) else expr.op
        if isinstance(expr, BoolExpr) and kind in ("eq", "ne", "ge"):
            args.append(0)
        return self._call(kind, args)

    def _call(self, kind: str, args: list[Any]) -> Any:
        function = _FUNCTIONS.get(kind)
        if function is None:
            unsupported("data-dependent-value", value=f"an assumption that needs {kind}")
        result = args[0] if len(args) > 1 and kind in ("and", "or") else self._apply(function, *args)
        for arg in args[1:] if kind in ("and", "or") else ():
            result = self._apply(function, result, arg)
        return result

    def _polynomial(self, p: IntExpr) -> Any:
        terms = [self._term(monomial, coefficient) for monomial, coefficient in p.terms]
        total = terms[0]
        for term in terms[1:]:
            total = self._apply(operator.add, total, term)
        return total

    def _term(self, monomial: Monomial, coefficient: int) -> Any:
        product: Any = coefficient
        for index in monomial:
            atom = self.env.algebra.atoms[index]
            if atom.symbol is not None:
                factor = self._symbol(atom.symbol, atom.expr)
            else:
                factor = self._call(atom.kind, [self._value(arg) for arg in atom.args])
            product = factor if product == 1 else self._apply(operator.mul, product, factor)
        return product

    def _apply(self, function: Callable[..., Any], *args: Any) -> Any:
        if not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        with self.env.suppress_guards():
            example = function(*(arg.meta["example_value"] if isinstance(arg, fx.Node) else arg for arg in args))
        return self.output.create_node("call_function", function, args, {}, example, pure=True)

    # -- symbols -------------------------------------------------------------------------------------------------

    def _symbol(self, symbol: Symbol, expr: Any) -> fx.Node:
        name = symbol.sympy
        node = self.output.symbol_node(name) or self._found(expr)
        if node is None:
            unsupported("data-dependent-value", value=f"{name}, which no operation of the graph gives")
        if node.target is operator.getitem and isinstance(node.args[0].target, torch._ops.HigherOrderOperator):
            unsupported("data-dependent-value", value=f"{name}, an int that a loop carries, in an assumption")
        self.output.remember_symbol_node(name, node)
        return node

    def _found(self, expr: Any) -> fx.Node | None:
        """A node whose value is the symbol: an existing number, or the size or storage offset of a tensor, read by a new node."""
        for node in self.output.graph.nodes:
            example = node.meta.get("example_value")
            if is_symbolic(example) and example.node.value is expr:
                return node
            if isinstance(example, torch.Tensor):
                for dim, size in enumerate(example.shape):
                    if is_symbolic(size) and size.node.value is expr:
                        return self.output.create_node("call_method", "size", (node, dim), {}, size, pure=True)
                offset: Any = example.storage_offset() if example.layout is torch.strided else 0
                if is_symbolic(offset) and offset.node.value is expr:
                    return self.output.create_node("call_method", "storage_offset", (node,), {}, offset, pure=True)
        return None
