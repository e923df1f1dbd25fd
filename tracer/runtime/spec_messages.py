"""What is said of a text that is no clause of a shape spec: the grammar, and the line that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

import sympy

from shapes.domain import show

GRAMMAR = """\
A spec has clauses with ';' between them:
    x: B, S                a name for each dim of the argument x; '_' leaves a dim out, '2*B + 1' computes it from B
    B in 1..64             bounds of a name; 'S in 8..512 by 8' bounds a multiple of 8, 'B in 1..' only from below
    B <= S                 a relation between names, as Python has them"""

_BOUNDS = re.compile(  # B = 1..64, B in 1...64, B in [1, 64], B: 1-64, B in 1 to 64 step 8
    r"(\w+)\s*(?:==|:=|=|:|\bin\b|\N{ELEMENT OF})\s*(?P<open>[\[({]|range\()?\s*(-?\d+)\s*"
    r"(?:\.{2,}|\N{HORIZONTAL ELLIPSIS}|,|:|-|\N{EN DASH}|\bto\b|\buntil\b)\s*(-?\d+)\s*[\])}]?"
    r"(?:\s*,?\s*(?:by|step|in steps of|multiples? of|%)\s*(\d+))?"
)
_UPPER = re.compile(r"(\w+)\s*(?:=|:|\bin\b)\s*\.{2,}\s*(\d+)")  # B in ..64
_EQUAL = re.compile(r"(\w+)\s*(?::?=)\s*([\w*+ ]+)")  # B = 64, S = 2*B
_MULTIPLE = re.compile(r"(\w+)\s*(?:%|(?:is\s+)?(?:a\s+)?multiple\s+of|by)\s*(\d+)")  # B % 8, B multiple of 8
_ARGUMENT = r"[A-Za-z_]\w*(?:\.\w+|\[[^\]]*\])*"


def meant_line(clause: str) -> str | None:
    """The line that somebody probably meant who wrote this clause; None if that is not known.

    >>> meant_line("B = 1..64")
    'B in 1..64'
    """
    clause = clause.strip()
    if found := _BOUNDS.fullmatch(clause):
        name, opened, low, high, step = found.groups()
        most = int(high) - (opened == "range(")
        return f"{name} in {low}..{most}" + (f" by {step}" if step else "")
    if found := _UPPER.fullmatch(clause):
        return f"{found[1]} <= {found[2]}"
    if found := _MULTIPLE.fullmatch(clause):
        return f"{found[1]} % {found[2]} == 0"
    if found := _EQUAL.fullmatch(clause):
        return f"{found[1]} == {found[2].strip()}"
    return _meant_dims(clause)


def _meant_dims(clause: str) -> str | None:
    """`x: B S`, `x B, S`, `x: (B, S)`, `x: B, S, y: B`, `x: 2B`, `x: B, ?`"""
    found = re.fullmatch(rf"({_ARGUMENT})\s*(:|\s)(.*)", clause, re.DOTALL)
    if found is None or (found[2] != ":" and "," not in found[3]):
        return None
    path, dims = found[1], found[3].strip()
    if re.search(rf",\s*{_ARGUMENT}\s*:", dims):
        return f"{path}: " + re.sub(rf",\s*({_ARGUMENT})\s*:", r"; \1:", dims)
    if dims[:1] + dims[-1:] in ("()", "[]"):
        dims = dims[1:-1]
    items = [_meant_dim(item) for item in dims.split(",")]
    return f"{path}: {', '.join(map(str, items))}" if None not in items else None


def _meant_dim(item: str) -> str | None:
    item = item.strip()
    if item in ("?", "*", ":", "None"):
        return "_"
    item = re.sub(r"\b(\d+)\s*([A-Za-z_]\w*)\b", r"\1*\2", item)
    if re.fullmatch(r"\w+(\s+[A-Za-z_]\w*)+", item):
        return ", ".join(item.split())
    return item if re.fullmatch(r"\w+(\s*(?:\*|//|\+|-|%)\s*\w+)*", item) else None


def hint_for(clause: str) -> str:
    """What to write in place of a clause that cannot be read."""
    meant = meant_line(clause)
    return GRAMMAR if meant is None or meant == clause.strip() else f"write {meant!r}.\n  {GRAMMAR}"


def unknown_name(name: str, said: str, known: Iterable[str]) -> tuple[str, str]:
    """The message and the hint for a name that is bounded or related, and stands at no dim of any argument."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or [each for each in known if each.lower() == name.lower()]
    message = f"{name} is no dim of any argument, so {said!r} says nothing of a call"
    names = f"names that stand at dims: {', '.join(known)}" if known else "no name stands at a dim"
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return message, f"{meant}{names}. Put {name} at a dim, or leave that out."


def computed_only(name: str, expr: Any, dims: str, bounds: tuple[int, int | None]) -> tuple[str, str]:
    """The message and the hint for a name that is no dim of its own, only a part of `expr`, as in `x: B, 16*H`.

    `dims`: the clause with that expression. `bounds`: smallest and largest value of the name.
    """
    text = show(expr)
    message = (
        f"{name} is only used in an expression, {text}, in {dims!r}: some dim of an input has to be {name} itself, so that its "
        f"value can be read"
    )
    symbol = sympy.Symbol(name, integer=True)
    factor, rest = expr.coeff(symbol), expr.coeff(symbol, 0)
    if not (factor.is_Integer and rest.is_Integer and factor > 0):
        return (
            message,
            f"give the whole dim a name, as in {dims.replace(str(expr), 'N')!r}, and relate that to others: 'N <= 4*B'.",
        )
    least, most = factor * bounds[0] + rest, "" if bounds[1] is None else factor * bounds[1] + rest
    said = f"{name} in {least}..{most}" + (f" by {factor}" if rest == 0 else f"; {name} % {factor} == {rest % factor}")
    line = f"{dims.replace(text, name)}; {said}"
    before = f"({name} - {rest})//{factor}" if rest else f"{name}//{factor}"
    hint = f"give the whole dim the name: {line!r}, and write {before} where {name} stands elsewhere."
    return message, hint
