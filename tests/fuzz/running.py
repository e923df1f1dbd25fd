"""A program run by CPython and traced, in two modules of their own; whatever can be seen is compared after each call."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import inspect
import io
import itertools
import linecache
import random
import signal
import sys
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

import tracer
from tests.fuzz import FILE
from tests.fuzz.observing import Nearly, Observation
from tests.fuzz.programs import Program
from tracer import config
from tracer.errors import TracerError

_MODULE = "generated"
_FOREVER = 100
_MOST_SECONDS = 30  # of a processor; compilers get ten times as much


@dataclasses.dataclass
class Verdict:
    """What became of a program. `kind` is None where nothing differed."""

    kind: str | None = None
    difference: str = ""
    graphs: int = 0
    operations: int = 0
    breaks: Counter[str] = dataclasses.field(default_factory=Counter)
    left: Counter[str] = dataclasses.field(default_factory=Counter)  # why frames ran in CPython
    raised: int = 0  # calls that ended in an exception
    shared: bool = False  # torch.compile with the same backend differs too


class Different(BaseException):
    """The traced program did not do what the plain one did; no `except Exception` of the program catches it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Side:
    """The program in a module of its own."""

    def __init__(self, source: str, wrap: Callable[[Any], Any], backend: str | None = None) -> None:
        self.backend = backend
        self.module = types.ModuleType(_MODULE)
        self.names = self.module.__dict__
        torch.manual_seed(3)  # a program that was made short draws the same tensors for both sides, too
        with _entered(self.module):
            exec(compile(source, FILE, "exec", dont_inherit=True), self.names)
        self.names["main"] = wrap(self.names["main"])
        self.random = random.Random(5).getstate()
        self.torch_random = torch.Generator().manual_seed(9).get_state()

    def _nothing_seen(self) -> Observation:
        return Observation(exact=self.backend != "inductor", compiled=self.backend in ("inductor", "aot_eager"))

    def call(self, number: int, gradients: bool) -> list[str | Nearly]:
        """The lines that say what the call left behind."""
        seen, out = self._nothing_seen(), io.StringIO()
        with _entered(self.module):
            torch.manual_seed(number)
            args, kwargs = self.names["arguments"](number)
            random.setstate(self.random)
            torch.set_rng_state(self.torch_random)
            result, error = None, None
            with contextlib.redirect_stdout(out):
                try:
                    result = self.names["main"](*args, **kwargs)
                except TracerError as own:
                    raise Different("crash", _described(own)) from own
                except Exception as raised:
                    error = raised
            if gradients and error is None:
                error = _backward(result)
            for kept in (error, *self.names["KEPT"], *self.names["LOG"]):
                _let_go(kept)
            self.random, self.torch_random = random.getstate(), torch.get_rng_state()
        seen.see("result", result)
        if error is not None:
            seen.see("error", error)
        seen.see("args", list(args))
        seen.see("kwargs", kwargs)
        seen.namespace("", self.names)
        seen.note("output", repr(out.getvalue()))
        seen.note("grad mode", str(torch.is_grad_enabled()))
        seen.random_state()
        return seen.lines

    def drained(self) -> list[str | Nearly]:
        """What is left in the iterators and functions that the program kept: the last thing looked at."""
        seen = self._nothing_seen()
        with _entered(self.module), contextlib.redirect_stdout(io.StringIO()):
            for index, kept in enumerate(self.names["KEPT"]):
                if isinstance(kept, Iterator):
                    _drain(seen, f"KEPT[{index}]...", kept)
        seen.namespace("at the end ", self.names)
        return seen.lines


def _let_go(value: Any) -> None:
    """Clears the locals of frames that a traceback keeps, and of their callers. Traced code has other frames than plain code, so
    what they would have kept alive ends with the call."""
    if isinstance(value, tuple):
        for part in value:
            _let_go(part)
    if not issubclass(type(value), BaseException):
        return
    at = value.__traceback__
    while at is not None:
        frame: types.FrameType | None = at.tb_frame
        while frame is not None:
            if not frame.f_code.co_flags & inspect.CO_GENERATOR:
                with contextlib.suppress(RuntimeError):  # one that still runs
                    frame.clear()
            frame = frame.f_back
        at = at.tb_next
    _let_go(value.__cause__)
    _let_go(value.__context__)


def _drain(seen: Observation, path: str, iterator: Iterator[Any]) -> None:
    try:
        for value in itertools.islice(iterator, _FOREVER):
            seen.see(path, value)
    except Exception as error:
        seen.see(path, error)


def _backward(result: Any) -> Exception | None:
    tensors = result[1] if isinstance(result, tuple) else result
    if isinstance(tensors, torch.Tensor) and tensors.requires_grad:
        try:
            tensors.sum().backward()
        except RuntimeError as error:
            return error
    return None


def run_plain(program: Program, times: int = 20) -> None:
    """Runs all calls in CPython, so often that what writes to memory which is not its own is likely to end the process."""
    linecache.cache[FILE] = (len(program.source), None, program.source.splitlines(keepends=True), FILE)
    for _ in range(times):
        plain = Side(program.source, lambda main: main, program.backend)
        for number in range(program.calls):
            plain.call(number, program.gradients)


@contextlib.contextmanager
def _entered(module: types.ModuleType) -> Iterator[None]:
    """Both sides are the same module to themselves."""
    sys.modules[_MODULE] = module
    try:
        yield
    finally:
        sys.modules.pop(_MODULE, None)


def run(program: Program) -> Verdict:
    """Runs all calls on both sides. The verdict names the first difference."""
    linecache.cache[FILE] = (len(program.source), None, program.source.splitlines(keepends=True), FILE)
    verdict = Verdict()
    with warnings.catch_warnings(), config.patch(suppress_errors=False):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="shapetracer failed")
        try:
            with _limited(_MOST_SECONDS * (1 if program.backend is None else 10)), _drawn_as_in_eager(program.backend):
                _compare_calls(program, verdict)
        except Different as different:
            verdict.kind, verdict.difference = different.kind, str(different)
    return verdict


def _drawn_as_in_eager(backend: str | None) -> contextlib.AbstractContextManager[Any]:
    """Inductor has random numbers of its own otherwise."""
    if backend != "inductor":
        return contextlib.nullcontext()
    import torch._inductor.config as inductor  # takes a second

    return inductor.patch(fallback_random=True)


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """A program that takes too long is a failure, not the end of all."""

    def stop(number: int, frame: Any) -> None:
        raise Different("slow", f"not done after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # of the processor: others may use it too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _compare_calls(program: Program, verdict: Verdict) -> None:
    plain = Side(program.source, lambda main: main, program.backend)
    expected = [plain.call(number, program.gradients) for number in range(program.calls)]
    expected.append(plain.drained())
    verdict.raised = sum(any(str(line).startswith("error") for line in lines) for lines in expected)
    traced = Side(program.source, lambda main: _traced(main, program, verdict), program.backend)
    try:
        _compare_to(expected, traced, program)
    except Different:
        verdict.shared = program.backend is not None and _differs_under_torch_compile(expected, program)
        raise
    if gc.get_threshold()[0] == 0:
        gc.collect()


def _compare_to(expected: list[list[str | Nearly]], side: Side, program: Program) -> None:
    for number, lines in enumerate(expected):
        at_end = number == program.calls
        try:
            seen = side.drained() if at_end else side.call(number, program.gradients)
        except Exception as error:
            raise Different("crash", f"call {number}: {_described(error)}") from error
        _compare(number, lines, seen)


def _differs_under_torch_compile(expected: list[list[str | Nearly]], program: Program) -> bool:
    torch.compiler.reset()
    compile_it = functools.partial(torch.compile, backend=program.backend, dynamic=program.dynamic)
    dispatched = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    try:
        with torch._C._ForceDispatchKeyGuard(*dispatched):  # a compile of torch's that fails may leave keys that end the process
            _compare_to(expected, Side(program.source, compile_it, program.backend), program)
    except Different:
        return True
    return False


def _described(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-6))


def _traced(main: Any, program: Program, verdict: Verdict) -> Any:
    def note_graph(gm: torch.fx.GraphModule, inputs: list[Any]) -> None:
        verdict.graphs += 1
        verdict.operations += sum(node.op.startswith("call") for node in gm.graph.nodes)

    def note_break(reason: Any) -> None:
        verdict.breaks[reason.id] += 1

    hooks = {"on_break": note_break, "on_graph": note_graph}
    settings = tracer.api.settings.Settings(backend=program.backend or "eager", dynamic=program.dynamic, hooks=hooks)
    compiled = tracer.api.callables.compiled(main, settings)
    _watch(tracer.region_of(compiled), main.__globals__, verdict)
    return compiled


def _watch(state: Any, names: dict[str, Any], verdict: Verdict) -> None:
    """While a frame is traced, nothing of the program may change; whatever frame is left to CPython is counted."""
    convert, give_up = state.find_or_make_entry, state._leave_to_cpython

    def watched(function: types.FunctionType, args: tuple[Any, ...], *more: Any) -> Any:
        before = _state(names, args)
        try:
            entry = convert(function, args, *more)
        except Exception as error:
            raise Different("crash", f"in the tracer: {_described(error)}") from error
        for line, now in zip(before, after := _state(names, args)):
            if line != now:
                raise Different("touched", f"tracing {function.__qualname__}: {line} became {now}")
        if len(before) != len(after):
            raise Different("touched", f"tracing {function.__qualname__}: {before[len(after) :] or after[len(before) :]}")
        return entry

    def given_up(function: types.FunctionType, gave_up: Any) -> Any:
        reason = gave_up.reason
        verdict.left[reason.id if reason is not None else "no reason"] += 1
        return give_up(function, gave_up)

    state.find_or_make_entry, state._leave_to_cpython = watched, given_up


def _state(names: dict[str, Any], args: tuple[Any, ...]) -> list[str]:
    seen = Observation()
    seen.see("slots", list(args))
    seen.namespace("", names)
    seen.random_state()
    return [str(line) for line in seen.lines]


def _compare(number: int, expected: list[str | Nearly], seen: list[str | Nearly]) -> None:
    for index, (left, right) in enumerate(itertools.zip_longest(expected, seen, fillvalue="nothing more")):
        if left != right:
            text = str(left)
            kind = "traceback" if ": raised at" in text else text.split(":")[0].split("[")[0].split(".")[0].split(" ")[0]
            at = f"{seen[index - 1]}\n    " if index else ""
            raised = "".join(
                f"\n    {side} {line}" for side, lines in (("plain", expected), ("traced", seen)) for line in _error(lines)
            )
            raise Different(kind, f"call {number}:\n    {at}expected {left}\n    but saw  {right}{raised}")


def _error(lines: list[str | Nearly]) -> list[str]:
    """The class and the text of the exception that ended a call."""
    return [text[:500] for text in map(str, lines) if text.startswith("error: ")][1:3]
