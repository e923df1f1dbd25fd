"""The guards of a trace: those recorded while tracing, and those that need the whole trace, such as distinct objects."""

from __future__ import annotations

import inspect
import itertools
from types import CodeType
from typing import Any

from shapes import GuardText
from tracer import user_marks
from tracer.bytecode.slots import slot_of_others
from tracer.effects.shared_dicts import may_be_its_own_dict
from tracer.graph.fakes.nested_fakes import is_nested, ragged_size_of
from tracer.guards.base import Guard
from tracer.guards.identity import Distinct, SameObject, TypeMatch
from tracer.guards.nested import RaggedMatch
from tracer.guards.shapes import ShapeGuards, ShapeLine
from tracer.guards.state import GlobalStateMatch
from tracer.guards.tensors import ALWAYS, MarksMatch
from tracer.guards.unchanged import Unchanged
from tracer.interpreter.trace import Trace
from tracer.protocol.variable import whole
from tracer.sources.attributes import AttrSource, InstanceDictSource
from tracer.sources.base import Source
from tracer.sources.builtin_iterators import iterated
from tracer.sources.iterators import IteratedSource
from tracer.sources.reading import instance_dict
from tracer.sources.roots import ArgumentSource, LocalSource, ObjectSource
from tracer.sources.tensors import ArrayTensorSource
from tracer.variables.containers.deques import DequeVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.sets import SetVariable
from tracer.variables.iterators.existing_iterators import CountStream, EnumerateStream, StreamVariable
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.objects.objects import UserObjectVariable

_CONTAINERS = (
    ListVariable, DictVariable, SetVariable, DequeVariable, BufferVariable, UserObjectVariable, StreamVariable, EnumerateStream,
    CountStream,
)  # fmt: skip


def guards_of(trace: Trace, code: CodeType, snapshot: Any, shapes: list[GuardText]) -> list[Guard]:
    """`code`: of the frame; `snapshot`: torch's global state when the trace began; `shapes`: the emitted shape guards."""
    return [
        GlobalStateMatch(snapshot),
        *_unchanged_definitions(trace),
        *_call_form(trace),
        *trace.output.guards,
        *_dim_marks(trace),
        *_distinct_tensors(trace),
        *_ragged_sizes(trace),
        *_distinct_containers(trace, code),
        *_iterators_over_others(trace),
        *_attributes_apart(trace, code),
        *_distinct_keys(trace),
        *trace.memory_guards(),
        *_shape_guards(shapes),
    ]


def _call_form(trace: Trace) -> list[Guard]:
    """What the program saw of how its arguments were passed."""
    return [] if trace.call_form is None else list(dict.fromkeys(trace.call_form.all_guards()))


def _distinct_tensors(trace: Trace) -> list[Guard]:
    """Inputs that were different tensors must be different tensors."""
    sources = [v.source for v in trace.input_tensors if v.source is not None]
    tensors = [_source_with_identity(source) for source in sources if not isinstance(source.root(), ObjectSource)]
    return [Distinct(tuple(tensors))] if len(tensors) > 1 else []


def _ragged_sizes(trace: Trace) -> list[Guard]:
    """Nested tensors, and tensors that they are made of, must share ragged sizes as they did. That of a nested tensor says it for
    its offsets and lengths, too."""
    if not trace.output.world.fake_mode.met_nested:
        return []
    nested = {variable.source for variable in trace.input_tensors if is_nested(variable.fake)}
    numbers: dict[Source, int] = {}
    for variable in trace.input_tensors:
        size, source = ragged_size_of(variable.fake), variable.source
        if size is not None and source is not None and not (type(source) is AttrSource and source.base in nested):
            numbers[source] = size.number
    order = list(numbers.values())
    return [RaggedMatch(tuple(numbers), tuple(map(order.index, order)))] if len(numbers) > 1 else []


def _distinct_containers(trace: Trace, code: CodeType) -> list[Guard]:
    """A container or object that the trace changed must be another object than those that it could alias: all of the same class,
    also dicts that were only seen to be empty. The dict of **kwargs is made by the call, so it aliases none."""
    keywords = slot_of_others(code, inspect.CO_VARKEYWORDS)
    made = None if keywords is None else LocalSource(keywords)

    mutated = [variable.source for variable in trace.effects.mutated if isinstance(variable, _CONTAINERS)]
    changed = [source for source in mutated if source is not None and source != made]
    if not changed:
        return []
    existing = [source for source in trace.builder.places(_CONTAINERS) if source != made]
    classes = {guard.source: guard.cls for guard in trace.output.guards if type(guard) is TypeMatch}
    same: list[Guard] = []
    for identity, (place, cls) in trace.seen_empty.items():
        met_at = trace.builder.place_of(identity)
        if met_at is None:
            existing.append(place)
            classes[place] = cls
        elif met_at != place:
            same.append(SameObject(met_at, place))
    groups = [
        tuple([source for source in existing if cls is None or classes.get(source) in (None, cls)])
        for cls in dict.fromkeys(classes.get(source) for source in changed)
    ]
    return [*same, *(Distinct(group) for group in groups if len(group) > 1)]


def _iterators_over_others(trace: Trace) -> list[Guard]:
    """An iterator that the trace took from must go over another container than those that the trace changed."""
    streams = [each for each in trace.builder.existing() if isinstance(each, StreamVariable) and each.was_asked]
    changed = [each.source for each in trace.effects.mutated if isinstance(each, _CONTAINERS)] if streams else []
    return [
        Distinct((source, IteratedSource(stream.source)))
        for stream in streams
        for source in changed
        if source not in (None, stream.source) and trace.builder.place_of(id(iterated(stream.value))) != source
    ]


def _attributes_apart(trace: Trace, code: CodeType) -> list[Guard]:
    """The attributes of a dict that the trace changed must not be its items. A dict that is an argument must not hold the
    attributes of an object, as `vars()` of it does, where the trace changed either."""
    changed = dict.fromkeys(whole(each) for each in trace.effects.mutated)
    pairs = [(each.source, each.source) for each in changed if each.source is not None and may_be_its_own_dict(each)]
    dicts = _passed_dicts(trace, code) if changed else []
    met = trace.builder.met() if dicts else ()
    holders = [holder for value, holder in met if instance_dict(value) is not None]
    for items, holder in itertools.product(dicts, holders):
        if holder.source is not None and holder is not items:
            if holder in changed or (items in changed and _is_argument(holder.source)):
                pairs.append((items.source, holder.source))
    return [Distinct((items, InstanceDictSource(holder))) for items, holder in dict.fromkeys(pairs)]


def _passed_dicts(trace: Trace, code: CodeType) -> list[Any]:
    """The tracked dicts that are arguments; not that of **kwargs, which the call makes."""
    made = slot_of_others(code, inspect.CO_VARKEYWORDS)
    known = (each for each in trace.builder.existing() if isinstance(each, DictVariable) and _is_argument(each.source))
    return [each for each in known if made is None or each.source != LocalSource(made)]


def _is_argument(source: Source | None) -> bool:
    return isinstance(source, (LocalSource, ArgumentSource))


def _distinct_keys(trace: Trace) -> list[Guard]:
    """Keys that are compared by identity must be different objects where a lookup took them for different keys."""
    return [Distinct(sources) for sources in trace.hashed.apart(trace.builder.is_by_identity)]


def _source_with_identity(source: Source) -> Any:
    """The object to compare by identity: the array, for a tensor that was made over the memory of one."""
    return source.base if isinstance(source, ArrayTensorSource) else source


def _unchanged_definitions(trace: Trace) -> list[Guard]:
    """Classes and functions that the trace relied on must be unchanged."""
    found = trace.findings
    noted = found.classes or found.functions or found.asked or found.of_process
    return [Unchanged.of(found)] if noted else []


def _dim_marks(trace: Trace) -> list[Guard]:
    """The inputs must have the same marks on their dims. Tensors that were marked before may come at a later call."""
    if not trace.marks:
        return []
    inputs = {id(item.real) for item in trace.output.inputs.values()}
    others = any(id(tensor) not in inputs for tensor in user_marks.marked.objects())
    return [MarksMatch.of(user_marks.DIMS, trace.marks, user_marks.changes, ALWAYS if others else trace.marks_counted)]


def _shape_guards(texts: list[GuardText]) -> list[Guard]:
    lines = [ShapeLine.of(text.executable, text.recorded, text.where) for text in texts]
    return [ShapeGuards(tuple(lines))] if lines else []
