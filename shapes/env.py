"""ShapeEnv: the symbols of one trace, the facts about them, and the guards of the trace.

`evaluate_expr` decides a condition, cheapest means first, and records a guard where only the hint could tell. The
expressions are made by `env.algebra`; nothing here knows of tensors. The tracer makes one env for each trace, and
`graph.symbols.shape_env_adapter` shows it to torch; `shapes` itself can be used without both.

A *hint* is the value in the call that is traced. Symbols of data (`unbacked`) have none. Sizes, ints and floats of the program
each have a label, the place where a guard reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import sympy

from shapes import emission, known
from shapes.algebra import Algebra
from shapes.constraints import LARGEST_SIZE, ConstraintViolationError, DimConstraint
from shapes.domain import Domain
from shapes.floats import FloatExpr
from shapes.guards import GuardText, RuntimeAssert, ShapeGuard, Why
from shapes.policy import DimPolicy, DuckSymbols, Past, ShapePolicy
from shapes.polynomial import IntExpr
from shapes.ranges import INF, Range
from shapes.relations import BoolExpr
from shapes.symbols import UNBOUNDED, Kind, Label, Symbol, symbol_name

INT64: Range = (-LARGEST_SIZE - 1, LARGEST_SIZE)


_E = TypeVar("_E", BoolExpr, IntExpr, FloatExpr)


class DataDependent(RuntimeError):
    """A decision needs the value of something that is known only when the graph runs."""

    def __init__(self, expr: Any) -> None:
        super().__init__(
            f"cannot decide {expr} while tracing: it depends on data. "
            f"Say what is known with torch._check(...), or ask with guard_or_false / guard_or_true."
        )
        self.expr = expr


class FrozenError(RuntimeError):
    """A guard was needed after the env was frozen."""


class ShapeEnv:
    def __init__(
        self,
        *,
        duck_shape: bool = True,
        specialize_zero_one: bool = True,
        where: Callable[[], Any] = lambda: None,
        past: Callable[[Any], Past] = lambda label: (),
    ) -> None:
        self.algebra = Algebra()
        self.facts = self.algebra.facts
        self.policy = ShapePolicy(duck_shape, specialize_zero_one)
        self.where = where  # the user's line, asked for when a guard is recorded
        self.past = past  # the sizes that were seen at a label in earlier calls
        self.guards: list[ShapeGuard] = []
        self.runtime_asserts: list[RuntimeAssert] = []
        self.fresh_unbacked: list[Symbol] = []  # made since the last `take_fresh_unbacked`
        self.constraints: dict[Symbol, DimConstraint] = {}
        self.hints_for_compilers: dict[Symbol, int] = {}  # what the user says is the usual size
        self.bindings: dict[str, tuple[Label, IntExpr, Why]] = {}
        self.declared: dict[str, IntExpr] = {}  # the name of a label -> its value in the declared domain
        self.declared_symbols: set[Symbol] = set()
        self.has_free_strides = False  # whether a stride is a symbol of its own
        self.frozen = False
        self.suppressed = 0
        self._symbols: list[Symbol] = []
        self._by_label: dict[str, Symbol] = {}
        self._duck_symbols = DuckSymbols()
        self._by_shape_id: dict[
            str, tuple[Symbol, int]
        ] = {}  # the symbol of unbacked sizes that are said to be equal; their value
        self._counts: dict[str, int] = {}
        self._unproved: dict[BoolExpr, int] = {}  # condition -> the version of the facts that z3 could not decide it with

    # -- symbols -------------------------------------------------------------------------------------------------

    def create_size(
        self,
        hint: int,
        label: Label,
        policy: DimPolicy = DimPolicy.DUCK,
        constraint: DimConstraint | None = None,
        *,
        specialize_zero_one: bool | None = None,
    ) -> int | IntExpr:
        """The size of a dim: a plain int if it is a constant of the trace, else the expression of its symbol."""
        _need(hint, int, label)
        if not 0 <= hint <= LARGEST_SIZE:
            raise ValueError(f"{label.name} is {hint}, which is no size: sizes lie between 0 and {LARGEST_SIZE}")
        if constraint is not None:
            constraint.check_value(hint, label.name)
        if label.name in self.declared:
            return self._declared_size(self.declared[label.name], label)
        if self.policy.is_constant(hint, policy, specialize_zero_one):
            return hint
        known = self._by_label.get(label.name)
        if known is not None:
            return self.integer(known.expr)
        if policy is DimPolicy.UNBACKED:
            return self._unbacked_size(hint, label, constraint)
        if hint in (0, 1) and policy is DimPolicy.DUCK:  # so common that equal sizes of 0 or 1 say nothing: no shared symbol
            policy = DimPolicy.DYNAMIC
        past = self.past(label) if policy is DimPolicy.DUCK else ()
        if policy is DimPolicy.DUCK and self.policy.duck_shape and constraint is None:
            shared = self._duck_symbols.find(hint, past)
            if shared is not None:
                self._add_label(shared, label)
                return self.integer(shared.expr)
        base = self._size_range(constraint, specialize_zero_one)
        symbol = self._new_symbol(Kind.SIZE, hint, base, (0, INF), label)
        if policy is DimPolicy.DUCK:
            self._duck_symbols.add(symbol, hint, past)
        if constraint is not None:
            self.constraints[symbol] = constraint
            self._take_hint(symbol, constraint)
        return self.integer(symbol.expr)

    def tell_compilers(self, expr: sympy.Basic, hint: int) -> None:
        """Says what a number usually is. Of a number that is no symbol, nothing is said."""
        self.hints_for_compilers.update({symbol: hint for symbol in self._symbols if symbol.sympy == expr})

    def _take_hint(self, symbol: Symbol, constraint: DimConstraint) -> None:
        if constraint.hint is not None:
            self.hints_for_compilers[symbol] = constraint.hint

    def _size_range(self, constraint: DimConstraint | None, specialize_zero_one: bool | None) -> Range:
        low, high = self.policy.least_size(specialize_zero_one), INF
        if constraint is not None:
            low = max(low, constraint.min or 0)
            high = INF if constraint.max is None else constraint.max
        return low, high

    def _unbacked_size(self, hint: int, label: Label, constraint: DimConstraint | None) -> IntExpr:
        shape_id = None if constraint is None else constraint.shape_id
        low, high = self._size_range(constraint, False)
        if shape_id is not None and shape_id in self._by_shape_id:
            symbol, value = self._by_shape_id[shape_id]
            if value != hint:
                raise ConstraintViolationError(
                    f"{label.name} is {hint} and {symbol.labels[0].name} is {value}, but both were marked with "
                    f"shape_id={shape_id!r}, which says that they are equal.",
                    "call with equal sizes, or mark these dims with different ids.",
                )
            self._add_label(symbol, label)
            for bound in (symbol.sympy >= low, symbol.sympy <= high):
                self._require(self.boolean(bound), Why.MARK)
            return self.integer(symbol.expr)
        symbol = self._new_symbol(Kind.UNBACKED_INT, None, (low, high), (0, INF), label)
        if constraint is not None:
            self._take_hint(symbol, constraint)
        if shape_id is not None:
            self._by_shape_id[shape_id] = symbol, hint
        return self.integer(symbol.expr)

    def declare(self, domain: Domain, sizes: Mapping[str, tuple[Label, int]]) -> list[Symbol]:
        """Makes a symbol for each variable of a domain and records its facts, so that guards check them at the entry.

        `sizes`: the label of each place of the domain, and its size in this call, which has to lie in the domain.
        """
        found: dict[Any, Any] = {}
        symbols = []
        for each in domain.variables:
            home = domain.own_place(each)
            label, hint = sizes[home or ""]
            kind = Kind.INT if home in domain.ints else Kind.STRIDE if home in domain.strides else Kind.SIZE
            trusted = UNBOUNDED if kind is Kind.INT else (0, INF)
            symbol = self._new_symbol(kind, hint, (each.min, INF if each.max is None else each.max), trusted, label)
            found[each.symbol] = symbol.sympy
            symbols.append(symbol)
        self.declared_symbols.update(symbols)
        self.declared = {place: self.integer(expr.xreplace(found)) for place, expr in domain.places.items()}
        for condition in domain.conditions():
            self._require(self.boolean(condition.xreplace(found)), Why.DECLARED)
        return symbols

    def declared_int(self, label: Label) -> int | IntExpr | None:
        """The declared value of an int of the program; None if nothing was declared of it."""
        return self._declared_size(self.declared[label.name], label) if label.name in self.declared else None

    def _declared_size(self, size: IntExpr, label: Label) -> int | IntExpr:
        if size.const is not None:
            self.bind(label, size, Why.DECLARED)
            return size.const
        atom = size.single_atom()
        symbol = None if atom is None else atom.symbol
        if symbol is None:
            self.bind(label, size, Why.DECLARED)
        elif label.name not in self._by_label:
            self._add_label(symbol, label)
        return size

    def create_int(self, hint: int, label: Label) -> IntExpr:
        """A plain int of the program; never specialised for 0 and 1, never duck shaped."""
        _need(hint, int, label)
        known = self._by_label.get(label.name)
        if known is not None:
            return self.integer(known.expr)
        return self.integer(self._new_symbol(Kind.INT, int(hint), UNBOUNDED, UNBOUNDED, label).expr)

    def create_stride(self, hint: int, label: Label, *, specialize_zero_one: bool | None = None) -> int | IntExpr:
        """A stride that is not computed from sizes: a plain int if it is a constant of the trace, else the expression of a symbol
        of its own."""
        if label.name in self.declared:
            return self._declared_size(self.declared[label.name], label)
        if self.policy.is_constant(hint, DimPolicy.DYNAMIC, specialize_zero_one):
            return hint
        known = self._by_label.get(label.name)
        base = self.policy.least_size(specialize_zero_one), INF
        symbol = known or self._new_symbol(Kind.STRIDE, int(hint), base, (0, INF), label)
        return self.integer(symbol.expr)

    def create_float(self, hint: float, label: Label) -> FloatExpr:
        """A float of the program."""
        _need(hint, float, label)
        known = self._by_label.get(label.name)
        symbol = known or self._new_symbol(Kind.FLOAT, float(hint), UNBOUNDED, UNBOUNDED, label)
        return self.float_(symbol.expr)

    def create_unbacked_int(self, low: int = INT64[0], high: int = INT64[1]) -> IntExpr:
        """An int that depends on data."""
        return self.integer(self._fresh(Kind.UNBACKED_INT, (low, high)).expr)

    def create_unbacked_bool(self) -> BoolExpr:
        """A bool that depends on data, as `u == 1`."""
        return self.algebra.relation("eq", self._fresh(Kind.UNBACKED_BOOL, (0, 1)).expr, self.algebra.one)

    def create_unbacked_float(self) -> FloatExpr:
        """A float that depends on data."""
        return self.float_(self._fresh(Kind.UNBACKED_FLOAT, UNBOUNDED).expr)

    def _fresh(self, kind: Kind, trusted: Range) -> Symbol:
        symbol = self._new_symbol(kind, None, trusted, trusted, None)
        self.fresh_unbacked.append(symbol)
        return symbol

    def take_fresh_unbacked(self) -> list[Symbol]:
        """The symbols that were made in the trace since the last call."""
        taken, self.fresh_unbacked = self.fresh_unbacked, []
        return taken

    def bind(self, label: Label, expr: IntExpr, why: Why = Why.LAYOUT) -> None:
        """Records that the value at `label` equals an expression, as a contiguous stride does. A guard checks it."""
        self.bindings[label.name] = label, expr, why

    def rename(self, unbacked: IntExpr, to: IntExpr) -> None:
        """Records that a data-dependent symbol equals another expression."""
        atom = unbacked.single_atom()
        if atom is None or atom.symbol is None:
            raise ValueError(f"only a symbol can be renamed, not {unbacked}")
        self.facts.alias(atom, to)

    def _new_symbol(self, kind: Kind, hint: Any, base: Range, trusted: Range, label: Label | None) -> Symbol:
        prefix = symbol_name(kind, 0)[:-1]
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        symbol = Symbol(symbol_name(kind, number), kind, len(self._symbols), hint, base, trusted)
        self.algebra.symbol(symbol)
        self.has_free_strides |= kind is Kind.STRIDE
        self._symbols.append(symbol)
        if label is not None:
            self._add_label(symbol, label)
        return symbol

    def _add_label(self, symbol: Symbol, label: Label) -> None:
        symbol.labels.append(label)
        self._by_label[label.name] = symbol

    def symbols(self) -> list[Symbol]:
        """All symbols, in order of creation."""
        return list(self._symbols)

    # -- deciding ------------------------------------------------------------------------------------------------

    def evaluate_expr(self, expr: Any) -> bool:
        """Whether a condition holds in this trace. If that does not follow from earlier decisions, adds a guard."""
        condition = self.boolean(expr)
        # 1. A constant, or decided before. (p < q  =>  p // q == 0 and the like were used when it was built.)
        if condition.decided is not None:
            return condition.decided
        # 2. Known equalities, bounds, and recorded facts: see `static`.
        known = self.facts.decide(condition)
        if known is not None:
            return known
        # 3. The value of the traced call decides, and the trace relies on it from now on.
        hint = self.hint_of(condition)
        if hint is None:
            raise DataDependent(condition.sympy)
        self.record(condition if hint else self.algebra.negate(condition), Why.BRANCH)
        return bool(hint)

    def evaluate_int(self, expr: Any) -> int:
        """The value of an int expression in this trace; adds a guard such as `L['n'] == 3`."""
        p = self.integer(expr)
        low, high = self.facts.range(p)
        if low == high:
            return int(low)
        hint = self.hint_of(p)
        if hint is None:
            raise DataDependent(p.sympy)
        self._require(self.algebra.relation("eq", p, self.algebra.integer(hint)), Why.SPECIALIZED)
        return int(hint)

    def evaluate_float(self, expr: Any) -> float:
        """The value of a float expression in this trace; adds a guard on it."""
        x = self.float_(self.facts.replacements.reduce_any(self.float_(expr)))
        if x.const is not None:
            return x.const
        if x.hint is None:
            raise DataDependent(x.sympy)
        if x.hint != x.hint:  # nan: guard that it is nan
            same = self.algebra.negate(self.algebra.float_relation("eq", x, x))
        else:
            same = self.algebra.float_relation("eq", x, self.algebra.float_constant(x.hint))
        self._require(same, Why.SPECIALIZED)
        return x.hint

    def _require(self, condition: BoolExpr, why: Why) -> None:
        # The condition holds in this call. It is recorded unless it is known.
        if self.facts.decide(condition) is None:
            self.record(condition, why)

    def statically_known(self, expr: Any) -> bool | None:
        """Whether a condition is known to hold, without adding a guard; None if it is not known."""
        return self.facts.decide(self.boolean(expr))

    def prove(self, condition: BoolExpr) -> bool | None:
        """Whether all facts together decide a condition that depends on data, as z3 finds; None if they do not. Takes
        milliseconds."""
        if self._unproved.get(condition) == self.facts.version:
            return None
        answer = known.decided_by_proof(self, condition)
        if answer is None:
            self._unproved[condition] = self.facts.version
        else:
            self.facts.learn(condition if answer else self.algebra.negate(condition))
        return answer

    def guard_or_false(self, expr: Any) -> bool:
        """As evaluate_expr, but False where the answer depends on data."""
        return self._guard_or(expr, False)

    def guard_or_true(self, expr: Any) -> bool:
        """As evaluate_expr, but True where the answer depends on data."""
        return self._guard_or(expr, True)

    def _guard_or(self, expr: Any, fallback: bool) -> bool:
        try:
            return self.evaluate_expr(expr)
        except DataDependent:
            return fallback

    def assume(self, expr: Any, message: str = "") -> bool:
        """torch._check: holds from now on; checked by a guard, or, where it depends on data, when the graph runs."""
        condition = self.boolean(expr)
        if self.hint_of(condition) is not None or self.facts.decide(condition) is not None:
            return self.evaluate_expr(condition)
        if not self.suppressed:
            self._check_not_frozen(condition)
            self.runtime_asserts.append(RuntimeAssert(condition, message, self.where()))
            self.facts.learn(condition)
        return True

    @contextlib.contextmanager
    def asserting_itself(self) -> Iterator[None]:
        """Entered around an operation that reads numbers off data and, when the graph runs, asserts of them again what it asserts
        now."""
        first, asserted = len(self._symbols), len(self.runtime_asserts)
        yield
        fresh = {symbol for symbol in self._symbols[first:] if not symbol.backed}
        kept = [each for each in self.runtime_asserts[asserted:] if fresh.isdisjoint(self.algebra.symbols(each.expr))]
        self.runtime_asserts[asserted:] = kept

    def trust(self, expr: Any) -> None:
        """Takes a condition for true without a check, as a range that an operator guarantees for the size of its result."""
        condition = self.boolean(expr)
        if self.hint_of(condition) is None and self.facts.decide(condition) is None:
            self.facts.learn(condition)

    def hint_of(self, expr: Any) -> Any:
        """The value in the traced call; None where it depends on data."""
        if expr.hint is not None:
            return expr.hint
        return self.facts.replacements.reduce_any(expr).hint

    def record(self, condition: BoolExpr, why: Why, where: Any = None) -> None:
        """Adds a guard on a condition that is not known yet."""
        if self.suppressed:
            return
        self._check_not_frozen(condition)
        place = self.where() if where is None else where
        about_data = condition.hint is None  # though what it comes to, by what is known of the data, is not
        sharpened = self.facts.sharpen(self.simplify(condition) if about_data else condition)
        self.guards.append(ShapeGuard(sharpened, why, place, condition))
        self.facts.learn(condition)
        if sharpened != condition:
            self.facts.learn(sharpened)

    def _check_not_frozen(self, condition: BoolExpr) -> None:
        if self.frozen:
            raise FrozenError(f"the shapes of this trace are final, but {condition.sympy} would have to be guarded on")

    @contextlib.contextmanager
    def suppress_guards(self) -> Iterator[None]:
        """Within, conditions are decided by their hints and no guards are added."""
        self.suppressed += 1
        try:
            yield
        finally:
            self.suppressed -= 1

    def freeze(self) -> None:
        """From now on a decision that needs a new guard is an error."""
        self.frozen = True

    # -- expressions ---------------------------------------------------------------------------------------------

    # Each takes an expression of this env, which it returns as it is, or one of SymPy, which it translates. Raises TypeError for
    # an expression of another kind.

    def boolean(self, expr: Any) -> BoolExpr:
        return self._coerce(expr, BoolExpr, "a condition")

    def integer(self, expr: Any) -> IntExpr:
        return self._coerce(expr, IntExpr, "an integer")

    def float_(self, expr: Any) -> FloatExpr:
        return self._coerce(expr, FloatExpr, "a float")

    def _coerce(self, expr: Any, kind: type[_E], what: str) -> _E:
        if not isinstance(expr, (BoolExpr, IntExpr, FloatExpr)):
            expr = self.algebra.from_sympy(expr)
        if not isinstance(expr, kind):
            raise TypeError(f"expected {what}, got the {type(expr).__name__} {expr}")
        if expr.algebra is not self.algebra:
            raise ValueError(f"{expr} belongs to another ShapeEnv")
        return expr

    def simplify(self, expr: Any) -> Any:
        """The expression, after replacing symbols by known equalities."""
        if not isinstance(expr, (BoolExpr, IntExpr, FloatExpr)):
            expr = self.algebra.from_sympy(expr)
        return self.facts.replacements.reduce_any(expr)

    def bounds(self, expr: Any) -> Range:
        """The interval in which an integer expression lies."""
        return self.facts.range(self.integer(expr))

    # -- what the trace relies on --------------------------------------------------------------------------------

    def recorded_guards(self) -> list[sympy.Basic]:
        """All conditions that the trace relies on, over the symbols, and over one more symbol for each further label of a
        symbol."""
        return [fact.condition for fact in emission.recorded_facts(self)]

    def produce_guards(self, *, prune: bool = True) -> list[GuardText]:
        """The guards to be checked at the entry; with `prune`, without those that the others imply."""
        return emission.produce(self, prune=prune)

    def check_constraints(self) -> None:
        """Raises ConstraintViolationError where the program contradicts a mark."""
        emission.check_constraints(self)


def _need(value: Any, kind: type, label: Label) -> None:
    if not isinstance(value, kind) or (kind is not int and isinstance(value, bool)):
        expected = "an int" if kind is int else "a float"
        raise TypeError(f"{label.name} must be {expected}, got {type(value).__name__} {value!r}")
