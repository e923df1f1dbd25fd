"""Sources as steps that `_C` takes without running Python: see csrc/guards/reading.h."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from tracer._C import STEP
from tracer.bytecode.slots import argument_slots
from tracer.sources.base import CLOSURE, RootSource, Source, StepScope, Unreadable
from tracer.sources.roots import module_namespace


class Steps(StepScope):
    """The steps that lead to some sources: (kind, index of the step that it starts from or -1, key). Sources share steps."""

    def __init__(
        self,
        slot: Callable[[str], int],
        code: CodeType,
        globals: dict[str, Any],
        builtins: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """`slot` maps the name of an argument, or CLOSURE, to its index in the call. Without `builtins`, paths that begin at
        modules or builtins are Unreadable."""
        self.steps: list[tuple[int, int, Any]] = []
        self.namespaces: dict[str | None, dict[str, Any]] = {}  # those that paths begin at: of modules; None: the builtins
        self._slot, self._freevars, self._globals, self._builtins = slot, code.co_freevars, globals, builtins
        self._known: dict[Source, int] = {}
        self._taken: dict[tuple[Any, ...], int] = {}

    @classmethod
    def of_call(cls, code: CodeType, globals: dict[str, Any]) -> Steps:
        """Steps that start from the argument slots of a call."""
        return cls((*argument_slots(code), CLOSURE).index, code, globals)

    def of(self, source: Source) -> int:
        """The step that gives the value at the source. Raises Unreadable."""
        known = self._known.get(source)
        if known is None:
            if isinstance(source, RootSource):
                known = source.begin(self)
            else:
                known = source.walk(self, self.of(source.origin()))
            self._known[source] = known
        return known

    def add(self, kind: int, base: int, key: Any = None) -> int:
        """The index of a step; equal steps are one."""
        step = kind, base, key
        taken = step if key is None or type(key) is str else (kind, base, id(key) if kind == STEP.CONST else (type(key), key))
        known = self._taken.get(taken)
        if known is None:
            self.steps.append(step)
            known = self._taken[taken] = len(self.steps) - 1
        return known

    # ---- where paths begin

    def argument(self, name: str) -> int:
        return self.add(STEP.ROOT, -1, self.slot(name))

    def slot(self, name: str) -> int:
        return self._slot(name)

    def cell(self, name: str) -> int:
        return self.add(STEP.ITEM, self.argument(CLOSURE), self._freevars.index(name))

    def globals(self) -> int:
        return self.constant(self._globals)

    def constant(self, obj: object) -> int:
        return self.add(STEP.CONST, -1, obj)

    def namespace(self, module_name: str | None) -> int:
        """The globals of the module as they are found now, which is where the trace read."""
        if self._builtins is None:
            raise Unreadable
        if module_name not in self.namespaces:
            self.namespaces[module_name] = self._builtins() if module_name is None else module_namespace(module_name)
        return self.constant(self.namespaces[module_name])


class Readable(dict[Source, bool]):
    """Answers whether steps from the arguments of a call lead to a source, and remembers the answers. They do not lead to what is
    found by a name, which may be another object now than in the trace."""

    def __call__(self, source: Source) -> bool:
        known = self.get(source)
        if known is None:
            base = source.base
            if base is None:
                known = isinstance(source, RootSource) and not source.found_by_name and source.begins_in_c()
            else:
                known = self(base) and source.can_walk()
            self[source] = known
        return known


def readable(source: Source) -> bool:
    """As `Readable`, for a single question."""
    return Readable()(source)
