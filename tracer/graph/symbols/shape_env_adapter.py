"""What PyTorch's FakeTensorMode, decompositions and AOTAutograd ask of a shape env, answered by `shapes.ShapeEnv`.

A thin translation: SymPy and torch's value ranges at the edge, own expressions inside. Decisions that depend on data
raise torch's GuardOnDataDependentSymNode, which PyTorch catches by class.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from shapes.env import DataDependent, ShapeEnv
from shapes.floats import FloatExpr
from shapes.polynomial import IntExpr
from shapes.ranges import INF, Range
from shapes.relations import BoolExpr
from shapes.symbols import Kind, Symbol
from tracer.graph.symbols import questions, sym_operators, torch_sympy
from tracer.graph.symbols.sym_node import SymNode

torch_sympy.register()
OPERATORS = sym_operators  # installed by importing it

MOST_FUNCTIONS = 200  # function applications in one expression; a shared part counts each time it occurs
NO_HINT_FALLBACK = 8192  # what PyTorch assumes of a size it knows nothing of


class IntNodes(dict[int, SymNode]):
    """The node of each integer constant, made when it is first asked for."""

    def __init__(self, shape_env: TorchShapeEnv) -> None:
        super().__init__()
        self.shape_env = shape_env

    def __missing__(self, number: int) -> SymNode:
        node = self[number] = self.shape_env.node(self.shape_env.algebra.integer(number))
        return node


class TorchShapeEnv:
    """One per trace, beside its ShapeEnv. PyTorch reads its attributes and calls its methods by name; those that the tracer
    itself uses say so in a comment or a docstring."""

    allow_scalar_outputs = True
    allow_dynamic_output_shape_ops = True
    prefer_deferred_runtime_asserts_over_guards = False
    _translation_validation_enabled = False
    backed_size_oblivious = False
    trace_asserts = False
    settings = ("shapetracer",)

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.algebra = env.algebra
        self.int_nodes = IntNodes(self)
        self.layouts: dict[Any, BoolExpr] = {}  # answers of `operators.layout`, for sizes and strides
        self.fake_tensor_cache: dict[Any, Any] = {}  # results of operators in which symbols take part, for `operators.meta`
        self.pending_fresh_unbacked_symbols: list[Any] = []
        self.ignorable_fresh_unbacked_symbols: list[Any] = []
        self.unbacked_renamings: dict[Any, Any] = {}
        self.real_tensor_prop_unbacked_vals: dict[Any, Any] = {}
        self.var_to_hint_override: dict[Any, Any] = {}
        self.unbacked_inputs: set[Any] = set()
        self.size_like: set[Any] = set()
        self.unbacked_alloc_order: dict[Any, int] = {}
        self.answered_by_hint: tuple[str, ...] = ()  # C++ whose questions are answered as in this call, without a guard
        self._note_default: Callable[[], None] | None = None  # set within `answering_by_default`
        self._ignore_fresh = 0
        self._symbols_of: dict[Any, frozenset[Symbol]] = {}

    # -- wrapping ------------------------------------------------------------------------------------------------

    def node(self, value: Any) -> SymNode:
        """The one node of an expression; the expression remembers it."""
        if value.handle is None:
            value.handle = SymNode(self, value)
        found: SymNode = value.handle
        return found

    def wrap(self, value: IntExpr | BoolExpr | FloatExpr | int) -> Any:
        """The torch.SymInt, SymBool or SymFloat of an expression; a plain number for a constant."""
        if isinstance(value, int):
            return value
        if value.const is not None:
            return value.const
        kind = torch.SymInt if isinstance(value, IntExpr) else torch.SymBool if isinstance(value, BoolExpr) else torch.SymFloat
        return kind(self.node(value))

    def symbols_of(self, value: Any) -> frozenset[Symbol]:
        """The symbols an expression is made of."""
        found = self._symbols_of.get(value)
        if found is None:
            found = self._symbols_of[value] = frozenset(self.algebra.symbols(value))
        return found

    # -- decisions -----------------------------------------------------------------------------------------------

    def bounded(self, node: SymNode) -> SymNode:
        """The node. Where its expression has grown too large (`n = (n + min(n, 5)) % 7` doubles it each time), a node of the
        constant that it is in this call; a guard on that is recorded."""
        value = node.value
        if value.functions <= MOST_FUNCTIONS or self.env.suppressed or node.hint is None:
            return node
        if isinstance(value, BoolExpr):
            return self.node(self.algebra.true if self.decide(value) else self.algebra.false)
        number = self.decide_float(value) if isinstance(value, FloatExpr) else self.decide_int(value)
        return self.node(self.algebra.constant(number))

    @contextlib.contextmanager
    def answering_by_hint(self, *files: str) -> Iterator[None]:
        """Within, what these files of C++ ask is answered as in the traced call. No guard is added, so nothing that is to be the
        same in all calls may depend on it."""
        before, self.answered_by_hint = self.answered_by_hint, (*self.answered_by_hint, *files)
        try:
            yield
        finally:
            self.answered_by_hint = before

    @contextlib.contextmanager
    def answering_by_default(self, note: Callable[[], None] | None) -> Iterator[None]:
        """Within, what PyTorch's rules ask of layouts (see `questions`) is answered without a guard. `note` is called, as how a
        result lies in memory may then differ in other calls. None: guards are added."""
        before, self._note_default = self._note_default, note
        try:
            yield
        finally:
            self._note_default = before

    def decide(self, condition: BoolExpr, fallback: bool | None = None) -> bool:
        """The truth of a condition, by a guard if need be. Where it depends on data: `fallback`, or an error without one."""
        if condition.decided is not None:
            return condition.decided
        try:
            return self.env.evaluate_expr(condition)
        except DataDependent as error:
            if fallback is not None:
                return fallback
            proved = self.env.prove(condition)
            if proved is not None:
                return proved
            raise GuardOnDataDependentSymNode(error.expr, str(error)) from None

    def decide_int(self, value: IntExpr) -> int:
        """The value of an expression, which a guard fixes. An error where it depends on data."""
        if value.const is not None:
            return value.const
        try:
            return self.env.evaluate_int(value)
        except DataDependent as error:
            raise GuardOnDataDependentSymNode(error.expr, str(error)) from None

    def decide_float(self, value: FloatExpr | IntExpr) -> float:
        """The value of an expression that is a float, which a guard fixes. An error where it depends on data."""
        if isinstance(value, IntExpr):
            return float(self.decide_int(value))
        try:
            return self.env.evaluate_float(value)
        except DataDependent as error:
            raise GuardOnDataDependentSymNode(error.expr, str(error)) from None

    def evaluate_sym_node(
        self, node: SymNode, size_oblivious: bool = False, fallback_value: bool | None = None
    ) -> bool | int | float:
        value = node.value
        if node.pytype is not bool:
            return self.decide_int(value) if isinstance(value, IntExpr) else self.decide_float(value)
        if fallback_value is None or self._note_default is None or not self._is_open_question_of_sizes(value):
            return self.decide(value, fallback_value)
        asker = sys._getframe(3).f_code  # it called guard_or_false, which called _guard_or, which called this
        found = questions.answer(asker, value, fallback_value)
        if found is None:
            return self.decide(value, fallback_value)
        self._note_default()
        return found

    def _is_open_question_of_sizes(self, condition: BoolExpr) -> bool:
        """Whether a condition would be decided by a guard on sizes alone. What is asked of strides that are symbols tells layouts
        apart, which `operators.free_strides` does by their order."""
        if condition.hint is None or condition.decided is not None or self.env.suppressed:
            return False
        if any(symbol.kind is Kind.STRIDE for symbol in self.symbols_of(condition)):
            return False
        return self.env.statically_known(condition) is None

    def evaluate_expr(
        self,
        orig_expr: Any,
        hint: Any = None,
        fx_node: Any = None,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
        *,
        forcing_spec: bool = False,
    ) -> Any:
        value = self.algebra.from_sympy(orig_expr)
        if isinstance(value, BoolExpr):
            return sympy.sympify(self.decide(value, fallback_value))
        return sympy.sympify(self.decide_int(value) if isinstance(value, IntExpr) else self.decide_float(value))

    def guard_or_defer_runtime_assert(self, orig_expr: Any, msg: str, fx_node: Any = None) -> bool:
        return self.env.assume(self.algebra.from_sympy(orig_expr), msg)

    def _maybe_evaluate_static(
        self,
        expr: Any,
        *,
        unbacked_only: bool = False,
        compute_hint: bool = False,
        size_oblivious: bool = False,
        axioms: Any = None,
        var_to_range: Any = None,
    ) -> Any:
        value = self.env.simplify(self.algebra.from_sympy(expr))
        if isinstance(value, BoolExpr):
            known: Any = self.env.statically_known(value)
        else:
            known = value.const
        if known is None and compute_hint:
            known = value.hint
        if known is None:
            return value.sympy if unbacked_only and not isinstance(value, BoolExpr) else None
        return sympy.sympify(known)

    def replace(self, expr: Any) -> Any:
        return self.env.simplify(self.algebra.from_sympy(expr)).sympy

    def simplify(self, expr: Any, size_oblivious: bool = False) -> Any:
        return self.replace(expr)

    def bound_sympy(self, expr: Any, size_oblivious: bool = False) -> ValueRanges:
        value = self.algebra.from_sympy(expr)
        return value_ranges(self.env.bounds(value)) if isinstance(value, IntExpr) else ValueRanges.unknown()

    def has_guarding_hint(self, expr: Any) -> bool:
        return self.env.hint_of(self.algebra.from_sympy(expr)) is not None

    def guarding_hint_or_throw(self, expr: Any) -> Any:
        hint = self.env.hint_of(self.algebra.from_sympy(expr))
        if hint is None:
            raise GuardOnDataDependentSymNode(expr, f"the value of {expr} depends on data")
        return hint

    def optimization_hint(self, expr: Any, fallback: int | None = None) -> int:
        hint: int = self.env.hint_of(self.algebra.from_sympy(expr))
        if hint is not None:
            return hint
        return NO_HINT_FALLBACK if fallback is None else fallback

    def size_hint(self, expr: Any, *, allow_none: bool = False) -> Any:
        return self.env.hint_of(self.algebra.from_sympy(expr)) if allow_none else self.optimization_hint(expr)

    def suppress_guards(self) -> contextlib.AbstractContextManager[None]:
        return self.env.suppress_guards()

    # -- what is known of symbols --------------------------------------------------------------------------------

    @property
    def var_to_range(self) -> Mapping[Any, ValueRanges]:
        return {s.sympy: value_ranges(self.env.bounds(s.expr)) for s in self.env.symbols() if not s.kind.is_float}

    @property
    def backed_var_to_val(self) -> dict[Any, Any]:
        return {s.sympy: sympy.sympify(s.hint) for s in self.env.symbols() if s.hint is not None}

    @property
    def replacements(self) -> dict[Any, Any]:
        atoms, values = self.algebra.atoms, self.env.facts.replacements.values
        return {atoms[index].expr.sympy: value.sympy for index, value in values.items()}

    @property
    def _replacements_version_counter(self) -> int:
        return self.env.facts.replacements.version

    @property
    def deferred_runtime_asserts(self) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for each in self.env.runtime_asserts:
            symbols = [s for s in self.algebra.symbols(each.expr) if not s.backed]
            found.setdefault(symbols[-1].sympy if symbols else None, []).append(each)
        return found

    def is_unbacked_symint(self, symbol: Any) -> bool:
        return bool(symbol.name.startswith("u"))

    # -- ranges and equalities that PyTorch states ---------------------------------------------------------------

    def _constrain_range(self, a: Any, min: Any, max: Any) -> None:
        value = self.algebra.from_sympy(a)
        if isinstance(min, (int, sympy.Integer)):
            self.env.trust(value >= int(min))
        if isinstance(max, (int, sympy.Integer)) and max < sys.maxsize - 1:  # PyTorch writes "no bound" as one of the largest
            self.env.trust(value <= int(max))

    def _constrain_range_for_size(self, a: Any, min: int | None = None, max: int | None = None) -> None:
        self.size_like.add(a)
        self._constrain_range(a, 0 if min is None else min, max)

    constrain_symbol_range = _constrain_range

    def _constrain_is_bounded(self, a: Any, upper_bound: int) -> None:
        """PyTorch states here that a size is below some large bound. Nothing is decided by that."""

    def _constrain_unify(self, a: Any, b: Any) -> None:
        self.env.assume(self.algebra.relation("eq", self._int(a), self._int(b)), "equal sizes")

    def _int(self, number: Any) -> IntExpr:
        return number.node.value if isinstance(number, torch.SymInt) else self.algebra.integer(number)

    # -- making symbols ------------------------------------------------------------------------------------------

    def _wrap_fresh(self, value: IntExpr | BoolExpr | FloatExpr) -> Any:
        """The number of an expression that was just created. PyTorch is told of its unbacked symbols, as it expects each of them
        in the result of the operator that runs."""
        for symbol in self.env.take_fresh_unbacked():
            if not self._ignore_fresh:
                self.pending_fresh_unbacked_symbols.append(symbol.sympy)
                self.unbacked_alloc_order[symbol.sympy] = symbol.order
        return self.wrap(value)

    def create_unbacked_symint(self, source: Any = None) -> torch.SymInt:
        return self._wrap_fresh(self.env.create_unbacked_int())

    def create_unbacked_symbool(self) -> torch.SymBool:
        return self._wrap_fresh(self.env.create_unbacked_bool())

    def create_unbacked_symfloat(self) -> torch.SymFloat:
        return self._wrap_fresh(self.env.create_unbacked_float())

    def create_symintnode(self, sym: Any, *, hint: Any = None, source: Any = None) -> Any:
        return self.wrap(self.algebra.from_sympy(sym))

    create_symfloatnode = create_symboolnode = create_symintnode

    def create_symbol(self, val: int, source: Any, *args: Any, **kwargs: Any) -> Any:
        size = self.env.create_size(val, source)
        return sympy.Integer(size) if isinstance(size, int) else size.sympy

    def create_unspecified_symbol(self, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        create: Callable[..., Any] = self.env.create_float if isinstance(val, float) else self.env.create_int
        return create(val, source).sympy

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        self._ignore_fresh += 1
        try:
            yield
        finally:
            self._ignore_fresh -= 1

    def _ignore_fresh_unbacked_symbols_set(self, value: bool) -> bool:
        before, self._ignore_fresh = bool(self._ignore_fresh), int(value)
        return before

    def _rename_unbacked_to(self, orig_s: Any, new_s: Any) -> None:
        if self._ignore_fresh:
            return
        self.unbacked_renamings[orig_s] = new_s
        self.env.rename(self.algebra.from_sympy(orig_s), self.algebra.from_sympy(new_s))

    # -- the end of a trace --------------------------------------------------------------------------------------

    def freeze(self) -> None:
        self.env.freeze()

    def freeze_runtime_asserts(self) -> None:
        """Nothing to do: `graph.runtime_asserts` places each assertion in the graph after the operation that needs it."""

    @contextlib.contextmanager
    def error_on_new_guards(self) -> Iterator[None]:
        """New guards stay allowed. Only Inductor enters this, around implementations of custom operators that it tries."""
        yield


def value_ranges(bounds: Range) -> ValueRanges:
    """torch's form of an interval."""
    low, high = bounds
    return ValueRanges(-int_oo if low == -INF else low, int_oo if high == INF else high)
