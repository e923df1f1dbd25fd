"""All that is guarded of a trace: what was recorded on the way, and what only the whole of it tells."""
from __future__ import annotations

from typing import Any

from shapes import GuardText
from tracer import guards, user_marks
from tracer.interpreter.trace import Trace
from tracer.sources import ArrayTensorSource, ObjectSource
from tracer.variables.mappings import DictVariable
from tracer.variables.objects import UserObjectVariable
from tracer.variables.sequences import ListVariable
from tracer.variables.streams import EnumerateStream, StreamVariable


def guards_of(trace: Trace, snapshot: Any, shapes: list[GuardText]) -> list[guards.Guard]:
    """`snapshot`: torch's state when the trace began; `shapes`: what its ShapeEnv emitted."""
    return [
        guards.GlobalStateMatch(snapshot),
        *_unchanged(trace),
        *trace.output.guards,
        *_marks(trace),
        *_distinct(trace),
        *trace.memory_guards(),
        *_shape_guards(shapes),
    ]


def _distinct(trace: Trace) -> list[guards.Guard]:
    """Inputs that were different objects stay so, where it matters: tensors, and containers if one was changed."""
    found: list[guards.Guard] = []
    sources = [v.source for v in trace.input_tensors if v.source is not None]
    tensors = [_identified(source) for source in sources if not isinstance(source.root(), ObjectSource)]
    if len(tensors) > 1:
        found.append(guards.Distinct(tuple(tensors)))
    kinds = (ListVariable, DictVariable, UserObjectVariable, StreamVariable, EnumerateStream)
    if any(target.source is not None and isinstance(target, kinds) for target in trace.effects.mutated):
        sources = [v.source for v in trace.builder.existing() if isinstance(v, kinds) and v.source is not None]
        if len(sources) > 1:
            found.append(guards.Distinct(tuple(sources)))
    return found


def _identified(source: Any) -> Any:
    """What has an identity: the array, where a tensor only lies in its memory."""
    return source.base if isinstance(source, ArrayTensorSource) else source


def _unchanged(trace: Trace) -> list[guards.Guard]:
    """Classes and functions that the trace went through are as they were."""
    found = trace.findings
    return [guards.Unchanged.of(found)] if found.classes or found.functions else []


def _marks(trace: Trace) -> list[guards.Guard]:
    """The marks on the dims of inputs that the trace knew."""
    if not trace.marks:
        return []
    return [guards.MarksMatch.of(user_marks.DIMS, trace.marks, user_marks.changes, trace.marks_counted)]


def _shape_guards(texts: list[GuardText]) -> list[guards.Guard]:
    lines = [guards.ShapeLine.of(text.executable, text.recorded, text.where) for text in texts]  # type: ignore[arg-type]
    return [guards.ShapeGuards(tuple(lines))] if lines else []
