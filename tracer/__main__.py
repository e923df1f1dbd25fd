"""`python -m tracer contract diff OLD NEW [--ignore KIND,...]`. Exit status: 0 equivalent, 1 different, 2 unknown, 3 no
contracts.

`python -m tracer report DIR [-o PAGE]`: the page of a recording. Exit status: 0, or 3 where there is none. `--live [--port N]`
serves it instead.

`python -m tracer dashboard`: prints a dashboard for Grafana.

`python -m tracer check-backend NAME`: runs programs with a backend (a name, or module:function) beside eager. Exit status: 0
where it keeps what docs/backends.md asks for, 1 where it does not, 3 where there is no such backend.

`python -m tracer inspect FILE`: what the head of a file of entries says, without running anything of it. Exit status: 0, or 3
where it is none.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from importlib import resources

from tracer.api.conformance import check_backend
from tracer.exc import TracerError
from tracer.report.live import PORT, serve
from tracer.report.page import write
from tracer.saving.inspecting import describe
from tracer.serving.contract import Contract, difference
from tracer.serving.contract_changes import KINDS

_STATUS = {"equivalent": 0, "different": 1, "unknown": 2}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tracer")
    commands = parser.add_subparsers(required=True)
    contract = commands.add_parser("contract", help="shape contracts, which fn.contract().save(path) writes")
    diff = contract.add_subparsers(required=True).add_parser("diff", help="what differs, with a witness for each difference")
    diff.add_argument("old")
    diff.add_argument("new")
    kinds = ";\n".join(f"{kind}: {what}" for kind, what in KINDS.items())
    diff.add_argument("--ignore", default="", metavar="KIND,...", help=f"kinds of differences that do not count:\n{kinds}")
    diff.set_defaults(run=_contract_diff)
    report = commands.add_parser("report", help="an HTML page of what was recorded under TRACER_REPORT=DIR")
    report.add_argument("directory")
    how = report.add_mutually_exclusive_group()
    how.add_argument("-o", "--output", help="where the page goes; by default report.html in the directory")
    how.add_argument("--live", action="store_true", help="serve the page, which follows the recording while it goes on")
    report.add_argument("--host", default="127.0.0.1", help="of --live: 0.0.0.0 for all who can reach this machine")
    report.add_argument("--port", type=int, default=PORT, help=f"of --live; by default {PORT}; 0: one that is free")
    report.set_defaults(run=_report)
    dashboard = commands.add_parser(
        "dashboard", help="a dashboard for Grafana of what tracer.report_to_prometheus exports, as JSON"
    )
    dashboard.set_defaults(run=_dashboard)
    conformance = commands.add_parser("check-backend", help="whether a backend keeps what docs/backends.md asks for")
    conformance.add_argument("backend", help="a name that backend= takes, or module:function")
    conformance.set_defaults(run=_check_backend)
    inspect = commands.add_parser("inspect", help="what the head of a file that tracer.save wrote says; runs nothing of it")
    inspect.add_argument("file")
    inspect.set_defaults(run=_inspect)
    names = parser.parse_args(arguments)
    try:
        return int(names.run(names))
    except (TracerError, OSError) as error:
        print(error, file=sys.stderr)
        return 3


def _contract_diff(names: argparse.Namespace) -> int:
    ignored = list(filter(None, map(str.strip, names.ignore.split(","))))
    found = difference(Contract.read(names.old), Contract.read(names.new), ignore=ignored)
    print(found)
    return _STATUS[found.status]


def _inspect(names: argparse.Namespace) -> int:
    print(describe(names.file))
    return 0


def _dashboard(names: argparse.Namespace) -> int:
    print(resources.files("tracer.report.exporters").joinpath("grafana.json").read_text(encoding="utf-8"), end="")
    return 0


def _check_backend(names: argparse.Namespace) -> int:
    all_kept = True
    for finding in check_backend(names.backend):
        print(f"{'kept' if finding.kept else 'LOST'}  {finding.check.name}: {finding.check.keeps}", flush=True)
        if not finding.kept:
            print(textwrap.indent(finding.difference, "      "), flush=True)
            all_kept = False
    return 0 if all_kept else 1


def _report(names: argparse.Namespace) -> int:
    if names.live:
        serve(names.directory, names.host, names.port)
    else:
        print(write(names.directory, names.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
