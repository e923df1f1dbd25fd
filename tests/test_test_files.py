"""The tests themselves: files and functions that can be read in one go, and helpers that are defined once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 500, 60
FILES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(node: Function) -> int:
    return node.end_lineno - node.lineno + 1  # type: ignore[operator]


def test_no_file_is_longer_than_can_be_read_in_one_go():
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def test_no_function_is_longer_than_a_page():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}, {length(node)} lines"
        for path, tree in FILES.items()
        for node in functions_of(tree)
        if length(node) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_a_helper_is_defined_once():
    """Functions of one name with one body, beyond a line, belong in tests/support."""
    places = defaultdict(list)
    for path, tree in FILES.items():
        for node in tree.body:  # type: ignore[attr-defined]
            if isinstance(node, Function) and not node.decorator_list and length(node) > 2:
                places[ast.unparse(node)].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    again = [where for where in places.values() if len(where) > 1]
    assert not again, again


def test_no_two_tests_of_one_file_have_one_name():
    for path, tree in FILES.items():
        names = [node.name for node in tree.body if isinstance(node, Function)]  # type: ignore[attr-defined]
        tests = [name for name in names if name.startswith("test_")]
        assert len(tests) == len(set(tests)), path
