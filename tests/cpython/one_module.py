"""Runs one module of CPython's own tests, in a process of its own: `python -m tests.cpython.one_module test_dict MODE [NAME...]`.

MODE: `plain` (nothing of the tracer is loaded), `offered` (every frame is offered to the tracer) or `forced` (and replaced by
generated code where it can be). NAMEs select tests by a part of their id; one that begins with `-` leaves them out. What
happens goes to the file REPORT in the environment, a line of JSON for each test and a last one about the frames.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

Report = Callable[[dict[str, Any]], None]

# What runs the tests is left alone: a frame that is replaced holds all that it calls.
_HARNESS = ("unittest.suite", "unittest.case", "unittest.result")
_ASSERTIONS = ("assert", "_assert", "fail", "_base", "handle", "expected", "__enter__", "__exit__", "__init__")


def _unwatched(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, run with no region active."""

    def run(*args: Any) -> Any:
        extension = sys.modules.get("tracer._C")
        if extension is None:
            return method(*args)
        region = extension.swap_active(None)
        try:
            return method(*args)
        finally:
            extension.swap_active(region)

    return run


class Outcomes(unittest.TestResult):
    """Reports how each test ended; of failures the traceback too."""

    def __init__(self, report: Report, watch: Watch | None) -> None:
        super().__init__()
        self._report = report
        self._watch = watch
        self._cls: type | None = None

    def _note(self, test: Any, outcome: str, error: Any = None) -> None:
        text = "" if error is None else self._exc_info_to_string(error, test)  # type: ignore[attr-defined]
        self._report({"test": test.id(), "outcome": outcome, "text": text})

    @_unwatched
    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._report({"test": test.id(), "outcome": "begun", "text": ""})
        if self._watch is not None and type(test) is not self._cls:
            self._watch.start_anew()
        self._cls = type(test)

    @_unwatched
    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)

    @_unwatched
    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    @_unwatched
    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "failed", err)

    addFailure = addError

    @_unwatched
    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note(test, "failed", err)

    @_unwatched
    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, "skipped")

    @_unwatched
    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "passed")

    @_unwatched
    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "failed")


class Watch:
    """A region that every frame is offered to, and what became of them."""

    def __init__(self, forced: bool) -> None:
        import tracer
        from tracer import _C, config

        config.suppress_errors = False
        config.convert_every_frame = forced
        config.accumulated_recompile_limit = 1_000_000
        config.max_trace_instructions = 5_000  # a trace of a long loop is cut into several
        for code in [*_codes(Outcomes), _unwatched(self.count).__code__]:
            _C.never_trace(code)
        self.scope = tracer.optimize("eager", name="CPython's tests")
        with self.scope:
            pass
        self.state: Any = self.scope._state  # type: ignore[union-attr]
        self._ask, self.state.on_miss = self.state.on_miss, self._on_miss
        self._own = os.path.dirname(tracer.__file__)  # functions that output code calls are none of the program's
        self._asked: set[types.CodeType] = set()
        self._functions: set[types.CodeType] = set()
        self._converted: set[types.CodeType] = set()
        self._skip_harness()

    def _on_miss(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        self._asked.add(function.__code__)
        return self._ask(function, args)

    def _skip_harness(self) -> None:
        for name in _HARNESS:
            for value in vars(sys.modules[name]).values():
                if getattr(value, "__module__", None) == name:
                    for code in _codes(value):
                        if not code.co_name.startswith(_ASSERTIONS):
                            self.state.region.skip(code)

    def start_anew(self) -> None:
        """Forgets all entries, so that no class of tests meets the recompile limit because of others."""
        self.count()
        self.state.reset()
        self._skip_harness()

    def count(self) -> None:
        from tracer.bytecode import is_resume_name

        region = self.state.region
        functions = {code for code in self._asked if not is_resume_name(code) and not code.co_filename.startswith(self._own)}
        self._functions |= functions
        self._converted |= {code for code in functions if any(entry.code is not None for entry in region.entries(code))}
        self._asked.clear()

    def report(self) -> dict[str, Any]:
        from tracer import counters

        self.count()
        region = self.state.region
        return {
            "functions": len(self._functions),
            "converted": len(self._converted),
            "calls": region.offered,
            "served": region.served,
            "traces": counters["frames"]["total"],
            "given up": counters["frames"]["skipped"],
            "breaks": dict(counters["graph_break"].most_common()),
            "left": sorted(map(str, self._functions - self._converted)),
        }


def _codes(value: Any) -> list[types.CodeType]:
    """The code of a function, or of the methods of a class."""
    functions = vars(value).values() if isinstance(value, type) else (value,)
    return [function.__code__ for function in functions if isinstance(function, types.FunctionType)]


def _selected(tests: Any, names: list[str]) -> Iterator[unittest.TestCase]:
    wanted = [name for name in names if name[0] != "-"]
    unwanted = [name[1:] for name in names if name[0] == "-"]
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from _selected(test, names)
        elif (not wanted or any(name in test.id() for name in wanted)) and not any(name in test.id() for name in unwanted):
            yield test


def main(name: str, mode: str, names: list[str]) -> None:
    with open(os.environ["REPORT"], "w", encoding="utf-8") as file:

        def report(line: dict[str, Any]) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        watch = None if mode == "plain" else Watch(mode == "forced")
        module = importlib.import_module(f"test.{name}")
        suite = unittest.TestSuite(_selected([unittest.TestLoader().loadTestsFromModule(module)], names))
        gc.collect()
        gc.freeze()  # what torch brings along would make every collection slow
        # A trace makes objects enough for some collections. Tests of weak references count on none between two of their lines.
        gc.set_threshold(100_000)
        with contextlib.nullcontext() if watch is None else watch.scope:
            suite(Outcomes(report, watch))
        report({} if watch is None else watch.report())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
