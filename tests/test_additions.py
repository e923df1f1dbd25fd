"""What docs/architecture.md promises: each kind of thing is added in one place.

All additions are made in a copy of the tracer, each in one file, and one process tries them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Addition(NamedTuple):
    file: str  # the one that is written, or added to
    text: str
    program: str  # fails without the addition
    behind: str = ""  # the line that the text is put behind; otherwise it goes to the end


ADDITIONS = {
    "builtin": Addition(
        "tracer/library/zlib_.py",
        """
import zlib
from tracer.protocol.models import models
from tracer.variables.values.constant import ConstantVariable

@models(zlib.adler32)
def _adler32(tx, data):
    return ConstantVariable(len(data.constant()) + 40)
""",
        "import zlib\n"
        "fn = tracer.compile(lambda x: x + zlib.adler32(b'ab'), fullgraph=True)\n"
        "assert fn(torch.zeros(1)).item() == 42",
    ),
    "polyfill": Addition(
        "tracer/library/polyfills/binascii_.py",
        """
import binascii
from tracer.library.polyfills.replacing import replaces

@replaces(binascii.crc_hqx)
def _crc_hqx(data, value):
    return len(data) + value
""",
        "import binascii\n"
        "fn = tracer.compile(lambda x: x + binascii.crc_hqx(b'ab', 40), fullgraph=True)\n"
        "assert fn(torch.zeros(1)).item() == 42",
    ),
    "function of torch": Addition(
        "tracer/library/torch_/threads.py",
        """
import torch
from tracer.protocol.models import models
from tracer.variables.values.constant import ConstantVariable

@models(torch.get_num_interop_threads)
def _model(tx):
    return ConstantVariable(42)
""",
        "fn = tracer.compile(lambda x: x + torch.get_num_interop_threads(), fullgraph=True)\n"
        "assert fn(torch.zeros(1)).item() == 42",
    ),
    "operator": Addition(
        "tracer/operators/operator_rules.py",
        """
_LIBRARY = torch.library.Library("added", "DEF")
_LIBRARY.define("twice(Tensor x) -> Tensor")
_LIBRARY.impl("twice", lambda x: 2 * x, "CPU")

@meta(torch.ops.added.twice.default)
def _twice(func, x):
    return torch.empty_like(x)
""",
        "fn = tracer.compile(lambda x: torch.ops.added.twice(x) + x.shape[0], fullgraph=True, dynamic=True)\n"
        "assert fn(torch.ones(3)).tolist() == [5.0] * 3",
    ),
    "fact of an operator": Addition(
        "tracer/operators/table.py",
        '    "sin": Row(fails="nothing, in truth"),\n',
        "from tracer.operators.facts import facts_of\nassert facts_of(torch.ops.aten.sin.default).may_fail",
        behind="ROWS: dict[str, Row] = {\n",
    ),
    "guard kind": Addition(
        "tracer/guards/containers.py",
        """
@guard_kind
class LengthBetween(Guard):
    source: Source
    least: int
    most: int
    kind: ClassVar[str] = "LENGTH_BETWEEN"
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Length(self.source, self.least, self.most),)
""",
        "from tracer.guards.containers import LengthBetween\n"
        "assert holds(LengthBetween(X, 2, 3), [1, 2]) and not holds(LengthBetween(X, 2, 3), [1])",
    ),
    "source kind": Addition(
        "tracer/sources/attributes.py",
        """
@source_kind
class OfClassSource(Source):
    base: Source
    attr: str
    way = (steps.TYPE, steps.TYPE_LOOKUP)
    named = "type({self.base}).{self.attr}"
""",
        "from tracer.guards.identity import IdMatch\n"
        "from tracer.sources.attributes import OfClassSource\n"
        "assert holds(IdMatch(OfClassSource(X, 'append'), list.append), [])\n"
        "assert not holds(IdMatch(OfClassSource(X, 'append'), print), [])",
    ),
    "opcode": Addition(
        "tracer/interpreter/opcodes/added.py",
        """
from tracer.interpreter.handlers import handles

@handles("DO_NEW_THINGS", since=(3, 12))
def do_new_things(tx, inst):
    pass
""",
        "from tracer.interpreter.handlers import OPCODES\n"
        "import tracer.interpreter.opcodes\n"
        "assert 'DO_NEW_THINGS' in OPCODES.names((3, 12)) - OPCODES.names((3, 11))",
    ),
    "reason for a break": Addition(
        "tracer/graph_breaks/catalogue/data.py",
        'register("added-reason", "Added ({value})", "Why.", "what to try.", topic=TOPIC)\n',
        "from tracer import exc, graph_breaks\n"
        "try:\n    graph_breaks.unsupported('added-reason', value=1)\n"
        "except exc.Unsupported as error:\n    assert 'Added (1)' in str(error)\n"
        "assert 'added-reason' in graph_breaks.markdown()",
    ),
    "backend": Addition(
        "tracer/backends/registry.py",
        '    "added": LazyCompiler("eager", "tracer.backends.eager"),\n',
        "assert 'added' in tracer.list_backends()\n"
        "assert tracer.compile(lambda x: x + 1, backend='added')(torch.ones(1)).item() == 2",
        behind="_BUILT_IN: dict[str, CompilerFn] = {\n",
    ),
    "artifact": Addition(
        "tracer/logs.py",
        '    "added": "what was added",\n',
        "from tracer import logs\n"
        "with logs.capture('added') as records:\n    logs.emit('added', 'said')\n"
        "assert [record.text for record in records] == ['said']\n"
        "tracer.set_logs(added=True)\n"
        "assert logs.enabled() == {'added'} and '`added`' in logs.markdown()\n"
        "tracer.set_logs(all=False)",
        behind="ARTIFACTS: dict[str, str] = {\n",
    ),
    "metric": Addition(
        "tracer/report/exporters/readings.py",
        '    Metric("added", "gauge", "", "What was added.", _one(lambda reading: 7)),\n',
        "import prometheus_client\n"
        "registry = prometheus_client.CollectorRegistry()\n"
        "tracer.report_to_prometheus(registry)\n"
        "made = tracer.compile(lambda x: x, name='made')\n"
        "assert registry.get_sample_value('shapetracer_added', {'function': 'made'}) == 7",
        behind="METRICS = (\n",
    ),
    "setting": Addition(
        "tracer/config.py",
        '_key("added_setting", 1, "What was added.")\n',
        "assert tracer.config.added_setting == 7  # of the environment\n"
        "with tracer.config.patch(added_setting=2):\n    assert tracer.config.added_setting == 2\n"
        "assert 'added_setting' in tracer.config.markdown()",
        behind="    KEYS[name] = Key(name, type(default), default, doc, choices)\n\n\n",
    ),
}

TRY_ALL = """
import json, sys, traceback
import torch, tracer
from tracer.guards.manager import CheckFunctionManager
from tracer.sources.roots import LocalSource

X = LocalSource("x")

def frame(x):
    pass

def holds(guard, value):
    return CheckFunctionManager([guard], frame.__code__, globals()).check_fn(value) is True

results = {}
for name, program in json.load(sys.stdin).items():
    try:
        exec(program, dict(globals()))
        results[name] = ""
    except Exception:
        results[name] = traceback.format_exc()
print(json.dumps([tracer.__file__, results]))
"""


def tried(directory: Path) -> dict[str, str]:
    """What went wrong with each program, run with the tracer in a directory."""
    programs = {name: addition.program for name, addition in ADDITIONS.items()}
    run = subprocess.run(
        [sys.executable, "-c", TRY_ALL],
        input=json.dumps(programs),
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory), "TRACER_ADDED_SETTING": "7", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    where, results = json.loads(run.stdout.splitlines()[-1])
    assert Path(where).is_relative_to(directory)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    copy = tmp_path_factory.mktemp("with_additions")
    for package in ("tracer", "shapes"):
        shutil.copytree(ROOT / package, copy / package)
    for addition in ADDITIONS.values():
        path = copy / addition.file
        text = path.read_text() if path.exists() else ""
        before, behind, after = text.partition(addition.behind) if addition.behind else (text, "", "")
        assert behind == addition.behind
        path.write_text(f"{before}{behind}{addition.text}{after}")
    return tried(copy)


@pytest.mark.parametrize("name", ADDITIONS)
def test_one_addition_in_one_file_is_enough(results: dict[str, str], name: str) -> None:
    assert not results[name], results[name]


def test_each_program_needs_its_addition() -> None:
    assert all(tried(ROOT).values())


def table_of_additions() -> list[list[str]]:
    """The rows of the table at the head of docs/architecture.md: what is added, how, and where."""
    head = (ROOT / "docs/architecture.md").read_text().partition("\n## The house")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in head.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[0] != "To add"]


@pytest.mark.parametrize("row", table_of_additions(), ids=lambda row: row[0][:40])
def test_the_place_that_the_table_names_exists(row: list[str]) -> None:
    _, how, where = row
    files = [file for path in re.findall(r"`(tracer/[^`]+)`", where) for file in ROOT.glob(re.sub(r"<\w+>", "*", path))]
    assert files, where
    texts = [file.read_text() for file in files]
    names = re.findall(r"`(@?\w+)(?:\([^`]*)?`", how.partition(", then ")[0]) + re.findall(r"`([A-Z_]+)` in ", where)
    for name in names:
        pattern = rf"^@{name[1:]}\b" if name.startswith("@") else rf"\b{name}\b"
        assert any(re.search(pattern, text, re.MULTILINE) for text in texts), (name, where)
