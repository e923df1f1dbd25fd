"""The exceptions of the tracer. Those that a user can meet have `tracer.exc` as their public home.

A message says what happened, where in the user's program, and what to try.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import shapes.constraints as shapes
from tracer.locations import UserLocation, UserStack, stack_text

if TYPE_CHECKING:
    from tracer.graph_breaks import GraphBreakReason


class Raised(RuntimeError):
    """Stands between TracerError and RuntimeError, so that another class can take its place while the tracer is installed."""


class TracerError(Raised):
    """Base of all errors of the tracer: a message, the user's stack, and a hint."""

    default_hint: str | None = None

    def __init__(self, message: str = "", *, hint: str | None = None, stack: Iterable[UserLocation] = ()) -> None:
        RuntimeError.__init__(self, message)  # not super(): an installed tracer has torch's exceptions among the bases (drop_in)
        self.message = message
        self.hint = hint if hint is not None else self.default_hint
        self.user_stack: UserStack = tuple(stack)

    def at(self, stack: Iterable[UserLocation]) -> TracerError:
        """Sets the user's stack unless it is set already; returns the error."""
        if not self.user_stack:
            self.user_stack = tuple(stack)
        return self

    def within(self, caller: UserLocation) -> TracerError:
        """Puts the call site of an inlined frame in front of the stack; returns the error."""
        self.user_stack = (caller, *self.user_stack)
        return self

    @property
    def where(self) -> UserLocation | None:
        """The innermost user frame."""
        return self.user_stack[-1] if self.user_stack else None

    def body(self) -> list[str]:
        return [self.message]

    def message_and_hint(self) -> str:
        return "\n".join([*self.body(), *([f"  Hint: {self.hint}"] if self.hint else [])])

    def __str__(self) -> str:
        parts = [self.message_and_hint()]
        if self.user_stack:
            parts.append("\nfrom user code:\n" + stack_text(self.user_stack))
        return "\n".join(parts)


class Assuming(Protocol):
    """A condition that data decide, of which is known what sizes have to do with it."""

    def text(self) -> str:
        """An assumption on sizes that decides it, to be pasted; "" if there is none."""
        ...


class Unsupported(TracerError):
    """Code that cannot be traced: a graph break, or an error under fullgraph=True."""

    def __init__(
        self,
        reason: GraphBreakReason,
        details: dict[str, Any] | None = None,
        *,
        stack: Iterable[UserLocation] = (),
        calls_instead: tuple[Any, Any] | None = None,
        relies_on: tuple[Any, ...] = (),
        break_step: int | None = None,
        undecided: Any = None,
        is_late: bool = False,
    ) -> None:
        self.reason = reason
        self.details = details or {}
        self.break_step = break_step  # the step at which to break the graph, if it is not the current one
        self.is_late = is_late  # whether only a later use has shown that this step cannot be traced
        self.calls_instead = calls_instead  # (function, function to call instead of it in the output code)
        self.relies_on = relies_on  # guards under which the graph breaks; without them the instruction may be traceable
        self.as_written = False  # whether the graph before it must run operation by operation, whatever the backend
        self.undecided = undecided  # the condition on sizes, of SymPy, that could not be decided
        self.assuming: Assuming | None = None  # what would decide it
        super().__init__(reason.title(self.details), hint=reason.hint, stack=stack)

    @property
    def id(self) -> str:
        return self.reason.id

    def body(self) -> list[str]:
        lines = [f"{self.message} [{self.reason.id}]", f"  Explanation: {self.reason.explanation}"]
        lines += [f"  {name}: {value}" for name, value in self.details.items() if value is not None]
        return lines + ([f"  Assumption: {self.assumption}"] if self.assumption else [])

    @property
    def assumption(self) -> str:
        """The `torch._check` on declared sizes that would decide what breaks the graph, and where to paste it; "" if none is
        known. Found when it is first asked for, in some tenths of a second."""
        return "" if self.assuming is None else self.assuming.text()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_unsupported, (type(self), self.reason, {k: str(v) for k, v in self.details.items()}, self.user_stack)


class NotNow(Exception):
    """Raised while tracing: CPython runs this call; the next one is traced again."""


class ImportFirst(Exception):
    """Raised while tracing: the program is about to import a module for the first time. The trace is thrown away, the module is
    imported, and the frame is traced again."""

    tried: ClassVar[set[str]] = set()  # once is enough: what fails is imported again, and raises, where the program does it

    def __init__(self, module: str, state: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        """`state` gives a context in which torch's state is as the program has set it before the import."""
        super().__init__(module)
        self.module = module
        self.state = state

    def run(self) -> None:
        """Imports the module, unless that raises."""
        self.tried.add(self.module)
        with contextlib.suppress(Exception), self.state():
            importlib.import_module(self.module)


class LeftToCPython(Exception):
    """A frame cannot be traced at all, so CPython always runs it. `reason`: the last graph break, if there was one."""

    def __init__(self, reason: Unsupported | None) -> None:
        super().__init__(reason)
        self.reason = reason


class TraceAnew(Exception):
    """Raised while tracing: the trace is thrown away and the frame is traced again. By default, the next trace does not keep both
    branches of a condition on sizes but follows the one that this call takes. With `asks_layout`, it decides conditions on the
    strides of results; with `holds_leaves`, it makes leaves that require gradients outside of the graph; with `takes_cache`, the
    id of a function, it takes what the cache of that function has; with `calls_whole`, likewise, a call of it is one node;
    without `replays`, it traces each module, also one like another; with `refuses_wrappers`, the reason, operations on wrappers
    break it; `careful`, so does what the backend may refuse; with `seeds_inside`, states of torch's generator are set and read by
    operations of the graph."""

    def __init__(
        self,
        *,
        asks_layout: bool = False,
        holds_leaves: bool = False,
        takes_cache: int | None = None,
        calls_whole: int | None = None,
        replays: bool = True,
        refuses_wrappers: str = "",
        careful: bool = False,
        seeds_inside: bool = False,
    ) -> None:
        self.careful = careful
        self.seeds_inside = seeds_inside
        self.refuses_wrappers = refuses_wrappers
        self.asks_layout = asks_layout
        self.holds_leaves = holds_leaves
        self.takes_cache = takes_cache
        self.calls_whole = calls_whole
        self.replays = replays


class TorchRuntimeError(Unsupported):
    """An operation raised while it was traced; run eagerly it would most likely raise too."""


def _rebuild_unsupported(
    cls: type[Unsupported], reason: GraphBreakReason, details: dict[str, Any], stack: UserStack
) -> Unsupported:
    return cls(reason, details, stack=stack)


class UserError(TracerError):
    """The program uses the tracer in a way that cannot work."""


class ConstraintViolationError(UserError, shapes.ConstraintViolationError):
    """The program contradicts a mark or a declaration of the user on a dim (`mark_dynamic` and the like)."""

    @classmethod
    def of(cls, violation: shapes.ConstraintViolationError) -> ConstraintViolationError:
        """The tracer's error for one of `shapes`."""
        error = cls(violation.message, hint=violation.hint)
        error.causes = violation.causes
        return error


class InvalidBackend(TracerError):
    """No backend has this name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        names = ", ".join(self.known) or "none"
        super().__init__(
            f"Invalid backend: {name!r}",
            hint=f"known backends: {names}; add one with tracer.register_backend, or pass a callable.",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return InvalidBackend, (self.name, self.known)


class BackendCompilerFailed(TracerError):
    """The backend raised while it compiled a graph, or returned something that cannot be called."""

    default_hint = "try backend='eager' to see whether the graph itself runs; the backend's own error stands above."

    def __init__(self, backend: object, inner: BaseException | str, **kwargs: Any) -> None:
        name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
        text = inner if isinstance(inner, str) else f"{type(inner).__name__}: {inner}"
        super().__init__(f"backend={name!r} raised:\n{text}", **kwargs)
        self.backend_name = name
        self.inner_exception = inner if isinstance(inner, BaseException) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), self.message, self.hint, self.user_stack)


class CompileTimeout(TracerError):
    """A trace or a backend took longer than `compile_timeout`."""

    default_hint = "raise compile_timeout, or compile beforehand, without it: tracer.precompile."


class Missed(Protocol):
    """A call that no entry served, of which is known what guards ask."""

    def summary(self) -> tuple[str, str | None]:
        """One line that says what is wrong, as far as that is known without asking guards, and a hint."""
        ...

    def explain(self) -> str:
        """The guards that fail, and the nearest call that is covered."""
        ...


class RecompileError(TracerError):
    """A recompile was needed while `config.error_on_recompile`, a stance or a seal forbids it.

    What its text says is found when it is asked for. It holds metadata of the call's arguments, and no tensor.
    """

    default_hint = "call with arguments that an entry covers, mark what varies with mark_dynamic, or allow recompiles."

    _missed: Missed | None = None

    def __init__(
        self, message: str = "", *, hint: str | None = None, stack: Iterable[UserLocation] = (), missed: Missed | None = None
    ) -> None:
        super().__init__(message, hint=hint, stack=stack)
        if missed is not None:
            self._missed = missed
            del self.message, self.hint  # found when they are asked for

    def __getattr__(self, name: str) -> Any:
        if name not in ("message", "hint") or self._missed is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.message, hint = self._missed.summary()
        self.hint = hint or self.default_hint
        self.args = (self.message,)
        return self.__dict__[name]

    def explain(self) -> str:
        """The whole of it: which guard fails in each entry, with the user's line that made it, and the nearest call that is
        covered. Guards are asked when this is called, once for calls alike. Where no call was kept, the error's own text."""
        return str(self) if self._missed is None else self._missed.explain()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), self.message, self.hint, self.user_stack)


class SealedError(RecompileError):
    """No entry serves a call of something that was sealed with `on_miss="error"`."""

    default_hint = "call with a shape that is covered, or precompile this one too."


class FailOnRecompileLimitHit(TracerError):
    """The recompile limit was reached while `config.fail_on_recompile_limit_hit` makes that an error."""

    default_hint = "mark what varies with mark_dynamic, or raise config.recompile_limit."


class InternalTracerError(TracerError):
    """A bug of the tracer. With `config.suppress_errors` the frame runs in CPython instead."""

    default_hint = "please report this; config.suppress_errors=True runs such a frame in CPython."


def _rebuild_error(kind: type[TracerError], message: str, hint: str | None, stack: UserStack) -> TracerError:
    error = kind.__new__(kind)
    TracerError.__init__(error, message, hint=hint, stack=stack)
    return error


def forget_frames(error: BaseException) -> None:
    """Drops the traceback of an exception, whose frames would keep the program's objects alive."""
    error.__traceback__ = error.__context__ = None
    if error.__cause__ is not None:
        forget_frames(error.__cause__)
