"""Options and fixtures of all tests: --full, and errors of the tracer shown instead of suppressed."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import platform
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

RESULTS = Path(__file__).parent / "results"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked `full` too, and write tests/results/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    slow = [item for item in items if item.get_closest_marker("full")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.fixture(autouse=True, scope="module")
def what_is_there_is_not_looked_at_again() -> None:
    """What imports and other modules of tests have made stays. Collections, which many tests ask for, look at what is new."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def errors_of_the_tracer_are_raised(request: pytest.FixtureRequest) -> Iterator[None]:
    """config.suppress_errors is off, for all threads; tests of it patch it on."""
    if "shapes" in request.path.relative_to(Path(__file__).parent).parts[:1]:  # these need no torch
        yield
        return
    from tracer import config

    before = config.suppress_errors
    config.suppress_errors = False
    yield
    config.suppress_errors = before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    options = config.option
    selected = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or options.keyword or options.markexpr
    if config.getoption("--full") and not selected and not options.collectonly:
        write_results(terminalreporter)


def write_results(reporter: pytest.TerminalReporter) -> None:
    """tests/results/tests.json: what ran, where, how it ended and how long the slowest took."""
    reports = [report for reports in reporter.stats.values() for report in reports if hasattr(report, "when")]
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[report.nodeid] += report.duration
    result = {
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "machine": platform.machine(),
        "date": time.strftime("%Y-%m-%d"),
        "outcomes": {kind: len(found) for kind, found in sorted(reporter.stats.items()) if kind},
        "failed": sorted({report.nodeid for report in reports if report.failed}),
        "seconds": round(sum(seconds.values()), 1),
        "slowest": {name: round(spent, 1) for name, spent in seconds.most_common(20)},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tests.json").write_text(json.dumps(result, indent=2) + "\n")
