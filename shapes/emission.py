"""From what a trace recorded to the guards that its `check_fn` runs, and to the errors about marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy

from shapes import solver
from shapes.constraints import DimConstraint, Violation, violation_error
from shapes.guards import Fact, GuardText, ShapeGuard, Why
from shapes.printing import group, python_source
from shapes.ranges import INF
from shapes.symbols import Label, Symbol

if TYPE_CHECKING:
    from shapes.env import ShapeEnv


def recorded_facts(env: ShapeEnv) -> list[Fact]:
    """Base ranges, equalities of duck-shaped sizes, and every decision, in this order."""
    facts = []
    for symbol in env.symbols():
        if not symbol.labels:
            continue  # born in the trace: nothing to check at the entry
        facts += [Fact(condition, why) for condition, why in _base_conditions(env, symbol)]
        facts += [Fact(sympy.Eq(alias, symbol.sympy, evaluate=False), Why.DUCK) for alias in aliases(symbol)]
    facts += [
        Fact(sympy.Eq(alias, expr.sympy, evaluate=False), Why.LAYOUT)
        for alias, (_, expr) in zip(binding_symbols(env), env.bindings.values(), strict=True)
    ]
    facts += [Fact(guard.sympy, guard.why, guard.where, guard.recorded) for guard in env.guards]
    return facts


def _base_conditions(env: ShapeEnv, symbol: Symbol) -> list[tuple[Any, Why]]:
    """2 <= s0, and s0 <= the bound of a mark; nothing that is true anyway."""
    constraint = env.constraints.get(symbol)
    conditions = []
    name = symbol.sympy
    low, high = symbol.base
    if low > symbol.trusted[0]:
        marked = constraint is not None and constraint.min is not None and low == constraint.min and low > 2
        conditions.append((name >= low, Why.MARK if marked else Why.BASE))
    if high < symbol.trusted[1]:
        conditions.append((name <= high, Why.MARK))
    return conditions


def aliases(symbol: Symbol) -> list[sympy.Symbol]:
    """One more symbol for each further place where the value of a duck-shaped symbol was seen."""
    return [sympy.Symbol(f"{symbol.name}_{i}", integer=True) for i in range(1, len(symbol.labels))]


def binding_symbols(env: ShapeEnv) -> list[sympy.Symbol]:
    """A symbol for each place whose value is bound to an expression, such as a stride."""
    return [sympy.Symbol(f"b{i}", integer=True) for i in range(len(env.bindings))]


def labels(env: ShapeEnv) -> dict[sympy.Symbol, Label]:
    """Where the value of each symbol of `recorded_facts` is found."""
    found: dict[sympy.Symbol, Label] = {}
    for symbol in env.symbols():
        if symbol.labels:
            found[symbol.sympy] = symbol.labels[0]
            found.update(zip(aliases(symbol), symbol.labels[1:], strict=True))
    found.update(zip(binding_symbols(env), (label for label, _ in env.bindings.values()), strict=True))
    return found


def trusted_facts(env: ShapeEnv) -> list[Any]:
    """What holds without a check: no size is negative."""
    return [s.sympy >= s.trusted[0] for s in env.symbols() if s.labels and s.trusted[0] != -INF]


# --------------------------------------------------------------------------------------------------- emitting


def produce(env: ShapeEnv, *, prune: bool) -> list[GuardText]:
    """The recorded facts without what the rest implies, as text, in reading order."""
    facts = recorded_facts(env)
    names = labels(env)
    equalities = [fact for fact in facts if fact.why in (Why.DUCK, Why.LAYOUT)]
    others = without_weaker_bounds([fact for fact in facts if fact not in equalities])
    kept = _prune(others, trusted_facts(env)) if prune else [(fact.condition, fact) for fact in others]
    texts = [_text(fact.condition, [fact], names) for fact in equalities]
    for line in group([condition for condition, _ in kept]):
        texts.append(_text(line.expr, [kept[index][1] for index in line.members], names))
    return texts


def without_weaker_bounds(facts: Sequence[Fact]) -> list[Fact]:
    """Of several bounds on one symbol in one direction only the tightest."""
    best: dict[tuple[sympy.Symbol, str], tuple[int, Fact]] = {}
    bound_of = [_bound(fact.condition) for fact in facts]
    for fact, bound in zip(facts, bound_of, strict=True):
        if bound is None:
            continue
        symbol, side, value = bound
        known = best.get((symbol, side))
        if known is None or (value > known[0] if side == "low" else value < known[0]):
            best[symbol, side] = value, fact
    return [
        fact
        for fact, bound in zip(facts, bound_of, strict=True)
        if bound is None or best[bound[0], bound[1]][1] is fact
    ]


def _bound(condition: Any) -> tuple[sympy.Symbol, str, int] | None:
    """(symbol, "low" or "high", value) of `symbol >= value` or `symbol <= value`."""
    if isinstance(condition, (sympy.Ge, sympy.Le)) and condition.lhs.is_Symbol and condition.rhs.is_Integer:
        return condition.lhs, "low" if isinstance(condition, sympy.Ge) else "high", int(condition.rhs)
    return None


def _prune(facts: Sequence[Fact], trusted: Sequence[Any]) -> list[tuple[Any, Fact]]:
    if all(_bound(fact.condition) is not None for fact in facts):
        return [(fact.condition, fact) for fact in facts]  # bounds of different symbols: nothing implies another
    result = solver.prune([fact.condition for fact in facts], trusted)
    return [(condition, facts[index]) for condition, index in zip(result.kept, result.indices, strict=True)]


def _text(condition: Any, facts: Sequence[Fact], names: Mapping[sympy.Symbol, Label]) -> GuardText:
    readable = {symbol: label.name for symbol, label in names.items()}
    recorded = [fact.condition if fact.recorded is None else fact.recorded for fact in facts]

    def executable(render: Callable[[Label], str]) -> str:
        used = {symbol: render(names[symbol]) for symbol in condition.free_symbols}
        return python_source(condition, used)

    return GuardText(
        readable=python_source(condition, readable),
        executable=executable,
        where=next((fact.where for fact in facts if fact.where is not None), None),
        recorded=" and ".join(python_source(each, readable) for each in recorded),
        condition=condition,
        why=facts[0].why,
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
    """What the program makes of a marked symbol: one value, or, against its bounds, a part of them."""
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
    found += [
        guard.sympy
        for guard in env.guards
        if env.algebra.symbols(guard.expr) == [symbol] and _bound(guard.sympy) is None
    ]
    return found


def _forced_value(env: ShapeEnv, symbol: Symbol) -> int | None:
    """The one value that the decisions leave to a symbol, unless its bounds do so by themselves."""
    if symbol.base[0] == symbol.base[1]:
        return None
    low, high = env.facts.range(symbol.expr)
    if low == high:
        return int(low)
    if not any(symbol in env.algebra.symbols(guard.expr) for guard in env.guards):
        return None
    return solver.forced_value([*_given(env), *(guard.sympy for guard in env.guards)], symbol.sympy)


def _given(env: ShapeEnv) -> list[Any]:
    """What holds of the symbols before the program has decided anything."""
    base = [condition for symbol in env.symbols() for condition, _ in _base_conditions(env, symbol)]
    return [*base, *trusted_facts(env)]


def _violation(env: ShapeEnv, symbol: Symbol, constraint: DimConstraint, forced: Any) -> Violation:
    causes = _causes(env, forced)
    readable = {s: label.name for s, label in labels(env).items()}
    assert symbol.label is not None
    return Violation(
        name=symbol.label.name,
        constraint=constraint,
        forced=python_source(forced, readable),
        causes=tuple(causes),
        lines=tuple(_cause_text(cause, readable) for cause in causes),
    )


def _causes(env: ShapeEnv, goal: Any) -> list[ShapeGuard]:
    """The fewest decisions that together force the goal; all of them if that cannot be proved."""
    found = solver.core([guard.sympy for guard in env.guards], goal, given=_given(env))
    return list(env.guards) if found is None else [env.guards[index] for index in found]


def _cause_text(guard: ShapeGuard, readable: Mapping[sympy.Symbol, str]) -> str:
    text = python_source(guard.recorded, readable)
    return text if guard.where is None else f"{text}  ({guard.where})"
