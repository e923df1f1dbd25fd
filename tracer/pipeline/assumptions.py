"""What a user could assume of sizes so that a graph does not break: `torch._check(x.shape[0] <= buffer.shape[0])`.

A branch on a size that data decide breaks the graph. Where a relation of the declared sizes would decide it, `shapes.solver`
finds the weakest one. It is written with the names that the frame has at the user's line, innermost frame first, to be pasted
there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shapes import known, solver
from shapes.conversion import NotAnExpression
from shapes.printing import relation_source
from shapes.relations import BoolExpr
from tracer.errors import Unsupported
from tracer.graph.fakes.fake_tensors import is_symbolic
from tracer.sources.written import argument_as_written, as_written
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from shapes.env import ShapeEnv
    from tracer.interpreter.trace import Trace
    from tracer.interpreter.translator import InstructionTranslator

Names = Mapping[Any, str]  # symbol -> Python text


@dataclasses.dataclass
class Question:
    """A condition that a trace could not decide, its facts, and the names of sizes in the open frames. Outlives the trace."""

    asked: Any
    facts: list[Any]
    here: dict[Any, int]  # each size that is connected with the condition, and its value in the traced call
    frames: list[tuple[object, Names]]  # where to paste, and what sizes are called there; innermost first
    _text: str | None = None

    def text(self) -> str:
        """The line to paste, and where; "" if nothing decides the condition. Worked out when it is first asked for."""
        if self._text is None:
            self._text = next(self._answers(), "")
        return self._text

    def _answers(self) -> Iterator[str]:
        tried: set[Any] = set()
        for place, names in self.frames:
            if set(names) <= tried:
                continue
            tried |= set(names)
            here = {size: value for size, value in self.here.items() if size in names}
            found = solver.weakest_assumption(self.asked, self.facts, here) if here else None
            if found is not None:
                yield f"torch._check({relation_source(found.condition, names)}) before {place} decides it"


def question_of(trace: Trace, error: Unsupported, begins: bool) -> Question | None:
    """What could be assumed about the condition for which the graph breaks. `begins`: whether the root frame is that of a
    function of the user's from its first line on."""
    env = trace.output.world.env
    if error.undecided is None or trace.frame is None:
        return None
    try:
        asked = env.algebra.from_sympy(error.undecided)
    except NotAnExpression:
        return None
    facts = known.related_facts(env, asked) if isinstance(asked, BoolExpr) else None
    if facts is None:
        return None
    connected = set(asked.sympy.free_symbols).union(*(fact.free_symbols for fact in facts))
    here = {s.sympy: s.hint for s in env.symbols() if s.sympy in connected and s.hint is not None}
    open_frames = trace.frame.frames()
    frames: list[tuple[object, Names]] = [
        (frame.location(), _names(trace, frame, env)) for frame in reversed(open_frames) if _has_lines(frame)
    ]
    if begins and _has_lines(open_frames[0]):
        frames.append((f"the first line of {open_frames[0].code.co_name}", _names_of_arguments(env)))
    return Question(asked.sympy, facts, here, frames) if here else None


def _has_lines(frame: InstructionTranslator) -> bool:
    """Whether a line can be pasted there: not into a lambda or a comprehension."""
    return not frame.is_polyfill and frame.code.co_name not in ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def _names(trace: Trace, frame: InstructionTranslator, env: ShapeEnv) -> Names:
    """The sizes that a frame can name now. A name that was bound anew stands for what it is bound to."""
    found: dict[Any, str] = {}
    changed = [target.source.name for target in trace.effects.mutated if target.source is not None]
    for name, value in frame.locals.items():
        if not name.isidentifier() or value is None:
            continue
        for expr, text in _of_value(name, value):
            atom = expr.single_atom()
            if atom is not None and atom.symbol is not None and atom.symbol.hint is not None:
                found.setdefault(atom.symbol.sympy, text)
        if getattr(value, "source", None) is not None and not isinstance(value, (TensorVariable, SymNodeVariable)):
            for symbol, text in _by_label(env, name, value.source.name, changed):
                found.setdefault(symbol, text)
    return found


def _names_of_arguments(env: ShapeEnv) -> Names:
    found: dict[Any, str] = {}
    for symbol in env.symbols():
        for label in symbol.labels:
            text = argument_as_written(label.name)
            if text is not None and not symbol.kind.is_float:
                found.setdefault(symbol.sympy, text)
    return found


def _of_value(name: str, value: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(value, TensorVariable):
        for dim, size in enumerate(value.fake.shape):
            if is_symbolic(size):
                yield size.node.value, f"{name}.shape[{dim}]"
    elif isinstance(value, SymNodeVariable) and value.python_type() is int:
        yield value.example.node.value, name


def _by_label(env: ShapeEnv, name: str, path: str, changed: list[str]) -> Iterator[tuple[Any, str]]:
    """The sizes that are reached from an argument, or from an object that it leads to: `self.buffer.shape[0]`."""
    for symbol in env.symbols():
        for label in symbol.labels:
            steps = label.name.removeprefix(path)
            if steps == label.name or not steps.startswith((".", "[")) and (steps or symbol.kind.is_float):
                continue
            text = as_written(name, steps)
            if text is not None and not any(label.name.startswith(each) for each in changed):
                yield symbol.sympy, text
