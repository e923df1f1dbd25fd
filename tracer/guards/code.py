"""The text of a `check_fn`: a Python function over the frame's argument slots, one `if` per guard.

A path that several guards read is read once, into a local. The same text with numbers in place of `False` says which
guard failed. What the text names is either bound here or one of `helpers.HELPERS`.
"""

from __future__ import annotations

import dataclasses
import functools
import keyword
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, MappingProxyType
from typing import Any

import torch

from tracer import _C
from tracer.guards.base import CheckScope, Guard
from tracer.guards.helpers import HELPERS
from tracer.guards.on_demand import OnDemand, Printed
from tracer.guards.order import Stage
from tracer.guards.reading import Readable, argument_slots
from tracer.guards.references import lasts
from tracer.guards.steady import CONSTANTS, Group, Grouping, Root, root_object
from tracer.guards.tensors import TensorMatch
from tracer.sources.base import CLOSURE as CLOSURE_SLOT
from tracer.sources.base import RootSource, Source
from tracer.sources.roots import CellSource, GlobalsSource, LocalSource, module_namespace

CLOSURE = "___closure"
_ARGUMENT = "___argument"  # the root of a group, where that is no argument slot
_TAKEN = {"G", "True", "False", "None", CLOSURE}
_CALL = re.compile(r"\w+\([^()]*\)")
_OWN_NAMES = re.compile(r"v\d+|___.*")
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
#: A group, its watcher, a match of its leaves, and whether these are distinct objects.
AddedGroup = tuple[Group, _C.Steady, _C.TensorMatch | None, bool]


def steady_slots(code: CodeType) -> tuple[str, ...]:
    """The argument slots that hold an object of the caller: not *args and **kwargs, which are made for the call."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def builtins_of(globals: dict[str, Any], builtins: dict[str, Any] | None = None) -> dict[str, Any]:
    """The builtins of the root frame, which are those of its globals unless others are given."""
    if builtins is not None:
        return builtins
    found = globals["__builtins__"]
    of_module: dict[str, Any] = found if type(found) is dict else found.__dict__
    return of_module


def fetchable(guards: Iterable[Guard], inputs: Iterable[Source], code: CodeType, globals: dict[str, Any]) -> tuple[Source, ...]:
    """The inputs of the graph that check_fn returns, so that output code need not read them again: tensors that it checks and
    that are reached by a path. If it checks all inputs, it returns the arguments among them, too."""
    parts = dict.fromkeys(part for guard in guards for part in guard.parts())
    grouping = Grouping(code, steady_slots(code), globals, functools.partial(builtins_of, globals))
    leaves = grouping.leaves(parts)
    tensors = {guard.source for guard in parts if isinstance(guard, TensorMatch)}
    wanted, readable = list(inputs), Readable()
    far = [s for s in wanted if s in leaves or (s in tensors and s.base is not None and readable(s))]
    near = [s for s in wanted if s in tensors and type(s) is LocalSource]
    return tuple(wanted if far and len(far) + len(near) == len(wanted) else far)


def _parameters(slots: tuple[str, ...]) -> dict[str, str]:
    """Slot name -> parameter name: the same, unless that would hide a name that checks use."""
    names: dict[str, str] = {}
    for index, slot in enumerate(slots):
        name = slot
        if not slot.isidentifier() or keyword.iskeyword(slot) or _OWN_NAMES.fullmatch(slot):
            name = f"arg{index}"
        while name in _TAKEN or name in HELPERS or name in names.values() or (name != slot and name in slots):
            name += "_"
        names[slot] = name
    return names


class CheckCode(CheckScope):
    """Builds the text; each guard adds lines, and names the objects that it needs."""

    def __init__(
        self,
        code: CodeType,
        globals: dict[str, Any],
        builtins: dict[str, Any] | None = None,
        namespaces: Mapping[str | None, dict[str, Any]] = MappingProxyType({}),
    ) -> None:
        """`namespaces`: the globals of modules by name (None: the builtins), which are used in place of what `sys.modules` has
        now."""
        self.parameters = _parameters(argument_slots(code))
        self.freevars = code.co_freevars
        self.qualname = code.co_qualname
        self.namespace: dict[str, Any] = {"__builtins__": HELPERS}
        self.body: list[str] = []
        self.step_of_line: list[int] = []  # for each line of the body, the step that it belongs to
        self._root_globals = globals
        self._root_builtins = namespaces.get(None, builtins)
        self._code_ref = weakref.ref(code)
        self._namespaces = namespaces
        self.found: dict[str | None, dict[str, Any]] = {}  # those that the text uses, like `namespaces`
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}  # how many names with this stem there are
        self._variables: dict[Source, str] = {}
        self._types: dict[Source, weakref.ref[type]] = {GlobalsSource(): weakref.ref(dict)}  # weak: the text may never be printed
        self._assumed: list[Iterable[Guard]] = []  # whose demands have not been looked at: a text that C replaces needs no types
        self._step = 0
        self.looks: list[OnDemand] = []  # for each group of steady guards, the function that checks it in Python
        self.printers: list[GroupPrinter] = []  # for each of those functions, what prints its text
        self._held: dict[str, tuple[Source, ...]] = {}  # name of a tuple of leaves -> sources of the leaves
        self._torch_is_plain = False
        # The last: whether `_C.Steady` checks that the leaves are distinct.

    # ---- what sources ask for

    def local(self, name: str) -> str:
        return self.parameters[name]

    def cell(self, name: str) -> str:
        return f"{CLOSURE}[{self.freevars.index(name)}]"

    def globals(self) -> str:
        self.namespace["G"] = self._root_globals
        return "G"

    def builtins(self) -> str:
        found = self.found[None] = builtins_of(self._root_globals, self._root_builtins)
        return self.const(found, "builtins")

    def module_globals(self, module_name: str) -> str:
        namespace = self._namespaces.get(module_name)
        found = self.found[module_name] = module_namespace(module_name) if namespace is None else namespace
        return self.const(found, module_name)

    def look_in(self, namespaces: Mapping[str | None, dict[str, Any]]) -> None:
        """What is printed from now on uses these, see `__init__`."""
        self._namespaces = namespaces
        self._root_builtins = namespaces.get(None, self._root_builtins)

    def const(self, obj: object, hint: str = "c") -> str:
        """A name for the object, the same for the same object."""
        name = self._names.get(id(obj))
        if name is None:
            stem = "___" + re.sub(r"\W", "_", hint)
            name = stem
            while name in self.namespace or name in HELPERS:
                self._counts[stem] = self._counts.get(stem, 0) + 1
                name = f"{stem}_{self._counts[stem]}"
            self.namespace[name] = obj
            self._names[id(obj)] = name
        return name

    def read(self, source: Source) -> str:
        if type(source) is LocalSource:
            return self.parameters[source.local_name]
        if type(source) is GlobalsSource or type(source) is CellSource:
            return source.read(self)
        name = self._variables.get(source)
        if name is None:
            text = source.read(self)
            name = self._variables[source] = f"v{len(self._variables) + 1}"
            self._line(f"{name} = {text}")
        return name

    def exact_type(self, source: Source) -> type | None:
        while self._assumed:
            for guard in self._assumed.pop(0):
                for demand in guard.demands():
                    demand.show(self)
        known = self._types.get(source)
        return None if known is None else known()

    def plain_tensor(self, source: Source) -> bool:
        return self._torch_is_plain and self.exact_type(source) in _PLAIN_TENSORS

    # ---- what guards ask for

    def show_type(self, source: Source, cls: type) -> None:
        self._types[source] = weakref.ref(cls)

    def show_state(self) -> None:
        self._torch_is_plain = torch._C._len_torch_function_stack() == 0

    def type_text(self, cls: type) -> str | None:
        name = cls.__name__ if lasts(cls) else None
        if name is None:
            return None
        return name if HELPERS.get(name) is cls else self.const(cls, name)

    def distinct(self, sources: tuple[Source, ...]) -> str:
        """An expression that is true if the sources lead to distinct objects. The leaves of a group are compared with each other
        when the group is checked, so here they are compared with the others only."""
        wanted = set(sources)
        held = [name for name, leaves in self._held.items() if leaves and wanted.issuperset(leaves)]
        if len(held) != 1:
            return f"___distinct({', '.join(map(self.read, sources))})"
        known = set(self._held[held[0]])
        return f"___distinct_from({', '.join([held[0], *[self.read(s) for s in sources if s not in known]])})"

    # ---- the text

    def add_group(self, group: Group, distinct: set[Source]) -> AddedGroup:
        """Adds a group of steady guards. `distinct`: sources that must lead to distinct objects."""
        leaves = tuple([leaf.source for leaf in group.leaves])
        unshared = distinct.issuperset(leaves)
        watcher = group.watcher(apart=unshared)
        watch = self.const(watcher, "steady")
        number = watch.removeprefix("___steady")
        held, seen, look = f"held{number}", f"seen{number}", f"___look{number}"
        root, parameter = self._root_text(group.root)
        self.namespace[look] = self._look(look, parameter, group, leaves, unshared)
        self.assume(group.guards)
        self._line(f"{held} = {watch}({root})")
        self._line(f"if {held} is None:")
        self._line(f"    {seen} = {watch}.look({root})")
        self._line(f"    {held} = {look}({root})")
        self._line(f"    if {held} is None: return <fail>")
        self._line(f"    {watch}.keep({', '.join([seen, root] if root else [seen])})")
        matcher = _C.TensorMatch(tuple([leaf.spec for leaf in group.leaves])) if leaves else None
        if leaves:
            self._fail_unless(f"{self.const(matcher, 'check_held')}.all({held})")
            self._note_leaves(held, leaves, [leaf.spec.cls for leaf in group.leaves], unshared)
        self.printers[-1].steady, self.printers[-1].match = watcher, matcher
        return group, watcher, matcher, unshared

    def add_held(self, printer: GroupPrinter, tensors: tuple[Any, ...]) -> None:
        """Takes a group for granted that holds now, with these tensors as its leaves."""
        self.assume(printer.guards)
        if tensors:
            self._note_leaves(self.const(tensors, "held"), printer.leaves, list(map(type, tensors)), printer.apart)

    def _note_leaves(self, held: str, leaves: tuple[Source, ...], classes: list[type], apart: bool) -> None:
        """The leaves are read from a tuple of this name."""
        self._held[held] = leaves if apart else ()
        for index, (leaf, cls) in enumerate(zip(leaves, classes, strict=True)):
            self._variables[leaf] = f"{held}[{index}]"
            self.show_type(leaf, cls)

    def _look(self, name: str, root: str, group: Group, leaves: tuple[Source, ...], apart: bool) -> OnDemand:
        namespaces, code_ref, root_globals = group.plan.namespaces, self._code_ref, self._root_globals
        group_root = group.root

        def scope() -> CheckCode:
            code = code_ref()
            if code is None:
                raise ReferenceError("The code that these guards belong to has been freed.")
            made = CheckCode(code, root_globals, None, namespaces)
            if isinstance(group_root, Source):
                made._variables[group_root] = _ARGUMENT
            return made

        printer = GroupPrinter(scope, name, root, group.guards, leaves, apart, group.root)
        self.printers.append(printer)
        self.looks.append(OnDemand(printer, name, f"<{name} of {self.qualname}>"))
        return self.looks[-1]

    def group_text(self, name: str, root: str, guards: list[Guard], leaves: tuple[Source, ...], apart: bool) -> str:
        """The text of a function that checks the guards of a group and returns its leaves, or None if a guard fails."""
        for _ in self.add(Stage(guards)):
            pass
        names = [self.read(leaf) for leaf in leaves]
        if apart and len(leaves) > 1:
            self._fail_unless(f"___distinct({', '.join(names)})")
        lines = [f"def {name}({root}):", *["    " + line.replace("<fail>", "None") for line in self.body]]
        return "\n".join([*lines, f"    return ({''.join(f'{name}, ' for name in names)})"]) + "\n"

    def _root_text(self, root: Root) -> tuple[str, str]:
        """The object at a root, and the parameter of the function that checks the guards of its group."""
        if isinstance(root, RootSource):
            self._line(f"if not {root.given(self)}: return <fail>")
            return self.read(root), _ARGUMENT
        text = "" if root == CONSTANTS else CLOSURE if root == CLOSURE_SLOT else self.local(root)
        return text, text

    def add(self, stage: Stage) -> Iterator[tuple[Guard, ...]]:
        """Adds a stage; yields, for each step (a line that can fail), the guards that it checks."""
        for guard in stage.guards:
            condition = guard.check(self)
            if condition is not None:
                self._fail_unless(condition)
                yield (guard,)
        if stage.tensors:
            yield self._add_tensors(stage.tensors)

    def assume(self, guards: Iterable[Guard]) -> None:
        """Notes that guards hold. What follows, such as exact types, is found when it is asked for: later reads may be printed
        more simply."""
        self._assumed.append(guards)

    def _add_tensors(self, tensors: list[TensorMatch]) -> tuple[Guard, ...]:
        values = [self.read(guard.source) for guard in tensors]
        match = self.const(_C.TensorMatch(tuple([guard.spec for guard in tensors])), "check_tensors")
        self._fail_unless(f"{match}({', '.join(values)})")
        for guard in tensors:
            self.show_type(guard.source, guard.spec.cls)
        return tuple(tensors)

    def _fail_unless(self, condition: str) -> None:
        plain = _CALL.fullmatch(condition) is not None
        self._line(f"if not {condition}: return <fail>" if plain else f"if not ({condition}): return <fail>")
        self._step += 1

    def _line(self, text: str) -> None:
        self.body.append(text)
        self.step_of_line.append(self._step)

    def text(self, failure: Callable[[int], str] = lambda step: "False", result: str = "True") -> str:
        """The text of the function. `failure(step)` is what it returns if that step fails, `result` if none does."""
        names = list(self.parameters.values()) + ([CLOSURE] if self.freevars else [])
        lines = [f"def check_fn({', '.join(names)}):"]
        for step, line in zip(self.step_of_line, self.body):
            lines.append("    " + line.replace("<fail>", failure(step)))
        return "\n".join([*lines, f"    return {result}"]) + "\n"


@dataclasses.dataclass(eq=False)
class GroupPrinter:
    """Prints the function that checks a group of guards in Python, with the namespaces that they were made in."""

    scope: Callable[[], CheckCode]
    name: str
    root: str  # its parameter, if any
    guards: list[Guard]
    leaves: tuple[Source, ...]
    apart: bool  # no two of the leaves may be one object
    slot: Root = CONSTANTS  # as Group.root
    steady: _C.Steady | None = None
    match: _C.TensorMatch | None = None  # of the leaves

    def held_now(self, slots: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The tensors at the leaves, if the group has held and nothing has moved since; None if that is not known.
        `slots`: the arguments of check_fn."""
        found = None if self.steady is None else root_object(self.slot, slots)
        if self.steady is None or found is None:
            return None
        held: tuple[Any, ...] | None = self.steady(*found)
        return held if held is None or self.match is None or self.match.all(held) is True else None

    def __call__(self) -> Printed:
        scope = self.scope()
        return scope.group_text(self.name, self.root, self.guards, self.leaves, self.apart), scope.namespace
