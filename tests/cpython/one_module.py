"""Runs one module of CPython's own tests, in a process of its own: `python -m tests.cpython.one_module test_dict MODE [NAME...]`.

MODE: `plain` (nothing of the tracer is loaded), `offered` (every frame is offered to the tracer) or `forced` (and replaced by
generated code where it can be). NAMEs select tests by a part of their id. The report goes to stdout as JSON, behind `MARK`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import sys
import time
import types
import unittest
from collections.abc import Iterator
from typing import Any

MARK = "\n--- report ---\n"
# The harness: it calls every test, and a frame that is replaced as a whole holds all that it calls.
HARNESS = ("unittest.suite", "unittest.case", "unittest.result", "unittest.main", "unittest.runner", __name__)


def unwatched(method: Any) -> Any:
    """The same method, run with no region active."""

    def run(*args: Any) -> Any:
        _C = sys.modules.get("tracer._C")
        if _C is None:
            return method(*args)
        region = _C.swap_active(None)
        try:
            if os.environ.get("SHOW"):
                faulthandler.dump_traceback_later(30)
            return method(*args)
        finally:
            _C.swap_active(region)

    return run


class Outcomes(unittest.TestResult):
    """How each test ended, by its id; of failures the traceback too."""

    def __init__(self, watch: Any) -> None:
        super().__init__()
        self.watch = watch
        self.last: Any = None
        self.outcomes: dict[str, list[str]] = {}
        self.started = 0.0
        self.seconds: dict[str, float] = {}

    @unwatched
    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        if self.watch is not None and type(test) is not self.last:
            self.watch.forget()
        self.last = type(test)
        self.started = time.perf_counter()
        if os.environ.get("SHOW"):
            print(test.id(), file=sys.__stderr__, flush=True)

    @unwatched
    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.seconds[test.id()] = time.perf_counter() - self.started

    def note(self, test: Any, outcome: str, text: str = "") -> None:
        self.outcomes.setdefault(test.id(), []).append(outcome)
        if text:
            self.outcomes[test.id()].append(text)

    @unwatched
    def addSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "passed")

    @unwatched
    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed", self._exc_info_to_string(err, test))

    addFailure = addError

    @unwatched
    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.note(test, "skipped")

    @unwatched
    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "passed")

    @unwatched
    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "failed", "unexpected success")

    @unwatched
    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.note(test, "failed", self._exc_info_to_string(err, test))


def selected(tests: Any, names: list[str]) -> Iterator[unittest.TestCase]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from selected(test, names)
        elif not names or any(name in test.id() for name in names):
            yield test


_ASSERTIONS = ("assert", "_assert", "fail", "_base", "handle", "expected", "__enter__", "__exit__", "__init__")


def harness_codes() -> Iterator[types.CodeType]:
    for name in HARNESS:
        for value in vars(sys.modules.get(name, types)).values():
            for function in [value, *(vars(value).values() if isinstance(value, type) else ())]:
                if isinstance(function, types.FunctionType) and function.__module__ == name:
                    if not function.__name__.startswith(_ASSERTIONS):
                        yield function.__code__


class Watch:
    """A region that every frame is offered to, and what became of them."""

    def __init__(self, forced: bool) -> None:
        import tracer
        from tracer import _C, config
        from tracer.convert_frame import RegionState

        config.suppress_errors = False
        config.convert_every_frame = forced
        config.accumulated_recompile_limit = 1_000_000
        if forced:
            config.max_trace_instructions = 5_000
        for code in (function.__code__ for function in vars(Outcomes).values() if isinstance(function, types.FunctionType)):
            _C.never_trace(code)
        self.codes: set[types.CodeType] = set()
        self.names: dict[types.CodeType, str] = {}
        self.scope = tracer.optimize("eager")
        with self.scope:
            pass
        state = self.scope._state
        assert state is not None
        self.state = state
        del RegionState
        self.skip_harness()
        self.own: set[types.CodeType] = set()
        self.converted: set[types.CodeType] = set()
        self.resumes: set[types.CodeType] = set()
        self.given_up: set[types.CodeType] = set()
        self._C = _C
        ask = state.on_miss

        def on_miss(function: types.FunctionType, args: tuple[Any, ...]) -> Any:
            self.codes.add(function.__code__)
            before = time.perf_counter()
            try:
                answer = ask(function, args)
            except BaseException:
                if os.environ.get("SHOW"):
                    import traceback
                    print("ERROR in tracer", function.__code__, file=sys.__stderr__)
                    traceback.print_exc(file=sys.__stderr__)
                raise
            spent = time.perf_counter() - before
            if spent > 2 and os.environ.get("SHOW"):
                print(f"   {spent:.1f}s {function.__code__} -> {answer}", file=sys.__stderr__)
            return answer

        state.on_miss = on_miss  # type: ignore[method-assign]

    def skip_harness(self) -> None:
        for code in harness_codes():
            self.state.region.skip(code)

    def forget(self) -> None:
        """Starts anew, so that no test meets the recompile limit because of others."""
        self.count()
        self.state.reset()
        self.skip_harness()

    def count(self) -> None:
        region = self.state.region
        resumes = {key[0] for key in self.state.resumes}
        self.resumes |= {code for code in self.codes if id(code) in resumes}
        self.own |= self.codes - self.resumes
        self.given_up |= {code for code in self.codes if region.is_skipped(code)}
        with_code = {code for code in region.codes() if any(e.code is not None for e in region.entries(code))}
        self.converted |= with_code - self.resumes
        self.codes.clear()

    def report(self) -> dict[str, Any]:
        from tracer import counters
        region = self.state.region
        self.count()
        return {
            "offered": region.offered, "served": region.served, "functions": len(self.own),
            "converted": len(self.converted), "resumes": len(self.resumes),
            "not": sorted(str(c) for c in self.own - self.converted),
            "breaks": dict(counters["graph_break"].most_common()),
            "frames": dict(counters["frames"]),
            "tracing": counters["seconds"]["tracing"],
        }


def main(name: str, mode: str, names: list[str]) -> None:
    watch = None if mode == "plain" else Watch(mode == "forced")
    module = importlib.import_module(f"test.{name}")
    suite = unittest.TestSuite(selected([unittest.TestLoader().loadTestsFromModule(module)], names))
    result = Outcomes(watch)
    gc.freeze()  # what torch brings along would make each collection slow
    started = time.perf_counter()
    with contextlib.nullcontext() if watch is None else watch.scope:
        suite(result)
    report = {"outcomes": result.outcomes, "seconds": result.seconds, "total": time.perf_counter() - started}
    if watch is not None:
        report["frames"] = watch.report()
    sys.__stdout__.write(MARK + json.dumps(report))
    sys.__stdout__.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
