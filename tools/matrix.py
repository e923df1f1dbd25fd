"""The test suite on each Python and torch that is set up here (`make matrix`): leaves tests/results/matrix.md.

    python -m tools.matrix [COMBINATION ...] [--folders FOLDER ...] [--checks NAME ...] [--no-build] [--root FOLDER]

A combination is set up by `make build PYTHON=... TORCH=...`; with `--no-build` its environment and extension are taken as they
are (`setup.py build_ext --inplace`). CPython 3.14 runs in the root that tools/python314.sh makes of `--root FOLDER`. Folders of
tests run one after the other; what has run is kept in build/matrix/, so that a run that was cut off goes on. `rm -r build/matrix`
starts anew. `3.12` or `3.12-2.13.0` runs these combinations only, `--folders tests/api` these folders only; the page says what
has not run, and of which commits the results are.

`--checks`, with or without names, runs the checks in place of the folders: longer runs that a supported Python has to pass,
too. They need what `pip install -e ".[zoo]"` brings.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCHES = {"3.11": ("2.13.0", "2.14.1"), "3.12": ("2.13.0",), "3.13": ("2.13.0", "2.14.1"), "3.14": ("2.14.1",)}
COMBINATIONS = [(python, torch) for python, torches in TORCHES.items() for torch in torches]
IN_ROOT = ("3.14", "2.14.1")  # what tools/python314.sh sets up
#: What a combination has to pass beside the default tests: arguments of python; it holds if its exit status is 0.
CHECKS = {
    "demo": ("-m", "benchmarks.demo"),
    "zoo": ("-m", "benchmarks.zoo", "--first", "30", "--no-peer"),
    "cpython": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--full", "tests/cpython"),
    "fuzz": ("-m", "tests.fuzz", "--newer-syntax", "0:4000"),
}
KEPT = ROOT / "build/matrix"
PAGE = ROOT / "tests/results/matrix.md"
_CHECKS_HEADING = "## Longer checks"
_STATUS = re.compile(r"^exit status (-?\d+)\Z", re.MULTILINE)
_COMMIT = re.compile(r"\Acommit (\w+\+?)$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed)")
_LAST = re.compile(r" in [\d.]+s\b")  # warnings of the process may follow
_WRONG = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


@dataclass
class Outcome:
    """What the tests of one combination came to, of the folders that have run."""

    counts: Counter[str] = field(default_factory=Counter)
    commits: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def folders() -> list[str]:
    """What is run at a time: each folder of tests, and the files beside them."""
    found = sorted(path for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("**/test_*.py")))
    return [*(str(path.relative_to(ROOT)) for path in found), "tests/test_*.py"]


def environment(python: str, torch: str) -> Path:
    """As in the Makefile."""
    minor = torch.rpartition(".")[0]
    return ROOT / (".venv" if (python, minor) == ("3.11", "2.13") else f".venv-{python}-torch{minor}")


def log_of(python: str, torch: str, folder: str) -> Path:
    return KEPT / f"{python}-{torch}" / (re.sub(r"\W+", "-", folder).strip("-") + ".txt")


def commit() -> str:
    """The commit of this tree, with a + where files have changed since, other than results."""
    status = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", f":!{PAGE.parent.relative_to(ROOT)}"]
    said = [["git", "rev-parse", "--short", "HEAD"], status]
    head, changed = (subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip() for words in said)
    return f"{head}{'+' * bool(changed)}"


def tester(python: str, torch: str, builds: bool = True, root: Path | None = None) -> list[str] | None:
    """The command that runs Python on a combination; None where it is not set up."""
    if root is not None and (python, torch) == IN_ROOT:
        return [str(ROOT / "tools/python314.sh"), str(root)]  # which builds, too
    found = environment(python, torch) / "bin/python"
    if not (found.parent.parent / ".built" if builds else found).exists():
        return None
    if builds:
        subprocess.run(["make", "--quiet", "build", f"PYTHON={found}", f"TORCH={torch}"], cwd=ROOT, check=True)
    return [str(found)]


def run_folders(python: str, torch: str, chosen: list[str], tester: list[str]) -> None:
    for folder in chosen:
        files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(folder)) if "*" in folder else [folder]
        arguments = ("-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfE", "--tb=short", *files)
        _run(python, torch, folder, [*tester, *arguments])


def run_checks(python: str, torch: str, chosen: list[str], tester: list[str]) -> None:
    for name in chosen:
        _run(python, torch, f"check {name}", [*tester, *CHECKS[name]])


def _run(python: str, torch: str, name: str, command: list[str]) -> None:
    """Runs a folder or a check that has not run yet, and keeps what it says."""
    log = log_of(python, torch, name)
    if log.exists():
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    tested = commit()
    environ = {**os.environ, "TRACER_TRY_PYTHON": "1", "TORCH": torch}  # some combinations may be on trial
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    log.write_text(f"commit {tested}\n{ran.stdout}{ran.stderr}\nexit status {ran.returncode}")
    print(f"{python} {torch} {name}: exit status {ran.returncode}, {ran.stdout.splitlines()[-1:]}", flush=True)


def checks_row(python: str, torch: str) -> str:
    cells = []
    for name in CHECKS:
        log = log_of(python, torch, f"check {name}")
        if not log.exists():
            cells.append("not run")
            continue
        tested, status = (found.search(log.read_text()) for found in (_COMMIT, _STATUS))
        assert tested and status, log
        cells.append(f"{'holds' if status[1] == '0' else 'fails'} at {tested[1]}")
    return f"| {python} | {torch} | {' | '.join(cells)} |"


def outcome_of(python: str, torch: str) -> Outcome:
    outcome = Outcome()
    for folder in folders():
        log = log_of(python, torch, folder)
        if not log.exists():
            outcome.missing.append(folder)
            continue
        text = log.read_text()
        outcome.commits.update(_COMMIT.findall(text))
        counts = _COUNT.findall(next((line for line in reversed(text.splitlines()) if _LAST.search(line)), ""))
        for count, kind in counts:
            outcome.counts[kind.rstrip("s") if kind == "errors" else kind] += int(count)
        outcome.wrong += _WRONG.findall(text)
        if not counts:  # the process ended before pytest did
            outcome.counts["error"] += 1
            outcome.wrong.append(f"{folder} (it did not come to its end)")
    return outcome


def page(before: str = "") -> str:
    """Combinations that have not run in this tree keep what the page said of them `before`."""
    before, _, checks_before = before.partition(f"\n{_CHECKS_HEADING}\n")
    lines = [
        "# The test suite on each Python and torch",
        "",
        "Written by `make matrix`: the default tests, as `make test` runs them, folder by folder, at the commits that are named.",
        "",
        "| Python | torch | passed | failed | skipped | commits |",
        "|---|---|---|---|---|---|",
    ]
    notes = []
    for python, torch in COMBINATIONS:
        outcome = outcome_of(python, torch)
        if not outcome.counts:
            row, named = f"| {python} | {torch} |", f"- {python} with {torch} "
            kept = [line for line in before.splitlines() if line.startswith((row, named))]
            lines += [line for line in kept if line.startswith(row)] or [f"{row} not run | | | |"]
            notes += [line for line in kept if line.startswith(named)]
            continue
        counts = outcome.counts
        failed = counts["failed"] + counts["error"]
        lines.append(
            f"| {python} | {torch} | {counts['passed']} | {failed} | {counts['skipped']} | {', '.join(sorted(outcome.commits))} |"
        )
        notes += [f"- {python} with {torch} fails: `{name}`" for name in outcome.wrong]
        if outcome.missing:
            notes.append(f"- {python} with {torch} has not run: {', '.join(outcome.missing)}")
    return "\n".join([*lines, *([""] if notes else []), *notes, "", *checks_table(checks_before), ""])


def checks_table(before: str) -> list[str]:
    """A cell of what has not run in this tree stays as it was `before`."""
    lines = [
        _CHECKS_HEADING,
        "",
        "`python -m tools.matrix --checks`: the demo, the zoo's first thirty models, all of CPython's own tests that run under",
        "the tracer (`pytest --full tests/cpython`), and some two thousand random programs with syntax newer than 3.11's.",
        "",
        f"| Python | torch | {' | '.join(CHECKS)} |",
        f"|---|---|{'---|' * len(CHECKS)}",
    ]
    for python, torch in COMBINATIONS:
        row = checks_row(python, torch)
        kept = next((line for line in before.splitlines() if line.startswith(f"| {python} | {torch} |")), row)
        cells = zip(row.split(" | "), kept.split(" | "), strict=True)
        lines.append(" | ".join(old if "not run" in new else new for new, old in cells))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser("tools.matrix")
    parser.add_argument("combinations", nargs="*", metavar="COMBINATION")
    parser.add_argument("--folders", nargs="+", choices=folders(), default=folders(), metavar="FOLDER")
    parser.add_argument("--checks", nargs="*", choices=[*CHECKS, []], metavar="NAME")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--root", type=Path, help="a folder that tools/python314.sh has set up, or is to set up")
    options = parser.parse_args()
    for python, torch in COMBINATIONS:
        if options.combinations and not {python, f"{python}-{torch}"} & set(options.combinations):
            continue
        command = tester(python, torch, not options.no_build, options.root)
        if command is None:
            continue
        if options.checks is None:
            run_folders(python, torch, options.folders, command)
        else:
            run_checks(python, torch, options.checks or list(CHECKS), command)
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
