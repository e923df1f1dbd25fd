"""Guards as data that `_C.Checklist` compares without running Python; what it cannot answer for is left to a function.

The guards that are taken here are those of which `guards.decision` tells all they demand, and a few more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

import torch

from tracer import _C
from tracer._C import STEP, WORD
from tracer.guards.base import Guard
from tracer.guards.constants import EqualsMatch
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, LengthMatch
from tracer.guards.decision import LEAST, MOST, PLAIN_TENSORS, Feature, Interval, Word, demands_of
from tracer.guards.identity import BoolMatch, Distinct, FunctionMatch, IdMatch, ModuleMatch, NoneMatch, TypeMatch
from tracer.guards.reading import Steps, argument_slots, readable
from tracer.guards.references import ObjectRef
from tracer.guards.shapes import ShapeLine
from tracer.guards.state import GlobalStateMatch
from tracer.guards.steady import CONSTANTS, Group
from tracer.guards.tensors import LeafMatch, MarksMatch, TensorMatch
from tracer.guards.unchanged import Unchanged
from tracer.sources import ItemSource, Source

# Of a class that derives from one of these, the list knows nothing.
_KINDS = (GlobalStateMatch, Unchanged, TensorMatch, Distinct, MarksMatch, TypeMatch, IdMatch, FunctionMatch, ModuleMatch,
          BoolMatch, NoneMatch, EqualsMatch, LeafMatch, LengthMatch, DictKeysMatch, DictContains,
          DictLengthReaches, ShapeLine)  # fmt: skip
_CONTAINERS = (list, tuple, dict)
_SINGLETONS = (bool, type(None), torch.dtype, torch.layout, torch.memory_format)


class ListBuilder:
    """Takes guards one by one; `build` makes the check_fn."""

    def __init__(self, code: CodeType, globals: dict[str, Any]) -> None:
        self._code = code
        self._steps = Steps.of_call(code, globals)
        self._state: Any = None
        self._counter: tuple[_C.Counter | None, int] = None, 0
        self._unchanged: Any = None
        self._groups: list[tuple[Any, Any, int]] = []
        self._held: dict[Source, tuple[int, int]] = {}  # leaf -> its group, and which of its tensors
        self._known_apart = -1
        self._known_classes: set[type] = set()
        self._features: dict[Feature, int] = {}
        self._ranges: dict[Feature, Interval] = {}
        self._equals: list[tuple[int, Any]] = []
        self._tensors: list[TensorMatch] = []
        self._apart: tuple[Source, ...] = ()
        self._types: dict[Source, type | None] = {}

    # ---- groups

    def take_group(self, group: Group, steady: Any, match: Any, apart: bool) -> bool:
        """`steady` and `match` are those that the function for all guards has; `apart`: its leaves are known to be distinct."""
        if not all(leaf.spec.cls in PLAIN_TENSORS and leaf.spec.dispatch_keys is not None for leaf in group.leaves):
            return False
        slots = argument_slots(self._code)
        root = -1 if group.root == CONSTANTS else slots.index(group.root) if group.root in slots else len(slots)
        if apart and self._known_apart < 0 and group.leaves:
            self._known_apart = len(self._groups)
            self._known_classes = {leaf.spec.cls for leaf in group.leaves}
        for index, leaf in enumerate(group.leaves):
            self._held[leaf.source] = len(self._groups), index
        self._groups.append((steady, match, root))
        return True

    # ---- guards

    def take(self, guard: Guard, unchanged: Any = None) -> bool:
        """Whether the list answers for this guard. `unchanged`: the watcher that the function for all guards has."""
        if type(guard) not in _KINDS:
            return False
        match guard:
            case GlobalStateMatch(snapshot) if self._state is None:
                self._state = snapshot
            case Unchanged() if unchanged is not None and self._unchanged is None:
                self._unchanged = unchanged
            case TensorMatch(source, spec):
                if not readable(source) or spec.cls not in PLAIN_TENSORS or spec.dispatch_keys is None:
                    return False
                self._tensors.append(guard)
            case Distinct(sources):
                if self._apart or not all(source in self._held or readable(source) for source in sources):
                    return False
                self._apart = sources
            case MarksMatch() if type(guard.changes) is _C.Counter and self._counter[0] is None:
                self._counter = guard.changes, guard.count
            case _:
                return self._take_words(guard)
        return True

    def _take_words(self, guard: Guard) -> bool:
        tests = self._exactly(guard)
        if tests is None or not all(readable(word.source) for feature, _ in tests for _, word in feature.terms):
            return False
        for feature, interval in tests:
            self._range(feature, interval)
        if isinstance(guard, TypeMatch):
            self._types[guard.source] = guard.cls.get()
        return True

    def _range(self, feature: Feature, interval: Interval) -> None:
        low, high = self._ranges.get(feature, (LEAST, MOST))
        self._ranges[feature] = max(low, interval[0]), min(high, interval[1])

    def _exactly(self, guard: Guard) -> list[tuple[Feature, Interval]] | None:
        """Intervals that say all that the guard says; None if that takes more. Texts are noted aside."""
        match guard:
            case TypeMatch(_, reference) | IdMatch(_, reference) | FunctionMatch(_, reference) | ModuleMatch(_, reference):
                return None if reference.dead else list(demands_of(guard))
            case BoolMatch() | NoneMatch(_, True):
                return list(demands_of(guard))
            case EqualsMatch(source, value):
                return self._constant(guard, source, value)
            case LeafMatch(source, is_leaf):
                return [(Feature(((1, Word(source, WORD.LEAF)),)), (int(is_leaf), int(is_leaf)))]
            case LengthMatch(source) | DictLengthReaches(source) if self._types.get(source) in _CONTAINERS:
                return list(demands_of(guard))
            case DictKeysMatch(source, keys, False) if self._types.get(source) is dict and readable(source):
                if not all(type(key) is str for key in keys):
                    return None
                self._equals.append((self._steps.of(source), keys))
                return []
            case DictContains(source, key, present) if self._types.get(source) is dict and readable(ItemSource(source, key)):
                if present:
                    self._steps.of(ItemSource(source, key))
                else:
                    self._steps.add(STEP.NO_ITEM, self._steps.of(source), key)
                return []
            case ShapeLine():
                found = list(demands_of(guard))
                words = [word for feature, _ in found for _, word in feature.terms]
                whole = len(found) == _comparisons(guard.template)
                ints = all(word.kind != WORD.INT or self._types.get(word.source) is int for word in words)
                return found if whole and ints else None
        return None

    def _constant(self, guard: EqualsMatch, source: Source, value: Any) -> list[tuple[Feature, Interval]] | None:
        cls = type(value)
        if cls is str and readable(source):
            self._equals.append((self._steps.of(source), value))
            return []
        if cls in _SINGLETONS:
            return [(Feature(((1, Word(source, WORD.ADDRESS)),)), (id(value), id(value)))]
        if (cls is ObjectRef and not value.dead) or (cls is int and LEAST <= value <= MOST) or (cls is float and value == value):
            return [test for test in demands_of(guard) if test[0].terms[0][1].kind != WORD.TYPE]
        return None

    # ---- the list

    def _value(self, source: Source) -> int | tuple[int, int]:
        return self._held[source] if source in self._held else self._steps.of(source)

    def _classes_of(self, sources: Iterable[Source]) -> set[type]:
        """The classes that tensors at the sources may have, where the list holds."""
        exact = {guard.source: guard.spec.cls for guard in self._tensors}
        return {cls for source in sources for cls in ([exact[source]] if source in exact else PLAIN_TENSORS)}

    def build(
        self,
        fetched: tuple[Source, ...] | None,
        rest: Callable[..., Any] | None,
        whole: Callable[..., Any],
    ) -> _C.Checklist:
        """`fetched`: what is handed out in place of True. `whole` checks all guards, `rest` those that were not taken."""
        tensors = [self._value(guard.source) for guard in self._tensors]
        known = self._known_apart
        if not {source for source, (group, _) in self._held.items() if group == known}.issubset(self._apart):
            known = -1
        others = [source for source in self._apart if not (source in self._held and self._held[source][0] == known)]
        apart = [self._value(source) for source in others]
        if self._known_classes.isdisjoint(self._classes_of(others)):  # objects of different classes are two
            known = -1
        handed = None if fetched is None else [self._value(source) for source in fetched]
        features = tuple([
            (feature.modulus, tuple([(factor, w.kind, w.dim, self._steps.of(w.source)) for factor, w in feature.terms]))
            for feature in self._ranges
        ])  # fmt: skip
        ranges = [(index, low, high) for index, (low, high) in enumerate(self._ranges.values())]
        placed = self._placed
        match = _C.TensorMatch(tuple([guard.spec for guard in self._tensors])) if tensors else None
        return _C.Checklist(
            len(argument_slots(self._code)) + bool(self._code.co_freevars),
            self._state,
            *self._counter,
            self._unchanged,
            tuple(self._steps.steps),
            tuple(self._groups),
            features,
            tuple(ranges),
            tuple(self._equals),
            match,
            placed(tensors),
            placed(apart),
            known if self._apart else -1,
            None if handed is None else placed(handed),
            rest=rest,
            whole=whole,
        )

    def _placed(self, values: Sequence[int | tuple[int, int]]) -> tuple[int, ...]:
        """Indices of values: what was read comes first, then the tensors of each group."""
        starts = [len(self._steps.steps)]
        for steady, _, _ in self._groups:
            starts.append(starts[-1] + steady.held_count)
        return tuple([value if isinstance(value, int) else starts[value[0]] + value[1] for value in values])


def _comparisons(template: str) -> int:
    """How many comparisons the condition is the conjunction of; -1 if it is none."""
    todo: list[ast.expr] = [ast.parse(re.sub(r"\{(\d+)\}", r"_\1", template), mode="eval").body]
    count = 0
    while todo:
        node = todo.pop()
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            todo += node.values
        elif isinstance(node, ast.Compare):
            count += len(node.ops)
        else:
            return -1
    return count
