"""The shape programs run by a ShapeEnv: the guards of real traces, after its own simplification and pruning."""

import functools
import inspect
from dataclasses import dataclass
from typing import Any

from shapes.env import ShapeEnv
from shapes.floats import FloatExpr
from shapes.guards import GuardText
from shapes.policy import DimPolicy
from shapes.polynomial import IntExpr
from tests.shapes.equivalence.recording import Refused
from tests.shapes.equivalence.table import SIGNED, GuardSet, recorded_sets


@dataclass(frozen=True)
class Place:
    name: str


class Value:
    """An expression of an env, with Python's operators."""

    def __init__(self, run: "Run", expr: Any) -> None:
        self.run = run
        self.expr = expr

    def _pair(self, other: Any) -> tuple[Any, Any, bool]:
        a, b = self.expr, self.run.expr(other)
        if isinstance(a, FloatExpr) or isinstance(b, FloatExpr):
            return self.run.real(a), self.run.real(b), True
        return a, b, False

    def _apply(self, name: str, other: Any, *, swap: bool = False) -> "Value":
        a, b, is_float = self._pair(other)
        if swap:
            a, b = b, a
        algebra = self.run.env.algebra
        if is_float:
            return Value(self.run, algebra.float_operation(name, a, b))
        simple = {"add": algebra.add, "sub": algebra.sub, "mul": algebra.mul}
        return Value(self.run, simple[name](a, b) if name in simple else algebra.apply(name, a, b))

    def _compare(self, op: str, other: Any) -> "Value":
        a, b, is_float = self._pair(other)
        algebra = self.run.env.algebra
        return Value(self.run, (algebra.float_relation if is_float else algebra.relation)(op, a, b))

    def __neg__(self):
        return 0 - self

    def __abs__(self):
        return Value(self.run, abs(self.expr))

    __hash__ = None


def _operator(name, swap):
    return lambda self, other: self._apply(name, other, swap=swap)


for _python, _name in {
    "add": "add", "sub": "sub", "mul": "mul", "floordiv": "floordiv", "mod": "mod", "pow": "pow", "and": "bitand",
    "or": "bitor", "xor": "bitxor", "lshift": "lshift", "rshift": "rshift",
}.items():  # fmt: skip
    setattr(Value, f"__{_python}__", _operator(_name, swap=False))
    setattr(Value, f"__r{_python}__", _operator(_name, swap=True))
for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Value, f"__{_op}__", lambda self, other, op=_op: self._compare(op, other))


class Run:
    """A run in which the env decides."""

    def __init__(self) -> None:
        self.env = ShapeEnv(duck_shape=False)
        self.decisions: list[bool] = []

    def expr(self, value: Any) -> Any:
        return value.expr if isinstance(value, Value) else self.env.algebra.constant(value)

    def real(self, expr: Any) -> FloatExpr:
        return self.env.algebra.to_float(expr) if isinstance(expr, IntExpr) else expr

    def decide(self, asked: Any) -> bool:
        self.decisions.append(self.env.evaluate_expr(asked.expr) if isinstance(asked, Value) else asked)
        return self.decisions[-1]

    def check(self, asked: Any) -> None:
        if not self.decide(asked):
            raise Refused

    def either(self, a: Any, b: Any) -> Value:
        return Value(self, self.expr(a) | self.expr(b))

    def both(self, a: Any, b: Any) -> Value:
        return Value(self, self.expr(a) & self.expr(b))

    def max(self, *args: Any) -> Value:
        return Value(self, functools.reduce(self.env.algebra.maximum, map(self.expr, args)))

    def min(self, *args: Any) -> Value:
        return Value(self, functools.reduce(self.env.algebra.minimum, map(self.expr, args)))

    def floor(self, a: Any) -> Value:
        return Value(self, self.env.algebra.rounded("floor", self.expr(a)))

    def ceil(self, a: Any) -> Value:
        return Value(self, self.env.algebra.rounded("ceil", self.expr(a)))

    def integer(self, a: Any) -> Value:
        return Value(self, self.env.algebra.rounded("trunc", self.expr(a)))

    def ratio(self, a: Any, b: Any) -> Value:
        a, b = self.expr(a), self.expr(b)
        name = "truediv" if isinstance(a, FloatExpr) or isinstance(b, FloatExpr) else "int_truediv"
        return Value(self, self.env.algebra.float_operation(name, a, b))


@dataclass(frozen=True)
class Trace:
    """What an env recorded and emits for a program; `guards` is what the plain recorder wrote down for that call."""

    guards: GuardSet
    env: ShapeEnv
    decisions: tuple[bool, ...]
    texts: tuple[GuardText, ...]

    def to_names(self, condition: Any) -> Any:
        """A condition over the env's symbols as one over the program's sizes."""
        sizes = {symbol.name: symbol for symbol in self.guards.symbols}
        return condition.xreplace({s.sympy: sizes[s.label.name] for s in self.env.symbols() if s.label is not None})


def trace(guards: GuardSet) -> Trace:
    run = Run()
    sizes = []
    for name, hint in zip(list(inspect.signature(guards.program).parameters)[1:], guards.hints):
        if hint >= 2 and guards.program.__name__ not in SIGNED:
            sizes.append(Value(run, run.env.create_size(hint, Place(name), DimPolicy.DYNAMIC)))
        else:
            sizes.append(Value(run, run.env.create_int(hint, Place(name))))
    guards.program(run, *sizes)
    return Trace(guards, run.env, tuple(run.decisions), tuple(run.env.produce_guards()))


@functools.cache
def traces() -> list[Trace]:
    return [trace(guards) for guards in recorded_sets()]
