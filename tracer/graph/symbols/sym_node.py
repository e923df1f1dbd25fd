"""The node behind torch.SymInt, SymBool and SymFloat: an expression of `shapes` that speaks PyTorch's protocol.

PyTorch duck-types its nodes: C++ calls the methods below by name, and the operators on torch.SymInt (which
`torch.fx.experimental.sym_node` installs) do too. Operands arrive as nodes of the same env.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx.experimental.sym_node  # installs the operators of torch.SymInt
from torch.fx.experimental.proxy_tensor import get_proxy_mode, handle_sym_dispatch

from shapes.conversion import show
from shapes.floats import FloatExpr
from shapes.polynomial import IntExpr
from shapes.relations import BoolExpr
from tracer.graph.symbols import math_functions
from tracer.graph.symbols.questions import ASKS_WITHOUT_NEED
from tracer.operators import layout
from tracer.operators.proxies import SYM_TYPES, all_constant, recorded, wrap

if TYPE_CHECKING:
    from shapes.algebra import Algebra
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv


class SymNode:
    """The node of `value`, an expression. There is one node per expression of an env, so nodes compare by identity.

    Methods without a docstring are PyTorch's protocol, under the names that PyTorch gives them."""

    __slots__ = (
        "shape_env", "algebra", "pytype", "value", "results", "fx_node", "_int_nodes", "_replaced", "_known_int",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, shape_env: TorchShapeEnv, value: Any) -> None:
        self.shape_env = shape_env
        self.algebra: Algebra = shape_env.algebra
        self.value = value
        self.pytype = int if type(value) is IntExpr else bool if type(value) is BoolExpr else float
        self.results: dict[tuple[Any, ...], SymNode] = {}  # of operations on this node, by name and operands (`recorded`)
        self.fx_node = None  # PyTorch reads it
        self._int_nodes = shape_env.int_nodes
        self._replaced = shape_env.env.facts.replacements.values  # shared with the env: not empty once an equality is known
        self._known_int: int | None = value.const if self.pytype is int else None

    def node(self, value: Any) -> SymNode:
        """The node of an expression."""
        handle: SymNode | None = value.handle
        if handle is None:
            handle = value.handle = SymNode(self.shape_env, value)
        return handle

    def node_of(self, number: Any) -> SymNode:
        """The node of a plain or symbolic number."""
        return number.node if isinstance(number, SYM_TYPES) else self.node(self.algebra.constant(number))

    # -- what it is ----------------------------------------------------------------------------------------------

    def is_int(self) -> bool:
        return self.pytype is int

    def is_float(self) -> bool:
        return self.pytype is float

    def is_bool(self) -> bool:
        return self.pytype is bool

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def nested_int_coeff(self) -> None:
        return None

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        """Of ints and bools: PyTorch folds such nodes to plain numbers."""
        return self._known_int is not None or (self.pytype is bool and self.value.const is not None)

    @property
    def constant(self) -> Any:
        return self.value.const

    def constant_int(self) -> int | None:
        return self.value.const if self.pytype is int else None

    def constant_bool(self) -> bool | None:
        return self.value.const if self.pytype is bool else None

    @property
    def hint(self) -> Any:
        return self.shape_env.env.hint_of(self.value)

    _hint = hint

    def has_hint(self) -> bool:
        return self.hint is not None

    @property
    def _expr(self) -> Any:
        return self.value.sympy

    @property
    def expr(self) -> Any:
        """SymPy, over the symbols that known equalities leave."""
        return self.reduced().sympy

    def reduced(self) -> Any:
        """The expression, over the symbols that known equalities leave."""
        return self.shape_env.env.facts.replacements.reduce_any(self.value) if self._replaced else self.value

    def maybe_as_int(self) -> int | None:
        if self._known_int is None and self._replaced and self.pytype is int:
            number: int | None = self.reduced().const
            return number
        return self._known_int

    def maybe_as_bool(self) -> bool | None:
        return self.reduced().const if self.pytype is bool else None

    def maybe_as_float(self) -> float | None:
        return self.reduced().const if self.pytype is float else None

    def clone(self) -> SymNode:
        return self

    def with_shape_env(self, shape_env: TorchShapeEnv) -> SymNode:
        if shape_env is not self.shape_env:
            raise ValueError("a symbolic size of one trace cannot be used in another")
        return self

    def __str__(self) -> str:
        return show(self.reduced())

    __repr__ = _graph_repr = __str__

    def _value_eq(self, other: Any) -> bool:
        return type(other) is SymNode and self.value is other.value

    def _value_hash(self) -> int:
        return hash(self.value)

    def wrap_int(self, number: int) -> SymNode:
        return self._int_nodes[number]

    def wrap_bool(self, number: bool) -> SymNode:
        return self.node(self.algebra.boolean(number))

    def wrap_float(self, number: float) -> SymNode:
        return self.node(self.algebra.float_constant(number))

    # -- decisions -----------------------------------------------------------------------------------------------

    def guard_int(self, file: str, line: int) -> int:
        return self.shape_env.decide_int(self.value)

    def guard_float(self, file: str, line: int) -> float:
        return self.shape_env.decide_float(self.value)

    def guard_bool(self, file: str, line: int) -> bool:
        if self.value.decided is not None:
            return bool(self.value.decided)
        return bool(self.hint) if self._may_be_as_in_this_call(file) else self.shape_env.decide(self.value)

    guard_size_oblivious = guard_bool

    def guard_or_false(self, file: str, line: int) -> bool:
        return self._guard_or(False, file)

    def guard_or_true(self, file: str, line: int) -> bool:
        return self._guard_or(True, file)

    def _may_be_as_in_this_call(self, file: str) -> bool:
        return self.hint is not None and file.endswith(self.shape_env.answered_by_hint)

    def _guard_or(self, fallback: bool, file: str) -> bool:
        if self.value.decided is not None:
            return bool(self.value.decided)
        if self._may_be_as_in_this_call(file):
            return bool(self.hint)
        if self.hint is fallback and file.endswith(ASKS_WITHOUT_NEED):
            known = self.shape_env.env.statically_known(self.value)
            return fallback if known is None else known
        return self.shape_env.decide(self.value, fallback)

    def statically_known_true(self, file: str, line: int) -> bool:
        return self.shape_env.env.statically_known(self.value) is True

    def expect_true(self, file: str, line: int) -> bool:
        return self.shape_env.env.assume(self.value, f"{file}:{line}")

    def evaluate(self, size_oblivious: bool = False) -> Any:
        return self.shape_env.evaluate_sym_node(self, size_oblivious)

    def int_(self) -> int:
        return self.guard_int("", 0)

    def bool_(self) -> bool:
        if self.pytype is bool:
            return self.guard_bool("", 0)
        zero = self.node(self.algebra.zero) if self.pytype is int else self.wrap_float(0.0)
        return self._compare("ne", zero).guard_bool("", 0)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _is_float_with(self, other: SymNode) -> bool:
        """Whether an operation on these two is one of floats."""
        return self.pytype is float or other.pytype is float

    def as_float(self) -> FloatExpr:
        return self.value if self.pytype is float else self.algebra.to_float(self.as_int())

    def as_int(self) -> IntExpr:
        """The expression as an int: a bool is 1 or 0."""
        if self.pytype is bool:
            given: IntExpr = self.algebra.where(self.value, self.algebra.one, self.algebra.zero)
            return given
        found: IntExpr = self.value
        return found

    def _float_operation(self, op: str, *others: SymNode) -> SymNode:
        return self.node(self.algebra.float_operation(op, self.as_float(), *(o.as_float() for o in others)))

    def _number_operation(self, op: str, integers: Callable[[IntExpr, IntExpr], IntExpr], other: SymNode) -> SymNode:
        """The float operation `op` if one of the operands is a float, else `integers`."""
        if self._is_float_with(other):
            return self._float_operation(op, other)
        return self.node(integers(self.as_int(), other.as_int()))

    @recorded(operator.add)
    def add(self, other: SymNode) -> SymNode:
        return self._number_operation("add", self.algebra.add, other)

    @recorded(operator.sub)
    def sub(self, other: SymNode) -> SymNode:
        return self._number_operation("sub", self.algebra.sub, other)

    @recorded(operator.mul)
    def mul(self, other: SymNode) -> SymNode:
        return self._number_operation("mul", self.algebra.mul, other)

    @recorded(operator.neg)
    def neg(self) -> SymNode:
        return self._float_operation("neg") if self.pytype is float else self.node(self.algebra.neg(self.as_int()))

    @recorded(operator.pos)
    def pos(self) -> SymNode:
        return self

    @recorded(operator.abs)
    def abs(self) -> SymNode:
        return self._float_operation("abs") if self.pytype is float else self.node(abs(self.as_int()))

    @recorded(operator.floordiv, guards=True)
    def int_floordiv(self, other: SymNode) -> SymNode:
        self._need_nonzero(other)
        return self._number_operation("floordiv", self.algebra.floordiv, other)

    @recorded(operator.mod, guards=True)
    def mod(self, other: SymNode) -> SymNode:
        self._need_nonzero(other)
        return self._number_operation("mod", self.algebra.mod, other)

    @recorded(operator.truediv, guards=True)
    def int_truediv(self, other: SymNode) -> SymNode:
        self._need_nonzero(other)
        return self.node(self.algebra.float_operation("int_truediv", self.as_int(), other.as_int()))

    @recorded(operator.truediv, guards=True)
    def float_truediv(self, other: SymNode) -> SymNode:
        self._need_nonzero(other)
        return self._float_operation("truediv", other)

    @recorded(operator.pow)
    def pow_by_natural(self, other: SymNode) -> SymNode:
        return self.node(self.algebra.power(self.as_int(), other.as_int()))

    @recorded(operator.pow)
    def float_pow(self, other: SymNode) -> SymNode:
        return self._float_operation("pow", other)

    floordiv, truediv, pow = int_floordiv, float_truediv, float_pow

    def _need_nonzero(self, divisor: SymNode) -> None:
        """A guard that the divisor is not zero, where Python would raise; if it is zero in this call, the error."""
        if divisor.constant is None and divisor.hint is not None:
            zero = divisor.algebra.zero if divisor.pytype is not float else divisor.algebra.float_constant(0.0)
            if self.shape_env.decide(divisor._compare("eq", self.node(zero)).value):
                raise ZeroDivisionError("division by zero")

    @recorded(torch.sym_max)
    def sym_max(self, other: SymNode) -> SymNode:
        return self._number_operation("max", self.algebra.maximum, other)

    @recorded(torch.sym_min)
    def sym_min(self, other: SymNode) -> SymNode:
        return self._number_operation("min", self.algebra.minimum, other)

    def sym_sum(self, args: Sequence[SymNode]) -> SymNode:
        if get_proxy_mode() is not None:
            return self.node_of(handle_sym_dispatch(torch.sym_sum, (tuple(map(wrap, args)),), {}))
        return self.node(self.algebra.sum(arg.as_int() for arg in args))

    def sym_ite(self, then: SymNode, other: SymNode) -> SymNode:
        if get_proxy_mode() is not None and not all_constant((self, then, other)):
            return self.node_of(handle_sym_dispatch(torch.sym_ite, (wrap(self), wrap(then), wrap(other)), {}))
        return self.node(self.algebra.where(self.value, then.value, other.value))

    # -- bits ----------------------------------------------------------------------------------------------------

    def _bitwise(self, kind: str, other: SymNode) -> SymNode:
        if float in (self.pytype, other.pytype):
            raise TypeError(f"{kind} of a float")
        return self.node(self.algebra.bitwise(kind, self.as_int(), other.as_int()))

    @recorded(operator.and_)
    def bitwise_and(self, other: SymNode) -> SymNode:
        return self._bitwise("bitand", other)

    @recorded(operator.or_)
    def bitwise_or(self, other: SymNode) -> SymNode:
        return self._bitwise("bitor", other)

    @recorded(operator.xor)
    def bitwise_xor(self, other: SymNode) -> SymNode:
        return self._bitwise("bitxor", other)

    @recorded(operator.lshift, guards=True)
    def lshift(self, other: SymNode) -> SymNode:
        shifted = self._bitwise("lshift", other)
        self._need_nonnegative(other)
        return shifted

    @recorded(operator.rshift, guards=True)
    def rshift(self, other: SymNode) -> SymNode:
        shifted = self._bitwise("rshift", other)
        self._need_nonnegative(other)
        return shifted

    def _need_nonnegative(self, shift: SymNode) -> None:
        """As `_need_nonzero`, for the count of a shift."""
        if shift.constant is None and shift.hint is not None:
            if not self.shape_env.decide(self.algebra.relation("ge", shift.as_int(), self.algebra.zero)):
                raise ValueError("negative shift count")

    # -- to int and to float -------------------------------------------------------------------------------------

    def _rounded(self, kind: str) -> SymNode:
        """The number as an int; `kind` is "floor", "ceil", "trunc" or "round"."""
        return self.node(self.algebra.rounded(kind, self.value)) if self.pytype is float else self.node(self.as_int())

    @recorded(math.floor)
    def floor(self) -> SymNode:
        return self._rounded("floor")

    @recorded(math.ceil)
    def ceil(self) -> SymNode:
        return self._rounded("ceil")

    @recorded(math.trunc)
    def trunc(self) -> SymNode:
        return self._rounded("trunc")

    @recorded(torch.sym_int)
    def sym_int(self) -> SymNode:
        return self._rounded("trunc")

    @recorded(round)
    def round(self, ndigits: int | None = None) -> SymNode:
        if ndigits is None:
            return self._rounded("round")
        if self.pytype is not float:
            raise TypeError("rounding an int to digits is not symbolic")
        return self.node(self.algebra.float_operation("round_digits", self.value, self.algebra.integer(int(ndigits))))

    @recorded(torch.sym_float)
    def sym_float(self) -> SymNode:
        return self.node(self.as_float())

    @recorded(float.is_integer, guards=True)
    def is_integer(self) -> SymNode:
        if self.pytype is not float:
            return self.wrap_bool(True)
        if self.hint is not None and not math.isfinite(self.hint):
            return self.wrap_bool(self.guard_float("", 0).is_integer())
        return self._compare("eq", self._rounded("floor").sym_float())

    # -- relations, and, or, not ---------------------------------------------------------------------------------

    def _compare(self, op: str, other: SymNode) -> SymNode:
        algebra = self.algebra
        if self._is_float_with(other):
            return self.node(algebra.float_relation(op, self.as_float(), other.as_float()))
        if self.pytype is bool and other.pytype is bool and op in ("eq", "ne"):
            same = (self.value & other.value) | (~self.value & ~other.value)
            return self.node(same if op == "eq" else ~same)
        return self.node(algebra.relation(op, self.as_int(), other.as_int()))

    @recorded(operator.eq)
    def eq(self, other: SymNode) -> SymNode:
        return self._compare("eq", other)

    @recorded(operator.ne)
    def ne(self, other: SymNode) -> SymNode:
        return self._compare("ne", other)

    @recorded(operator.lt)
    def lt(self, other: SymNode) -> SymNode:
        return self._compare("lt", other)

    @recorded(operator.le)
    def le(self, other: SymNode) -> SymNode:
        return self._compare("le", other)

    @recorded(operator.gt)
    def gt(self, other: SymNode) -> SymNode:
        return self._compare("gt", other)

    @recorded(operator.ge)
    def ge(self, other: SymNode) -> SymNode:
        return self._compare("ge", other)

    @recorded(operator.and_)
    def and_(self, other: SymNode) -> SymNode:
        return self.node(self.value & other.value)

    @recorded(operator.or_)
    def or_(self, other: SymNode) -> SymNode:
        return self.node(self.value | other.value)

    @recorded(torch.sym_not)
    def sym_not(self) -> SymNode:
        return self.node(~self.value)

    sym_and, sym_or = and_, or_

    # -- layouts (PyTorch asks one node about lists of sizes and strides) ----------------------------------------

    def _layout(self, question: str, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self.node(layout.answer(self.shape_env, question, [s.value for s in sizes], [s.value for s in strides]))

    def is_contiguous(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._layout("contiguous", sizes, strides)

    def is_channels_last_contiguous_2d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._layout("channels_last_contiguous_2d", sizes, strides)

    def is_channels_last_contiguous_3d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._layout("channels_last_contiguous_3d", sizes, strides)

    def is_channels_last_strides_2d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._layout("channels_last_strides_2d", sizes, strides)

    def is_channels_last_strides_3d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._layout("channels_last_strides_3d", sizes, strides)

    def is_non_overlapping_and_dense(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._layout("non_overlapping_and_dense", sizes, strides)

    def is_non_overlapping_and_dense_indicator(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self.wrap_int(int(self.is_non_overlapping_and_dense(sizes, strides).guard_bool("", 0)))


def _math_method(name: str, torch_function: Callable[..., Any]) -> Callable[..., SymNode]:
    def compute(self: SymNode) -> SymNode:
        return self._float_operation(name)

    compute.__name__ = compute.__qualname__ = f"sym_{name}"
    found: Callable[..., SymNode] = recorded(torch_function)(compute)
    return found


# In the class body a method named `str` would hide the builtin from annotations.
SymNode.str = SymNode.__str__  # type: ignore[attr-defined]  # set after the class body
for _name in ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2"):
    setattr(SymNode, f"sym_{_name}", _math_method(_name, getattr(torch, f"_sym_{_name}")))
for _function in (math_functions.exp, math_functions.log):
    setattr(SymNode, f"sym_{_function.__name__}", _math_method(_function.__name__, _function))
