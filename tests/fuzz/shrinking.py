"""A failing program made short: parts of its syntax tree are dropped or simplified while the failure stays."""

from __future__ import annotations

import ast
import copy
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator

from tests.fuzz.programs import Program

_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_MOST_SECONDS = 180


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The shortest program found for which `fails` still holds."""
    deadline = time.process_time() + _MOST_SECONDS

    def still_fails(tree: ast.Module) -> bool:
        try:
            source = ast.unparse(ast.fix_missing_locations(tree))
            with warnings.catch_warnings(action="ignore"):  # of calls of numbers, which some variants are
                compile(source, "shrunk", "exec")
        except (SyntaxError, ValueError, RecursionError):
            return False
        try:
            return fails(dataclasses.replace(program, source=source))
        except Exception:
            return False  # nothing that can be run any more

    tree = ast.parse(program.source)
    if not still_fails(copy.deepcopy(tree)):
        return program
    progress = True
    while progress and time.process_time() < deadline:
        progress = False
        for variants in (_without_statements, _unwrapped, _simpler_expressions):
            index = 0
            while time.process_time() < deadline:
                smaller = variants(tree, index)
                if smaller is None:
                    break
                if still_fails(smaller):
                    tree, progress = smaller, True
                else:
                    index += 1
    return dataclasses.replace(program, source=ast.unparse(tree) + "\n")


def _lists(tree: ast.AST) -> Iterator[list[ast.AST]]:
    for node in ast.walk(tree):
        for name in _BODIES:
            found = getattr(node, name, None)
            if isinstance(found, list):
                yield found


def _without_statements(tree: ast.Module, index: int) -> ast.Module | None:
    """The tree without its `index`-th statement, the outer ones first."""
    smaller = copy.deepcopy(tree)
    places = [
        (found, position) for found in _lists(smaller) for position, node in enumerate(found) if not isinstance(node, ast.Pass)
    ]
    if index >= len(places):
        return None
    found, position = places[index]
    del found[position]
    if not found:
        found.append(ast.Pass())
    return smaller


def _unwrapped(tree: ast.Module, index: int) -> ast.Module | None:
    """A compound statement replaced by its own body."""
    smaller = copy.deepcopy(tree)
    places = [
        (found, position)
        for found in _lists(smaller)
        for position, node in enumerate(found)
        if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.TryStar))
    ]
    if index >= len(places):
        return None
    found, position = places[index]
    found[position : position + 1] = found[position].body  # type: ignore[attr-defined]
    return smaller


def _simpler_expressions(tree: ast.Module, index: int) -> ast.Module | None:
    """An expression replaced by one of its parts, or by 1."""
    smaller = copy.deepcopy(tree)
    places = []
    for node in ast.walk(smaller):
        for name, value in ast.iter_fields(node):
            for position, part in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(part, ast.expr) and not isinstance(part, (ast.Name, ast.Constant)):
                    simpler = [child for child in ast.iter_child_nodes(part) if isinstance(child, ast.expr)]
                    places += [
                        (node, name, position if isinstance(value, list) else None, new)
                        for new in [*simpler[:4], ast.Constant(1)]
                    ]
    if index >= len(places):
        return None
    node, name, position, new = places[index]
    if position is None:
        setattr(node, name, new)
    else:
        getattr(node, name)[position] = new
    return smaller
