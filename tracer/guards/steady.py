"""Which guards say nothing new while nothing has moved: those on what dicts, types and functions lead to from long-lived objects.

`steady_groups` gathers them by root. `_C.Steady` notes, when a group has held, the versions of the dicts and types that were
read (a watch token), and answers for the whole group while they stay. Tensors at the end of such paths are its leaves: they
can change without any dict knowing, so they are checked each time.

What guards demand of the values is noted beside the way to them, so that C asks the group again where something has moved. A
guard that C has no test for leaves that to the text of all.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from tracer import _C
from tracer._C import STEP, TEST
from tracer.guards.attributes import ClassHasAttr, HasAttr
from tracer.guards.base import Guard
from tracer.guards.constants import EqualsMatch
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, LengthMatch, NotInGlobals
from tracer.guards.identity import (
    BoolMatch,
    ClassAttrMatch,
    CodeMatch,
    FunctionMatch,
    IdMatch,
    ModuleMatch,
    NoneMatch,
    SameObject,
    TypeMatch,
)
from tracer.guards.references import ObjectRef
from tracer.guards.tensors import TensorMatch
from tracer.sources import (
    AttrSource,
    BuiltinSource,
    CellContentsSource,
    CellSource,
    ClassAttrSource,
    ClosureCellSource,
    CodeSource,
    DefaultSource,
    DefaultsSource,
    FreeVarSource,
    FunctionGlobalsSource,
    FunctionNamespaceSource,
    GenericAttrSource,
    GlobalSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    KwDefaultSource,
    KwDefaultsSource,
    LocalSource,
    MethodFuncSource,
    MethodSelfSource,
    ModuleGlobalsSource,
    ModuleNamespaceSource,
    ModuleSource,
    ObjectSource,
    Source,
    TypeLookupSource,
    TypeSource,
)
from tracer.sources.roots import module_namespace

_FEWEST = 7  # guards and leaves of a group that is worth a state of its own
_FIRST = operator.itemgetter(0)
CONSTANTS = ""  # the root of paths that begin at objects which check_fn holds
CLOSURE_ROOT = "<closure>"


class Unsteady(Exception):
    """A path or a guard that the states of dicts and types cannot answer for."""


class Plan:
    """The steps from one root, each (kind, step that it starts from, key), as `_C.Steady` takes them."""

    def __init__(self, globals: dict[str, Any], builtins: Callable[[], dict[str, Any]], freevars: tuple[str, ...]) -> None:
        self.steps: list[tuple[int, int, Any]] = []
        self.tests: list[tuple[int, int, Any]] = []
        self.tells_all = True  # whether the tests say what the guards say
        self.namespaces: dict[str | None, dict[str, Any]] = {}  # those that paths begin at: of modules; None: the builtins
        self._globals, self._builtins, self._freevars = globals, builtins, freevars
        self._known: dict[Source, int] = {}
        self._taken: dict[tuple[Any, ...], int] = {}

    def source(self, source: Source) -> int:
        """The step whose value is that at the source."""
        known = self._known.get(source)
        if known is None:
            known = self._known[source] = self._step_of(source)
        return known

    def add(self, kind: int, base: int, key: Any = None) -> int:
        """A step, the same for the same read."""
        step = kind, base, key
        taken = step if key is None or type(key) is str else (kind, base, id(key) if kind == STEP.CONST else (type(key), key))
        known = self._taken.get(taken)
        if known is None:
            self.steps.append(step)
            known = self._taken[taken] = len(self.steps) - 1
        return known

    def test(self, step: int, kind: int, expected: Any) -> None:
        self.tests.append((step, kind, expected))

    def _namespace(self, module: str | None) -> int:
        """What it is now: the trace read in this one."""
        if module not in self.namespaces:
            self.namespaces[module] = self._builtins() if module is None else module_namespace(module)
        return self.add(STEP.CONST, -1, self.namespaces[module])

    def _step_of(self, source: Source) -> int:
        add, of = self.add, self.source
        match source:  # the frequent ones first
            case AttrSource(base, name):
                return add(STEP.ATTR, of(base), name)
            case ItemSource(base, key) if _is_plain(key):
                return add(STEP.ITEM, of(base), key)
            case InstanceDictSource(base):
                return add(STEP.DICT, of(base))
            case TypeSource(base):
                return add(STEP.TYPE, of(base))
            case LocalSource():
                return add(STEP.ROOT, -1, 0)
            case CellSource(name):
                return add(STEP.ITEM, add(STEP.ROOT, -1, 0), self._freevars.index(name))
            case FreeVarSource(name):
                return add(STEP.CELL_CONTENTS, of(CellSource(name)))
            case GlobalsSource():
                return add(STEP.CONST, -1, self._globals)
            case GlobalSource(name):
                return add(STEP.ITEM, of(GlobalsSource()), name)
            case BuiltinSource(name):
                return add(STEP.ITEM, self._namespace(None), name)
            case ModuleSource(name):
                return add(STEP.ITEM, add(STEP.CONST, -1, sys.modules), name)
            case ModuleNamespaceSource(module):
                return self._namespace(module)
            case ModuleGlobalsSource(module, name):
                return add(STEP.ITEM, of(ModuleNamespaceSource(module)), name)
            case ObjectSource(obj, _):
                return add(STEP.CONST, -1, obj)
            case ClassAttrSource(base, name):
                return add(STEP.TYPE_ITEM, of(base), name)
            case TypeLookupSource(base, name):
                return add(STEP.TYPE_LOOKUP, of(base), name)
            case GenericAttrSource(base, "__mro__"):
                return add(STEP.MRO, of(base))
            case GenericAttrSource(ClassAttrSource() | TypeLookupSource() as base, "fget"):
                return add(STEP.PROPERTY_GETTER, of(base))
            case DefaultSource(base, index):
                return add(STEP.ITEM, of(DefaultsSource(base)), index)
            case KwDefaultSource(base, name):
                return add(STEP.ITEM, of(KwDefaultsSource(base)), name)
            case ClosureCellSource(base, index):
                return add(STEP.ITEM, add(STEP.CLOSURE, of(base)), index)
            case FunctionGlobalsSource(base, name):
                return add(STEP.ITEM, of(FunctionNamespaceSource(base)), name)
        slot = _SLOTS.get(type(source))
        if slot is None or source.base is None:
            raise Unsteady
        return add(slot, of(source.base))


_SLOTS: dict[type[Source], int] = {
    CodeSource: STEP.CODE,
    DefaultsSource: STEP.DEFAULTS,
    KwDefaultsSource: STEP.KWDEFAULTS,
    FunctionNamespaceSource: STEP.GLOBALS,
    CellContentsSource: STEP.CELL_CONTENTS,
    MethodSelfSource: STEP.METHOD_SELF,
    MethodFuncSource: STEP.METHOD_FUNC,
}


def _is_plain(key: Any) -> bool:
    """Whether a step can have the key: a number has 32 bits there."""
    return type(key) in (str, bytes) or type(key) is int and -(2**31) <= key < 2**31


def _address(reference: ObjectRef) -> int:
    """Of an object that is watched, or bound: see ObjectRef. Nothing is at the address of one that has died."""
    return 0 if reference.dead else reference.id


def _tensor(plan: Plan, guard: TensorMatch) -> None:
    plan.source(guard.source)


def _identity(plan: Plan, guard: IdMatch) -> None:
    plan.test(plan.source(guard.source), TEST.IS, _address(guard.obj))


def _singleton(plan: Plan, guard: BoolMatch) -> None:
    plan.test(plan.source(guard.source), TEST.IS, id(guard.value))


def _none(plan: Plan, guard: NoneMatch) -> None:
    plan.test(plan.source(guard.source), TEST.IS if guard.is_none else TEST.IS_NOT, id(None))


def _constant(plan: Plan, guard: EqualsMatch) -> None:
    step, value = plan.source(guard.source), guard.value
    if type(value) is ObjectRef:
        plan.test(step, TEST.IS, _address(value))
    else:
        plan.add(STEP.KEEP, step)
        plan.test(step, TEST.EQUAL, value)


def _exact(plan: Plan, guard: TypeMatch) -> None:
    step = plan.source(guard.source)
    plan.add(STEP.EXACT, step)
    plan.test(step, TEST.TYPE, _address(guard.cls))


def _length(plan: Plan, guard: LengthMatch) -> None:
    step = plan.source(guard.source)
    plan.add(STEP.WHOLE, step)
    plan.test(step, TEST.LENGTH, guard.length)


def _length_reaches(plan: Plan, guard: DictLengthReaches) -> None:
    step = plan.source(guard.source)
    plan.add(STEP.WHOLE, step)
    plan.test(step, TEST.REACHES if guard.holds else TEST.BELOW, guard.count)


def _keys(plan: Plan, guard: DictKeysMatch) -> None:
    if guard.ordered_dict and guard.keys:
        raise Unsteady  # move_to_end changes no version
    step = plan.source(guard.source)
    plan.add(STEP.WHOLE, step)
    kinds = {type(key) is ObjectRef for key in guard.keys}
    if len(kinds) > 1:
        plan.tells_all = False
    elif True in kinds:
        plan.test(step, TEST.OBJECTS, tuple(map(_address, guard.keys)))
    else:
        plan.test(step, TEST.KEYS, guard.keys)


def _attribute(plan: Plan, guard: HasAttr) -> None:
    plan.add(STEP.ATTR if guard.present else STEP.NO_ATTR, plan.source(guard.source), guard.attr)


def _class_attribute(plan: Plan, guard: ClassHasAttr) -> None:
    plan.add(STEP.TYPE_LOOKUP if guard.present else STEP.NO_TYPE_LOOKUP, plan.source(guard.source), guard.attr)


def _key(plan: Plan, guard: DictContains) -> None:
    if not _is_plain(guard.key):
        raise Unsteady
    plan.add(STEP.ITEM if guard.present else STEP.NO_ITEM, plan.source(guard.source), guard.key)


def _no_global(plan: Plan, guard: NotInGlobals) -> None:
    plan.add(STEP.NO_ITEM, plan.source(guard.namespace()), guard.source.global_name)


def _code(plan: Plan, guard: CodeMatch) -> None:
    plan.test(plan.add(STEP.CODE, plan.source(guard.source)), TEST.IS, _address(guard.code_object))


def _both(plan: Plan, guard: SameObject) -> None:
    first, second = sorted((plan.source(guard.a), plan.source(guard.b)))
    plan.test(second, TEST.SAME, first)


_KINDS: dict[type[Guard], Callable[[Plan, Any], None]] = {
    TypeMatch: _exact,
    TensorMatch: _tensor,
    **dict.fromkeys((IdMatch, FunctionMatch, ModuleMatch, ClassAttrMatch), _identity),
    NoneMatch: _none,
    BoolMatch: _singleton,
    EqualsMatch: _constant,
    DictKeysMatch: _keys,
    LengthMatch: _length,
    DictLengthReaches: _length_reaches,
    HasAttr: _attribute,
    ClassHasAttr: _class_attribute,
    DictContains: _key,
    NotInGlobals: _no_global,
    CodeMatch: _code,
    SameObject: _both,
}


@dataclasses.dataclass
class Group:
    """The steady guards from one root, in the order in which they came, and the tensors they lead to."""

    root: str  # an argument slot, CLOSURE_ROOT, or CONSTANTS
    plan: Plan
    guards: list[Guard] = dataclasses.field(default_factory=list)
    leaves: list[TensorMatch] = dataclasses.field(default_factory=list)

    def is_worth_a_state(self) -> bool:
        return len(self.guards) + len(self.leaves) >= _FEWEST

    def watcher(self, apart: bool) -> _C.Steady:
        """What answers for the group. `apart`: no two of the leaves may be one object."""
        plan = self.plan
        held = tuple([plan.source(leaf.source) for leaf in self.leaves])
        given = int(self.root != CONSTANTS), tuple(plan.steps), held
        if not plan.tells_all:
            return _C.Steady(*given)
        return _C.Steady(*given, tuple(sorted(plan.tests, key=_FIRST)), apart)


class Grouping:
    """`steady_groups`, with what it needs to know of the frame."""

    def __init__(
        self,
        code: CodeType,
        slots: Iterable[str],
        globals: dict[str, Any],
        builtins: Callable[[], dict[str, Any]],
    ) -> None:
        self._new_plan = lambda: Plan(globals, builtins, code.co_freevars)
        self._slots = frozenset(slots)  # those that can be the same object in each call: no *args, no **kwargs
        self._groups: dict[str, Group] = {}
        self._tensors: set[Source] = set()
        self._roots: dict[Source, str | None] = {}

    def groups(self, guards: Iterable[Guard], first: tuple[Source, ...] = ()) -> list[Group]:
        """`first`: leaves that are to stand first in their group, in this order."""
        guards = list(guards)
        self._tensors = {guard.source for guard in guards if isinstance(guard, TensorMatch)}
        for guard in guards:
            self._place(guard)
        worthy = self._worthy()
        position = {source: index for index, source in enumerate(first)}
        for group in worthy:
            group.leaves.sort(key=lambda leaf: position.get(leaf.source, len(position)))
        return worthy

    def leaves(self, guards: Iterable[Guard]) -> set[Source]:
        """The leaves of what `groups` gives for the same guards; of other guards only so many are looked at that it shows
        whether there are enough."""
        guards = list(guards)
        tensors = [guard for guard in guards if isinstance(guard, TensorMatch)]
        self._tensors = {guard.source for guard in tensors}
        for tensor in tensors:
            self._place(tensor)
        wanted = {root for root, group in self._groups.items() if group.leaves}
        for guard in guards:
            wanted = {root for root in wanted if not self._groups[root].is_worth_a_state()}
            if not wanted:
                break
            if not isinstance(guard, TensorMatch):
                self._place(guard)
        return {leaf.source for group in self._worthy() for leaf in group.leaves}

    def _worthy(self) -> list[Group]:
        return [group for group in self._groups.values() if group.is_worth_a_state()]

    def _place(self, guard: Guard) -> None:
        add = _KINDS.get(type(guard))
        if add is None:
            return
        sources = guard.sources()
        root = self._root(sources[0]) if len(sources) == 1 else self._common_root(sources)
        if root is None:
            return
        group = self._groups.get(root)
        if group is None:
            group = self._groups[root] = Group(root, self._new_plan())
        if isinstance(guard, TensorMatch) and isinstance(guard.source, LocalSource):
            return
        try:
            add(group.plan, guard)
        except (Unsteady, KeyError):  # KeyError: a module that is not imported any more
            return  # the steps that were added lead to the object itself, as its other guards do
        if isinstance(guard, TensorMatch):
            group.leaves.append(guard)
        else:
            group.guards.append(guard)

    def _common_root(self, sources: Iterable[Source]) -> str | None:
        """That of all sources; paths of any group may begin at constants, too."""
        roots = {self._root(source) for source in sources}
        if len(roots) > 1:
            roots.discard(CONSTANTS)
        return roots.pop() if len(roots) == 1 else None

    def _root(self, source: Source) -> str | None:
        """Where the path begins; None if it leads through a tensor or begins where each call brings another object."""
        try:
            return self._roots[source]
        except KeyError:
            base = source.base
            if base is None:
                root = self._root_of_path(source)
            else:
                root = None if base in self._tensors else self._root(base)
            self._roots[source] = root
            return root

    def _root_of_path(self, source: Source) -> str | None:
        match source:
            case LocalSource(name):
                return name if name in self._slots else None
            case CellSource() | FreeVarSource():
                return CLOSURE_ROOT
        return CONSTANTS
