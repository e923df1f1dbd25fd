"""Generators that the traced code made. A generator is a suspended frame, which runs when the next item is asked for."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from tracer.errors import Unsupported, forget_frames
from tracer.graph.output_graph import Refusal
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception, no_keywords
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.exceptions.exceptions import HandledBefore
from tracer.variables.iteration import IteratorVariable
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Frame, Tracer, ValueCodegen


_CLOSING = Refusal("abandoned-generator", "closing it has an effect")
_RESUME_KIND, _YIELD_FROM = 3, 2  # bits of the argument of RESUME, and what they are after a `yield from`


class GeneratorVariable(IteratorVariable):
    """`frame` is the translator of the generator's body."""

    cls = types.GeneratorType

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False
        self.handled: VariableTracker | None = None  # the exception that its body is handling while it is suspended
        self.rebuilt = False  # whether the output code reconstructs it in its present state

    def describe(self) -> str:
        return f"GeneratorVariable({self.frame.code.co_qualname})"

    def advance(self, tx: Tracer) -> VariableTracker | None:
        return self.resume(tx, NONE)[0]

    def resume(
        self, tx: Tracer, sent: VariableTracker, thrown: ObservedException | None = None
    ) -> tuple[VariableTracker | None, VariableTracker]:
        """(item, NONE), or (None, return value) when the body returns."""
        tx.trace.advancing(self)
        if self.finished:
            if thrown is not None:
                raise thrown
            return None, NONE
        if self.running:
            tx.raise_error(ValueError, "generator already executing")
        frame = self.frame
        frame.resumed_by(tx, tx.trace.handled)
        if self.started:
            frame.push(sent)
        elif thrown is not None:
            self.finished = True
            raise thrown
        else:
            caller = tx.parent
            tx.trace.generators.append((self, 0 if caller is None else caller.break_step()))
        self.started = self.running = True
        trace = tx.trace
        handled_outside = trace.handled
        if self.handled is not None:
            trace.handle(self.handled)
            if thrown is not None:
                tx.link_to_handled(thrown.value)
        try:
            value = frame.run(thrown)
            self.handled = trace.handled if any(isinstance(slot, HandledBefore) for slot in frame.stack) else None
        except ObservedException as raised:
            self.finished = True
            if is_exception(raised.value, StopIteration):
                raise ObservedException(stopped_error(tx, raised.value)) from None
            raise
        finally:
            self.running = False
            trace.handle(handled_outside)
        if frame.yielded:
            return value, NONE
        self.finished = True
        return None, value

    # -- throw and close -----------------------------------------------------------------------------------------

    def throw(
        self, tx: Tracer, raised: ObservedException, given: list[VariableTracker]
    ) -> tuple[VariableTracker | None, VariableTracker]:
        """As `resume`, with an exception. If the generator is suspended in a `yield from`, the inner iterator gets the exception
        first. `given` holds the arguments with which the program threw it."""
        tx.trace.advancing(self)
        delegate = self._delegate()
        if delegate is None:
            return self.resume(tx, NONE, raised)
        self.running = True
        try:
            if is_exception(raised.value, GeneratorExit):
                _close(tx, delegate)
                raise raised
            item, returned = _throw(tx, delegate, raised, given)
        except ObservedException as inner:
            self.running = False
            return self.resume(tx, NONE, inner)
        finally:
            self.running = False
        if item is not None:
            return item, NONE
        frame = self.frame  # the delegate is done: the generator goes on after its `yield from`
        behind = frame.program.instructions[frame.pc + 1]
        assert behind.target is not None
        send = frame.program.instructions[behind.target]
        assert send.target is not None
        if frame.program.instructions[send.target].opname != "END_SEND":  # Python 3.12, which takes the delegate from the stack
            frame.stack.pop()
        frame.jump(send)  # as the SEND jumps when its iterator is done
        return self.resume(tx, returned)

    def _delegate(self) -> VariableTracker | None:
        """The iterator of the `yield from` in which the generator is suspended."""
        if not self.started or self.finished or self.running:
            return None
        following = self.frame.program.instructions[self.frame.pc]
        waits = following.opname == "RESUME" and following.arg is not None and following.arg & _RESUME_KIND >= _YIELD_FROM
        return self.frame.stack[-1] if waits else None

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        no_keywords(tx, f"generator.{name}", kwargs)
        if name == "send" and len(args) == 1:
            if not self.started and not self.finished and not (args[0].is_constant() and args[0].constant() is None):
                tx.raise_error(TypeError, "can't send non-None value to a just-started generator")
            return self._item_or_stop(tx, self.resume(tx, args[0]))
        if name == "__next__" and not args:
            return self._item_or_stop(tx, self.resume(tx, NONE))
        if name == "close" and not args:
            return self.close(tx)
        if name == "throw" and 1 <= len(args) <= 3:
            return self._item_or_stop(tx, self.throw(tx, ObservedException(_exception_of(tx, *args)), args))
        return super().call_method(tx, name, args, kwargs)

    def names(self) -> tuple[str, str]:
        """The `__name__` and `__qualname__` that the generator takes from its function."""
        function, code = self.frame.function, self.frame.code
        return (code.co_name, code.co_qualname) if function is None else (function.name, function.qualname)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__"):
            stored = None if self.frame.function is None else tx.effects.attribute(self.frame.function, name)
            return ConstantVariable(self.names()[name == "__qualname__"]) if stored is None else stored
        if name.startswith("gi_"):
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return super().get_attr(tx, name)

    def closes_quietly(self) -> bool:
        """Whether dropping the generator in its present state has no visible effect. If it is suspended in a try or with block,
        it is closed on trial."""
        if not self.started or self.finished or self.rebuilt or not _is_in_block(self.frame):
            return True
        tx = self.frame.parent
        assert tx is not None
        try:
            with tx.trace.trial(_CLOSING):
                self.close(tx)
        except (ObservedException, Unsupported, RecursionError):
            return False
        return True

    def begin_trial(self) -> Callable[[], None]:
        """Goes on with a copy of its frame. -> what puts it back"""
        frame, started, finished, running, handled = self.frame, self.started, self.finished, self.running, self.handled
        self.frame = frame.double()

        def go_back() -> None:
            self.frame, self.started, self.finished, self.running, self.handled = frame, started, finished, running, handled

        return go_back

    def close(self, tx: Tracer) -> VariableTracker:
        tx.trace.advancing(self)
        if not self.started or self.finished:
            self.finished = True
            return NONE
        try:
            leaving = tx.new_exception(GeneratorExit)
            tx.link_to_handled(leaving)
            item, returned = self.throw(tx, ObservedException(leaving), [leaving])
        except ObservedException as raised:
            if is_exception(raised.value, (GeneratorExit, StopIteration)):
                forget_frames(raised)  # among them some that were given it: a cycle
                return NONE
            raise
        if item is not None:
            tx.raise_error(RuntimeError, "generator ignored GeneratorExit")
        return returned if _CLOSE_GIVES else NONE

    def _item_or_stop(self, tx: Tracer, outcome: tuple[VariableTracker | None, VariableTracker]) -> VariableTracker:
        item, returned = outcome
        if item is not None:
            return item
        if returned.is_none():
            tx.raise_error(StopIteration)
        tx.raise_value(tx.new_exception(StopIteration, returned))
        raise AssertionError

    def children(self) -> Iterable[VariableTracker]:
        if self.finished:
            return ()
        frame = self.frame
        parts = [*frame.stack, *frame.locals.values(), *frame.cells.values(), self.handled]
        if not self.started and frame.function is not None:
            parts.append(frame.function)
        return [part for part in parts if isinstance(part, VariableTracker)]

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.rebuilt = True
        cg.build_generator(self)


def _returns_when_closed() -> Generator[None, None, int]:
    with contextlib.suppress(GeneratorExit):
        yield
    return 1


_example: Any = _returns_when_closed()
next(_example)
_CLOSE_GIVES = _example.close() is not None  # what the generator returns, from Python 3.13 on


def stopped_error(tx: Tracer, cause: VariableTracker) -> VariableTracker:
    """What the caller of a generator sees of a StopIteration that leaves its body."""
    error = tx.new_exception(RuntimeError, ConstantVariable("generator raised StopIteration"))
    error.set_cause(tx, cause)
    error.set_field(tx, "__context__", cause)
    return error


def _is_in_block(frame: Frame) -> bool:
    """Whether a frame is suspended in a try or with block. Since Python 3.12 a handler for StopIteration is around each body, and
    one for what is thrown into it around each `yield from`."""
    handler, instructions = frame.inst.handler, frame.program.instructions
    if handler is not None and instructions[handler.target].opname == "CLEANUP_THROW":
        handler = instructions[handler.target].handler
    return handler is not None and instructions[handler.target].opname != "CALL_INTRINSIC_1"


def _throw(
    tx: Tracer, iterator: VariableTracker, raised: ObservedException, given: list[VariableTracker]
) -> tuple[VariableTracker | None, VariableTracker]:
    """Throws an exception into the iterator that a generator delegates to."""
    if isinstance(iterator, GeneratorVariable):
        return iterator.throw(tx, raised, given)
    if not hasattr(iterator.python_type(), "throw"):
        raise raised
    try:
        return iterator.call_method(tx, "throw", given, {}), NONE
    except ObservedException as stopped:
        if not is_exception(stopped.value, StopIteration):
            raise
        forget_frames(stopped)
        return None, stopped.value.get_attr(tx, "value")


def _close(tx: Tracer, iterator: VariableTracker) -> None:
    if isinstance(iterator, GeneratorVariable):
        iterator.close(tx)
    elif hasattr(iterator.python_type(), "close"):
        iterator.call_method(tx, "close", [], {})


def _exception_of(tx: Tracer, exception: VariableTracker, *more: VariableTracker) -> VariableTracker:
    """The instance that throw(type, value, traceback) raises."""
    value = more[0] if more and not (more[0].is_constant() and more[0].constant() is None) else None
    cls = exception.identity()
    if isinstance(cls, type) and issubclass(cls, BaseException):
        if value is None:
            return tx.exception_instance(exception)
        if issubclass(value.python_type(), cls):
            return value
        return exception.call(tx, value.unpack(tx) if isinstance(value, TupleVariable) else [value], {})
    if not issubclass(exception.python_type(), BaseException):
        name = exception.python_type().__name__
        tx.raise_error(TypeError, f"exceptions must be classes or instances deriving from BaseException, not {name}")
    if value is not None:
        tx.raise_error(TypeError, "instance exception may not have a separate value")
    return exception
