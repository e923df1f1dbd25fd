"""Runs an example of the reference documents as they do: decorated, with every log on, beside plain Python."""

from __future__ import annotations

import dis
import re
from collections.abc import Callable
from typing import Any

import torch

import tracer
from tests.support.comparing import Comparison, deep_copied
from tracer import logs


class Recording:
    """A function decorated with `options`; each call of it is compared with plain Python, and what it logs is kept."""

    def __init__(self, fn: Callable[..., Any], **options: Any) -> None:
        self.plain = fn
        self.graphs: list[torch.fx.GraphModule] = []
        self.records: list[logs.Record] = []
        self.compiled = tracer.optimize(self.compiler, **options)(fn)

    def compiler(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward

    def __call__(self, *args: Any) -> Recording:
        theirs, ours = deep_copied(args), deep_copied(args)
        expected = self.plain(*theirs)
        with logs.capture() as records:
            result = self.compiled(*ours)
        self.records += records
        Comparison().same(expected, result, "result")
        return self

    def texts(self, artifact: str) -> list[str]:
        return [record.text for record in self.records if record.artifact == artifact]

    # -- graphs ------------------------------------------------------------------------------------------------------

    @property
    def graph_code(self) -> list[list[str]]:
        """Each graph's code without its title: the signature, then a line each, user's lines as comments."""
        return [text.rstrip().splitlines()[2:] for text in self.texts("graph_code")]

    def operations(self, index: int = -1) -> list[str]:
        """The code of a graph without comments and without the signature, names of values numbered by use."""
        names: dict[str, str] = {}
        lines = []
        for line in self.graph_code[index][1:]:
            if line.lstrip().startswith("#"):
                continue
            assigned = re.match(r"    (\w+)\b.*? = ", line)
            if assigned:
                names[assigned[1]] = f"v{len(names)}"
            lines.append(re.sub(r"\w+", lambda word: names.get(word[0], word[0]), line.strip()))
        return lines

    def placeholders(self, index: int = -1) -> list[str]:
        return [node.name for node in self.graphs[index].graph.nodes if node.op == "placeholder"]

    # -- guards ------------------------------------------------------------------------------------------------------

    def guard_lines(self, index: int = -1) -> list[str]:
        """The guards of an entry in terms of `L['a']`, without the lines that caused them."""
        lines = self.texts("guards")[index].splitlines()
        return [line.partition("  # ")[0].strip() for line in lines[1 : lines.index("")]]

    def guard_notes(self, index: int = -1) -> dict[str, str]:
        """Guard -> the note beside it: the user's line, and the form in which it was recorded."""
        lines = self.texts("guards")[index].splitlines()
        pairs = [line.partition("  # ") for line in lines[1 : lines.index("")]]
        return {guard.strip(): note for guard, _, note in pairs}

    def check_fn(self, index: int = -1) -> str:
        """The source of an entry's check_fn."""
        text = self.texts("guards")[index]
        return text[text.index("def check_fn(") :]

    # -- bytecode ----------------------------------------------------------------------------------------------------

    def modified_bytecode(self, name: str) -> str:
        """The last code that was made for a function of this name."""
        heading = f"MODIFIED BYTECODE {name} "
        return next(text for text in reversed(self.texts("bytecode")) if text.startswith(heading))


def offset_of(fn: Callable[..., Any], opname: str, argval: Any = None) -> int:
    """The bytecode offset of the only such instruction of a function."""
    found = [i for i in dis.get_instructions(fn) if i.opname == opname and argval in (None, i.argval)]
    assert len(found) == 1, found
    return found[0].offset


def place(fn: Callable[..., Any], line: int = 0) -> str:
    """`script.py:3`; `line` counts from the `def`."""
    code = fn.__code__
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno + line}"
