"""Emits the guards of `check_fn` from the facts that a trace recorded, and the errors about marks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sympy

from shapes import solver
from shapes.constraints import DimConstraint, Violation, violation_error
from shapes.guards import Fact, GuardText, ShapeGuard, Why
from shapes.printing import group, python_source
from shapes.ranges import INF
from shapes.regions import Condition, ShapeRecord
from shapes.symbols import Label, Symbol

if TYPE_CHECKING:
    from shapes.env import ShapeEnv


def recorded_facts(env: ShapeEnv) -> list[Fact]:
    """All facts that the trace relies on: base ranges, equalities between places, and decisions, in this order."""
    return [*_base_facts(env), *(Fact(e.condition, e.why) for e in equalities(env)), *_decisions(env)]


def _base_facts(env: ShapeEnv) -> list[Fact]:
    """The base ranges of symbols that come from inputs. Symbols that were created in the trace need no check at the entry."""
    return [Fact(condition, why) for symbol in env.symbols() if symbol.labels for condition, why in _base_conditions(env, symbol)]


def _decisions(env: ShapeEnv) -> list[Fact]:
    return [Fact(guard.sympy, guard.why, guard.where, guard.recorded) for guard in env.guards]


def _base_conditions(env: ShapeEnv, symbol: Symbol) -> list[tuple[Any, Why]]:
    """The base range of a symbol as conditions, such as 2 <= s0; without those that always hold."""
    constraint = env.constraints.get(symbol)
    conditions = []
    name = symbol.sympy
    low, high = symbol.base
    if low > symbol.trusted[0]:
        marked = constraint is not None and constraint.min is not None and low == constraint.min and low > 2
        conditions.append((name >= low, Why.MARK if marked else Why.BASE))
    if high < symbol.trusted[1]:
        conditions.append((name <= high, Why.MARK))
    if symbol in env.declared_symbols:
        return [(condition, Why.DECLARED) for condition, _ in conditions]
    return conditions


@dataclasses.dataclass(frozen=True)
class Equality:
    """A place whose value equals an expression: another size that shares a duck-shaped symbol, or a stride."""

    alias: sympy.Symbol  # stands for the value at the label
    label: Label
    expr: Any  # IntExpr
    why: Why

    @property
    def condition(self) -> Any:
        return sympy.Eq(self.alias, self.expr.sympy, evaluate=False)


def equalities(env: ShapeEnv) -> list[Equality]:
    found = [
        Equality(
            sympy.Symbol(f"{symbol.name}_{i}", integer=True),
            label,
            symbol.expr,
            Why.DECLARED if symbol in env.declared_symbols else Why.DUCK,
        )
        for symbol in env.symbols()
        for i, label in enumerate(symbol.labels)
        if i > 0
    ]
    for i, (label, expr, why) in enumerate(env.bindings.values()):
        found.append(Equality(sympy.Symbol(f"b{i}", integer=True), label, expr, why))
    return found


def trusted_facts(env: ShapeEnv) -> list[Any]:
    """Facts that hold without a check: no size is negative."""
    return [s.sympy >= s.trusted[0] for s in env.symbols() if s.labels and s.trusted[0] != -INF]


# --------------------------------------------------------------------------------------------------- emitting


def produce(env: ShapeEnv, *, prune: bool) -> list[GuardText]:
    """The recorded facts as text, in reading order; with `prune`, without those that the others imply."""
    texts = _GuardTexts(env)
    equal = [texts.equality(each) for each in equalities(env)]
    facts = [*_base_facts(env), *_decisions(env)]
    kept = _prune(facts, trusted_facts(env)) if prune else [(fact.condition, fact) for fact in facts]
    lines = group([condition for condition, _ in kept])
    return equal + [texts.condition(line.expr, [kept[index][1] for index in line.members]) for line in lines]


def record(env: ShapeEnv, texts: Sequence[GuardText]) -> ShapeRecord:
    """The emitted guards as data that does not refer to the env."""
    conditions = tuple([Condition(text.condition, text.why, text.where, text.recorded) for text in texts])
    places = {s.sympy: s.labels[0] for s in env.symbols() if s.labels} | {e.alias: e.label for e in equalities(env)}
    return ShapeRecord(conditions, places)


def _is_bound(condition: Any) -> bool:
    """Whether a condition has the form `symbol >= value` or `symbol <= value`."""
    return isinstance(condition, (sympy.Ge, sympy.Le)) and condition.lhs.is_Symbol and condition.rhs.is_Integer


def _prune(facts: Sequence[Fact], trusted: Sequence[Any]) -> list[tuple[Any, Fact]]:
    result = solver.prune([fact.condition for fact in facts], trusted)
    return [(condition, facts[index]) for condition, index in zip(result.kept, result.indices, strict=True)]


def _equals(place: str, value: str) -> str:
    return f"{place} == ({value})" if " if " in value else f"{place} == {value}"


class _GuardTexts:
    """The texts of guards, with the labels of symbols in place of the symbols. What was asked may be about an unbacked symbol,
    which has none, where the answer is a guard on others."""

    def __init__(self, env: ShapeEnv) -> None:
        self.labels = {s.sympy: s.labels[0] for s in env.symbols() if s.labels}
        self.names = {s.sympy: s.labels[0].name if s.labels else s.name for s in env.symbols()}
        self._known: dict[Any, str] = {}

    def over(self, condition: Any, render: Callable[[Label], str]) -> str:
        return python_source(condition, {symbol: render(self.labels[symbol]) for symbol in condition.free_symbols})

    def readable(self, condition: Any) -> str:
        text = self._known.get(condition)
        if text is None:
            text = self._known[condition] = python_source(condition, self.names)
        return text

    def equality(self, each: Equality) -> GuardText:
        expr = each.expr.sympy
        text = _equals(each.label.name, self.readable(expr))

        def executable(render: Callable[[Label], str]) -> str:
            return _equals(render(each.label), self.over(expr, render))

        return GuardText(text, executable, None, text, each.condition, each.why)

    def condition(self, condition: Any, facts: Sequence[Fact]) -> GuardText:
        recorded = [fact.condition if fact.recorded is None else fact.recorded for fact in facts]
        return GuardText(
            readable=self.readable(condition),
            executable=lambda render: self.over(condition, render),
            where=next((fact.where for fact in facts if fact.where is not None), None),
            recorded=" and ".join(map(self.readable, recorded)),
            condition=condition,
            why=next((fact.why for fact in facts if fact.why is not Why.BASE), Why.BASE),
        )


# ---------------------------------------------------------------------------------------------------- marks


def check_constraints(env: ShapeEnv) -> None:
    """Raises for every strict mark that the program specialises, or whose bounds it does not serve in full."""
    violations = []
    for symbol, constraint in env.constraints.items():
        if constraint.strict:
            violations += [_violation(env, symbol, constraint, forced) for forced in _contradictions(env, symbol)]
    if violations:
        raise violation_error(violations)


def _contradictions(env: ShapeEnv, symbol: Symbol) -> list[Any]:
    """The conditions that the program forces on a marked symbol: one value, or a part of the range of the mark."""
    value = _forced_value(env, symbol)
    if value is not None:
        return [sympy.Eq(symbol.sympy, value)]
    constraint = env.constraints[symbol]
    if not constraint.bounded:
        return []
    low, high = env.facts.range(symbol.expr)
    found = []
    if constraint.min is not None and low > symbol.base[0]:
        found.append(symbol.sympy >= int(low))
    if constraint.max is not None and high < symbol.base[1]:
        found.append(symbol.sympy <= int(high))
    found += [guard.sympy for guard in env.guards if env.algebra.symbols(guard.expr) == [symbol] and not _is_bound(guard.sympy)]
    return found


def _forced_value(env: ShapeEnv, symbol: Symbol) -> int | None:
    """The value of a symbol, if the decisions leave only one. None also if its bounds alone leave only one."""
    if symbol.base[0] == symbol.base[1]:
        return None
    low, high = env.facts.range(symbol.expr)
    if low == high:
        return int(low)
    if not any(symbol in env.algebra.symbols(guard.expr) for guard in env.guards):
        return None
    return solver.forced_value([*_known_without_program(env), *(guard.sympy for guard in env.guards)], symbol.sympy)


def _known_without_program(env: ShapeEnv) -> list[Any]:
    """The facts about symbols that hold before any decision of the program."""
    base = [condition for symbol in env.symbols() for condition, _ in _base_conditions(env, symbol)]
    return [*base, *trusted_facts(env)]


def _violation(env: ShapeEnv, symbol: Symbol, constraint: DimConstraint, forced: Any) -> Violation:
    causes = _causes(env, forced)
    texts = _GuardTexts(env)
    assert symbol.label is not None
    return Violation(
        name=symbol.label.name,
        constraint=constraint,
        forced=texts.readable(forced),
        causes=tuple(causes),
        lines=tuple(_cause_text(cause, texts) for cause in causes),
    )


def _causes(env: ShapeEnv, goal: Any) -> list[ShapeGuard]:
    """The fewest decisions that together force the goal; all of them if that cannot be proved."""
    found = solver.core([guard.sympy for guard in env.guards], goal, given=_known_without_program(env))
    return list(env.guards) if found is None else [env.guards[index] for index in found]


def _cause_text(guard: ShapeGuard, texts: _GuardTexts) -> str:
    text = texts.readable(guard.recorded)
    return text if guard.where is None else f"{text}  ({guard.where})"
