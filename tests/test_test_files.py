"""The tests themselves: files and functions that can be read in one go, and helpers that are defined once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
SOURCES = ROOT.parent
# Folders that mirror no folder of the source, and what lies there.
OTHER_FOLDERS = {
    "cpython": "CPython's own tests, run under the tracer",
    "demo": "the demo in benchmarks/",
    "docs": "the pages, and the code in them",
    "fuzz": "random programs",
    "reference": "the examples of torch's documents on its own tracer",
    "results": "what the last `make test-full` found",
    "shapes/equivalence": "what is recorded, emitted and proved of shapes, held against each other",
    "soundness": "what may change between two calls, whatever part of the tracer notices it",
    "support": "helpers",
    "zoo": "the models of benchmarks/zoo_models",
}
# Tests in no folder whose names are no module of `tracer`: they are of the whole tree.
OF_THE_TREE = {"test_additions", "test_architecture", "test_test_files"}
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 500, 60
FILES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(node: Function) -> int:
    return node.end_lineno - node.lineno + 1  # type: ignore[operator]


def test_folders_are_those_of_the_source():
    folders = {path.relative_to(ROOT).parent for path in FILES if path.parent != ROOT}
    for folder in sorted(folders - set(map(Path, OTHER_FOLDERS))):
        if not any(parent in map(Path, OTHER_FOLDERS) for parent in folder.parents):
            assert any((SOURCES / source / folder).is_dir() for source in ("tracer", ".")), f"tests/{folder} mirrors nothing"


def test_what_lies_in_no_folder_tests_a_module_at_the_top():
    tests = {path.stem for path in FILES if path.parent == ROOT and path.stem.startswith("test_")}
    modules = {path.stem for path in (SOURCES / "tracer").glob("*.py")}
    assert {test.removeprefix("test_") for test in tests - OF_THE_TREE} <= modules


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
