"""The text of a `check_fn`: a Python function over the frame's argument slots, one `if` per guard.

A path that several guards read is read once, into a local. The same text with numbers in place of `False` says which
guard failed. What the text names is either bound here or one of `helpers.HELPERS`.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from tracer import _C
from tracer.guards.base import CheckScope, Guard
from tracer.guards.helpers import HELPERS
from tracer.guards.order import Stage
from tracer.guards.references import lasts
from tracer.guards.state import GlobalStateMatch
from tracer.guards.tensors import TensorMatch
from tracer.sources import CellSource, GlobalsSource, LocalSource, Source
from tracer.sources.roots import module_namespace

CLOSURE = "___closure"
_TAKEN = {"G", "True", "False", "None", CLOSURE}
_CALL = re.compile(r"\w+\([^()]*\)")
_OWN_NAMES = re.compile(r"v\d+|___.*")
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def argument_slots(code: CodeType) -> tuple[str, ...]:
    """The names of the argument slots: positional, keyword-only, then *args and **kwargs."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


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

    def __init__(self, code: CodeType, globals: dict[str, Any], builtins: dict[str, Any] | None = None) -> None:
        self.parameters = _parameters(argument_slots(code))
        self.freevars = code.co_freevars
        self.namespace: dict[str, Any] = {"__builtins__": HELPERS}
        self.body: list[str] = []
        self.step_of_line: list[int] = []  # for each line of the body, the step that it belongs to
        self._root_globals = globals
        self._root_builtins = builtins
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}  # how often a stem was used up
        self._variables: dict[Source, str] = {}
        self._types: dict[Source, type] = {GlobalsSource(): dict}
        self._step = 0
        self._torch_is_plain = False

    # ---- what sources ask for

    def local(self, name: str) -> str:
        return self.parameters[name]

    def cell(self, name: str) -> str:
        return f"{CLOSURE}[{self.freevars.index(name)}]"

    def globals(self) -> str:
        self.namespace["G"] = self._root_globals
        return "G"

    def builtins(self) -> str:
        found = self._root_builtins
        if found is None:
            found = self._root_globals["__builtins__"]
            found = found if type(found) is dict else found.__dict__
        return self.const(found, "builtins")

    def module_globals(self, module_name: str) -> str:
        return self.const(module_namespace(module_name), module_name)

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
        return self._types.get(source)

    def plain_tensor(self, source: Source) -> bool:
        return self._torch_is_plain and self._types.get(source) in _PLAIN_TENSORS

    # ---- what guards ask for

    def show_type(self, source: Source, cls: type) -> None:
        self._types[source] = cls

    def type_text(self, cls: type) -> str | None:
        name = cls.__name__ if lasts(cls) else None
        if name is None:
            return None
        return name if HELPERS.get(name) is cls else self.const(cls, name)

    # ---- the text

    def add(self, stage: Stage) -> Iterator[tuple[Guard, ...]]:
        """Adds a stage; yields, for each step (a line that can fail), the guards that it checks."""
        for guard in stage.guards:
            condition = guard.check(self)
            if condition is not None:
                self._fail_unless(condition)
                yield (guard,)
            if isinstance(guard, GlobalStateMatch):
                self._torch_is_plain = torch._C._len_torch_function_stack() == 0
        if stage.tensors:
            yield self._add_tensors(stage.tensors)

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

    def text(self, failure: Callable[[int], str] = lambda step: "False") -> str:
        """The whole function; `failure` gives what it returns where a step fails."""
        names = list(self.parameters.values()) + ([CLOSURE] if self.freevars else [])
        lines = [f"def check_fn({', '.join(names)}):"]
        for step, line in zip(self.step_of_line, self.body):
            lines.append("    " + line.replace("<fail>", failure(step)))
        return "\n".join([*lines, "    return True"]) + "\n"
