"""Which guards say nothing new while nothing has moved: those on what dicts, types and functions lead to from long-lived objects.

`steady_groups` gathers them by root. `_C.Steady` notes, when a group has held, the versions of the dicts and types that were
read (a watch token), and answers for the whole group while they stay. Tensors at the end of such paths are its leaves: they
can change without any dict knowing, so they are checked each time.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from tracer import _C
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
from tracer.steady_steps import (
    ATTR,
    CELL_CONTENTS,
    CLOSURE,
    CODE,
    CONST,
    DEFAULTS,
    DICT,
    EXACT,
    GLOBALS,
    ITEM,
    KEEP,
    KWDEFAULTS,
    METHOD_FUNC,
    METHOD_SELF,
    MRO,
    NO_ATTR,
    NO_ITEM,
    NO_TYPE_LOOKUP,
    PROPERTY_GETTER,
    ROOT,
    SLOT,
    TYPE,
    TYPE_ITEM,
    TYPE_LOOKUP,
    WHOLE,
)

_FEWEST = 7  # guards of a group that is worth a state of its own
CONSTANTS = ""  # the root of paths that begin at objects which check_fn holds
CLOSURE_ROOT = "<closure>"


class Unsteady(Exception):
    """A path or a guard that the states of dicts and types cannot answer for."""


class Plan:
    """The steps from one root, each (kind, step that it starts from, key), as `_C.Steady` takes them."""

    def __init__(self, globals: dict[str, Any], builtins: Callable[[], dict[str, Any]], freevars: tuple[str, ...]) -> None:
        self.steps: list[tuple[int, int, Any]] = []
        self._globals, self._builtins, self._freevars = globals, builtins, freevars
        self._known: dict[Source, int] = {}
        self._taken: dict[tuple[int, int, Any], int] = {}

    def source(self, source: Source) -> int:
        """The step whose value is that at the source."""
        known = self._known.get(source)
        if known is None:
            known = self._known[source] = self._step_of(source)
        return known

    def add(self, kind: int, base: int, key: Any = None) -> int:
        """A step, the same for the same read."""
        taken = (kind, base, id(key) if kind == CONST else (type(key), key))
        known = self._taken.get(taken)
        if known is None:
            self.steps.append((kind, base, key))
            known = self._taken[taken] = len(self.steps) - 1
        return known

    def _step_of(self, source: Source) -> int:
        add, of = self.add, self.source
        match source:
            case LocalSource():
                return add(ROOT, -1, 0)
            case CellSource(name):
                return add(ITEM, add(ROOT, -1, 0), self._freevars.index(name))
            case FreeVarSource(name):
                return add(SLOT, of(CellSource(name)), CELL_CONTENTS)
            case GlobalsSource():
                return add(CONST, -1, self._globals)
            case GlobalSource(name):
                return add(ITEM, of(GlobalsSource()), name)
            case BuiltinSource(name):
                return add(ITEM, add(CONST, -1, self._builtins()), name)
            case ModuleSource(name):
                return add(ITEM, add(CONST, -1, sys.modules), name)
            case ModuleNamespaceSource(module):
                return add(CONST, -1, module_namespace(module))
            case ModuleGlobalsSource(module, name):
                return add(ITEM, of(ModuleNamespaceSource(module)), name)
            case ObjectSource(obj, _):
                return add(CONST, -1, obj)
            case AttrSource(base, name):
                return add(ATTR, of(base), name)
            case InstanceDictSource(base):
                return add(DICT, of(base))
            case ItemSource(base, key) if _is_plain(key):
                return add(ITEM, of(base), key)
            case TypeSource(base):
                return add(TYPE, of(base))
            case ClassAttrSource(base, name):
                return add(TYPE_ITEM, of(base), name)
            case TypeLookupSource(base, name):
                return add(TYPE_LOOKUP, of(base), name)
            case GenericAttrSource(base, "__mro__"):
                return add(SLOT, of(base), MRO)
            case GenericAttrSource(ClassAttrSource() | TypeLookupSource() as base, "fget"):
                return add(SLOT, of(base), PROPERTY_GETTER)
            case DefaultSource(base, index):
                return add(ITEM, of(DefaultsSource(base)), index)
            case KwDefaultSource(base, name):
                return add(ITEM, of(KwDefaultsSource(base)), name)
            case ClosureCellSource(base, index):
                return add(ITEM, add(SLOT, of(base), CLOSURE), index)
            case FunctionGlobalsSource(base, name):
                return add(ITEM, of(FunctionNamespaceSource(base)), name)
        slot = _SLOTS.get(type(source))
        if slot is None or source.base is None:
            raise Unsteady
        return add(SLOT, of(source.base), slot)


_SLOTS: dict[type[Source], int] = {
    CodeSource: CODE,
    DefaultsSource: DEFAULTS,
    KwDefaultsSource: KWDEFAULTS,
    FunctionNamespaceSource: GLOBALS,
    CellContentsSource: CELL_CONTENTS,
    MethodSelfSource: METHOD_SELF,
    MethodFuncSource: METHOD_FUNC,
}


def _is_plain(key: Any) -> bool:
    """Whether a step can have the key: a number has 32 bits there."""
    return type(key) in (str, bytes) or type(key) is int and -(2**31) <= key < 2**31


def _identity(plan: Plan, guard: Any) -> None:
    """Whose object is watched, or bound: see ObjectRef."""
    plan.source(guard.sources()[0])


def _constant(plan: Plan, guard: EqualsMatch) -> None:
    step = plan.source(guard.source)
    if type(guard.value) is not ObjectRef:
        plan.add(KEEP, step)


def _exact(plan: Plan, guard: TypeMatch) -> None:
    plan.add(EXACT, plan.source(guard.source))


def _whole(plan: Plan, guard: Any) -> None:
    if isinstance(guard, DictKeysMatch) and guard.ordered_dict and guard.keys:
        raise Unsteady  # move_to_end changes no version
    plan.add(WHOLE, plan.source(guard.source))


def _attribute(plan: Plan, guard: HasAttr) -> None:
    plan.add(ATTR if guard.present else NO_ATTR, plan.source(guard.source), guard.attr)


def _class_attribute(plan: Plan, guard: ClassHasAttr) -> None:
    plan.add(TYPE_LOOKUP if guard.present else NO_TYPE_LOOKUP, plan.source(guard.source), guard.attr)


def _key(plan: Plan, guard: DictContains) -> None:
    if not _is_plain(guard.key):
        raise Unsteady
    plan.add(ITEM if guard.present else NO_ITEM, plan.source(guard.source), guard.key)


def _no_global(plan: Plan, guard: NotInGlobals) -> None:
    plan.add(NO_ITEM, plan.source(guard.namespace()), guard.source.global_name)


def _code(plan: Plan, guard: CodeMatch) -> None:
    plan.add(SLOT, plan.source(guard.source), CODE)


def _both(plan: Plan, guard: SameObject) -> None:
    plan.source(guard.a), plan.source(guard.b)


_KINDS: dict[type[Guard], Callable[[Plan, Any], None]] = {
    TypeMatch: _exact,
    **dict.fromkeys((IdMatch, FunctionMatch, ModuleMatch, ClassAttrMatch, NoneMatch, BoolMatch, TensorMatch), _identity),
    EqualsMatch: _constant,
    DictKeysMatch: _whole,
    LengthMatch: _whole,
    DictLengthReaches: _whole,
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

    def watcher(self) -> _C.Steady:
        """What answers for the group."""
        held = tuple([self.plan.source(leaf.source) for leaf in self.leaves])
        return _C.Steady(int(self.root != CONSTANTS), tuple(self.plan.steps), held)


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
        position = {source: index for index, source in enumerate(first)}
        for group in self._groups.values():
            group.leaves.sort(key=lambda leaf: position.get(leaf.source, len(position)))
        return [group for group in self._groups.values() if len(group.guards) + len(group.leaves) >= _FEWEST]

    def _place(self, guard: Guard) -> None:
        add = _KINDS.get(type(guard))
        if add is None:
            return
        roots = {self._root(source) for source in guard.sources()}
        if len(roots) != 1 or None in roots:
            return
        root: Any = roots.pop()
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
