"""The files of csrc/ include each other in one direction, and so do its folders.

A file is a name without its suffix: region.c and region.h are one. Root files (compat.h and word.h below all others, module.c
above them) are in no folder.
"""

from __future__ import annotations

import graphlib
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
SUFFIXES = {".c", ".cpp", ".h"}

Graph = Mapping[str, set[str]]


def includes(root: Path) -> dict[str, set[str]]:
    """File -> the other files that it includes, each as its path below `root` without the suffix."""
    graph: dict[str, set[str]] = defaultdict(set)
    for path in sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES):
        name = path.relative_to(root).with_suffix("").as_posix()
        graph[name] |= {
            included.removesuffix(".h") for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
        } - {name}
    return dict(graph)


def between_folders(files: Graph) -> dict[str, set[str]]:
    """Folder -> the other folders that its files include from."""
    graph: dict[str, set[str]] = defaultdict(set)
    for name, included in files.items():
        folder = Path(name).parent.as_posix()
        graph[folder] |= {Path(other).parent.as_posix() for other in included} - {folder, "."}
    graph.pop(".", None)
    return dict(graph)


def circle(graph: Graph) -> list[str]:
    """The names on one circle, the first of them again at the end; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_files_include_each_other_in_one_direction():
    assert circle(includes(CSRC)) == []


def test_folders_include_each_other_in_one_direction():
    graph = between_folders(includes(CSRC))
    assert set(graph) >= {"hook", "dispatch", "guards", "tensors"}
    assert circle(graph) == []


def test_every_include_names_a_file_from_csrc_on():
    files = includes(CSRC)
    assert {name: included - files.keys() for name, included in files.items() if included - files.keys()} == {}


def test_the_hook_and_the_tensors_stand_on_no_other_folder():
    graph = between_folders(includes(CSRC))
    assert graph["hook"] == set() and graph["tensors"] == set()


@pytest.mark.parametrize(
    ("files", "files_circle", "folders_circle"),
    [
        ({"a/x.c": '#include "b/y.h"\n', "b/y.h": "#include <stdio.h>\n"}, set(), set()),
        ({"a/x.h": "", "a/x.c": '#include "b/y.h"\n', "b/y.h": "", "b/y.cpp": '# include "a/x.h"\n'}, {"a/x", "b/y"}, {"a", "b"}),
        ({"a/x.c": '#include "b/y.h"\n', "b/y.h": "", "b/z.c": '#include "a/w.h"\n', "a/w.h": ""}, set(), {"a", "b"}),
        ({"a/x.h": '#include "a/y.h"\n', "a/y.h": '#include "a/x.h"\n'}, {"a/x", "a/y"}, set()),
    ],
    ids=["one direction", "through a .c file", "folders alone", "within a folder"],
)
def test_a_circle_is_found(tmp_path, files, files_circle, folders_circle):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = includes(tmp_path)
    assert set(circle(graph)) == files_circle
    assert set(circle(between_folders(graph))) == folders_circle
