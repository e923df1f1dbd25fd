"""The texts of the logs: graphs as tables and as code, sizes, bytecode, guards, recompiles, graph breaks.

Each function returns a text and has no side effect; `logs.emit` calls it only if the artifact is switched on.
"""

from __future__ import annotations

import dis
import io
import os
import re
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import fx

from tracer.bytecode import function_name
from tracer.errors import Unsupported
from tracer.guards.base import Guard
from tracer.guards.manager import CheckFunctionManager, GuardFailure
from tracer.guards.shapes import ShapeLine
from tracer.locations import UserLocation, stack_text

_ASSIGNS = re.compile(r"    (\w+)(?: : [^=]+)? = ")
_FREES = re.compile(r";\s+(?:\w+ = )+None$")


def short_place(code: CodeType) -> str:
    """`script.py:3`."""
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def function_place(code: CodeType) -> str:
    """`Block.forward script.py:3`."""
    return f"{function_name(code)} {short_place(code)}"


# --------------------------------------------------------------------------------------------- graphs


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns side by side, each as wide as its widest cell."""
    lines = [list(headings), *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def graph_table(graph: fx.Graph, title: str) -> str:
    rows = [(node.op, node.name, node.target, node.args, node.kwargs) for node in graph.nodes]
    return f"TRACED GRAPH\n {title}\n{table(('opcode', 'name', 'target', 'args', 'kwargs'), rows)}\n"


def graph_code(graph: fx.Graph, title: str) -> str:
    """The graph as a Python function; above the operations of a user's line stands that line."""
    nodes = {node.name: node for node in graph.nodes}
    lines, last = [_signature(graph)], None
    source = graph.python_code("self", verbose=False).src.rstrip().splitlines()
    start = next(i for i, line in enumerate(source) if line.startswith("def forward("))
    for line in source[start + 1 :]:
        assigned = _ASSIGNS.match(line)
        node = nodes.get(assigned[1]) if assigned else None
        place = node_location(node) if node is not None else None
        if place is not None and place != last:
            lines.append(f"    # File: {place.filename}:{place.lineno}, code: {place.source_line()}")
            last = place
        if line.strip() and not re.fullmatch(r"    (?:\w+ = )+None", line):
            lines.append(_FREES.sub("", line))
    body = "\n".join(lines)
    return f"TRACED GRAPH\n ===== {title} =====\n{body}\n"


def _signature(graph: fx.Graph) -> str:
    parameters = [f"{node.name}: {_annotation(_example(node))}" for node in graph.nodes if node.op == "placeholder"]
    return f"def forward({', '.join(['self', *parameters])}):"


def _annotation(example: Any) -> str:
    if isinstance(example, torch.Tensor):
        return "torch.Tensor"
    for kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
        if isinstance(example, kind):
            return f"torch.{kind.__name__}"
    return type(example).__name__ if example is not None else "object"


def _example(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def node_location(node: fx.Node) -> UserLocation | None:
    """The user's line that a node was traced from: as the tracer noted it, or from the stack trace that torch's tools keep."""
    place = node.meta.get("location")
    if isinstance(place, UserLocation):
        return place
    frames = re.findall(r'File "(.+?)", line (\d+), in (.+)', node.meta.get("stack_trace") or "")
    return UserLocation(frames[-1][0], int(frames[-1][1]), frames[-1][2]) if frames else None


def graph_sizes(graph: fx.Graph, title: str) -> str:
    """The size of each tensor, symbolic, and concrete as in the traced call."""
    lines = ["TRACED GRAPH TENSOR SIZES", f"===== {title} ====="]
    for node in graph.nodes:
        example = _example(node)
        if isinstance(example, torch.Tensor):
            size = tuple(example.size())
            lines.append(f"{node.name}: {_size_text(map(str, size))}")
            lines.append(f"{node.name} (concrete): {_size_text(map(_concrete, size))}")
    return "\n".join(lines) + "\n"


def _size_text(parts: Iterable[str]) -> str:
    sizes = list(parts)
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _concrete(size: Any) -> str:
    """The value of a size in the traced call. Reads the hint, because a comparison would add a guard."""
    if isinstance(size, torch.SymInt):
        try:
            hint = size.node.hint
        except Exception:  # an unbacked size has none
            hint = None
        return "?" if hint is None else str(hint)
    return str(size)


# --------------------------------------------------------------------------------------------- bytecode


def bytecode(heading: str, code: CodeType) -> str:
    """`ORIGINAL BYTECODE fn script.py line 3`, and the instructions."""
    out = io.StringIO()
    dis.dis(code, file=out, depth=0)
    place = f"{function_name(code)} {os.path.basename(code.co_filename)} line {code.co_firstlineno}"
    return f"{heading} {place}\n{out.getvalue().rstrip()}\n"


def side_effects(code: CodeType, effects: Iterable[tuple[str, Iterable[UserLocation]]]) -> str:
    """What the output code replays behind the graph, each with the lines of the program that did it."""
    lines = [f"SIDE EFFECTS: {function_place(code)}"]
    for words, places in effects:
        lines.append(f" - {words}")
        lines += [f"      at {place.with_code()}" for place in places]
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------- guards


def guards_text(manager: CheckFunctionManager) -> str:
    """The guards, each with the user's line that caused it, then their kinds, then the source of `check_fn`."""
    code = manager.code
    lines = [f"GUARDS: {function_place(code)}"]
    described = manager.described()
    width = min(max((len(line) for line, _ in described), default=0), 90)
    lines += [_with_cause(line, guard, width) for line, guard in described]
    return "\n".join([*lines, "", guard_list(manager.guards), "", manager.exec_text])


def _with_cause(line: str, guard: Guard, width: int) -> str:
    notes = []
    if guard.where is not None:
        notes.append(guard.where.with_code())
    if isinstance(guard, ShapeLine) and guard.recorded is not None and guard.recorded != line:
        notes.append(f"recorded as {guard.recorded}")
    return f"  {line.ljust(width)}  # {'; '.join(notes)}" if notes else f"  {line}"


def guard_list(guards: Iterable[Guard]) -> str:
    """` - local 'a' TENSOR_MATCH`, a line each."""
    return "\n".join(["GUARDS:", *[f" - {name}" for name in dict.fromkeys(guard.log_name() for guard in guards)]])


def shapes(symbols: Iterable[Any], shape_guards: Iterable[Any]) -> str:
    """The symbols of a trace, and its shape guards in the order in which they were recorded."""
    lines = [f"create_symbol {symbol.describe()}" for symbol in symbols]
    return "\n".join([*lines, *[shape_guard_added(str(guard.recorded), guard.where) for guard in shape_guards]])


def shape_guard_added(expression: str, place: UserLocation | None) -> str:
    """`eval 2*s0 >= 16 [guard added] at script.py:5 in fn`."""
    return f"eval {expression} [guard added]" + (f" at {place}" if place is not None else "")


def recompile(code: CodeType, failures: Iterable[GuardFailure | str]) -> str:
    """Why no entry matched: the first failing guard of each, with the user's line that caused it."""
    lines = [f"Recompiling function {function_name(code)} in {short_place(code)}"]
    lines.append("    triggered by the following guard failure(s):")
    lines += [f"    {line}" for each in failures for line in failure(each)]
    return "\n".join(lines)


def failure(found: GuardFailure | str) -> list[str]:
    """A guard that fails, and the user's line that caused it."""
    where = found.where if isinstance(found, GuardFailure) else None
    return [f"- {found}"] if where is None else [f"- {found}", f"  guard made at {where.with_code()}"]


def graph_break(error: Unsupported) -> str:
    """The reason of a break and the user's stack."""
    where = f" in user code at {error.where.filename}:{error.where.lineno}" if error.where is not None else ""
    lines = [f"Graph break{where}", f"Reason: {error.message} [{error.id}]", f"Explanation: {error.reason.explanation}"]
    lines += [f"  {name}: {value}" for name, value in error.details.items() if value is not None]
    if error.assumption:
        lines.append(f"Assumption: {error.assumption}")
    lines.append(f"Hint: {error.hint}")
    if error.user_stack:
        lines.append("User code traceback:\n" + stack_text(error.user_stack))
    return "\n".join(lines)
