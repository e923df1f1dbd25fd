"""Generators that the traced code made: a suspended frame, run by whoever asks for the next item."""
from __future__ import annotations

import copy
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.errors import Unsupported
from tracer.graph_breaks import unsupported
from tracer.variables.base import ObservedException, VariableTracker
from tracer.variables.constant import NONE, TRUE, ConstantVariable
from tracer.variables.iterators import IteratorVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class GeneratorVariable(IteratorVariable):
    """`frame` is the translator of the generator's body."""

    cls = types.GeneratorType

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False

    def describe(self) -> str:
        return f"GeneratorVariable({self.frame.code.co_qualname})"

    __repr__ = describe

    def advance(self, tx: Tracer) -> VariableTracker | None:
        return self.resume(tx, NONE)[0]

    def resume(
        self, tx: Tracer, sent: VariableTracker, thrown: ObservedException | None = None
    ) -> tuple[VariableTracker | None, VariableTracker]:
        """(item, NONE), or (None, return value) when the body returns."""
        if self.finished:
            if thrown is not None:
                raise thrown
            return None, NONE
        if self.running:
            tx.raise_error(ValueError, "generator already executing")
        frame = self.frame
        frame.parent = tx
        frame.depth = tx.depth + 1  # type: ignore[attr-defined]
        if self.started:
            frame.push(sent)
        elif thrown is not None:
            self.finished = True
            raise thrown
        else:
            caller = tx.parent  # type: ignore[attr-defined]
            tx.trace.generators.append((self, 0 if caller is None else caller.break_step()))  # type: ignore[attr-defined]
        self.started = self.running = True
        try:
            value = frame.run(thrown)
        except ObservedException as raised:
            self.finished = True
            if tx.is_exception(raised.value, StopIteration):
                self._raise_stopped(tx, raised.value)
            raise
        finally:
            self.running = False
        if frame.yielded:
            return value, NONE
        self.finished = True
        return None, value

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "send":
            if not self.started and not (args[0].is_constant() and args[0].constant() is None):
                tx.raise_error(TypeError, "can't send non-None value to a just-started generator")
            return self._item_or_stop(tx, self.resume(tx, args[0]))
        if name == "__next__":
            return self._item_or_stop(tx, self.resume(tx, NONE))
        if name == "close":
            return self.close(tx)
        if name == "throw" and len(args) == 1:
            return self._item_or_stop(tx, self.resume(tx, NONE, ObservedException(tx.exception_instance(args[0]))))
        return super().call_method(tx, name, args, kwargs)

    def _raise_stopped(self, tx: Tracer, cause: VariableTracker) -> None:
        error = tx.new_exception(RuntimeError, ConstantVariable("generator raised StopIteration"))
        tx.effects.store_attribute(error, "__cause__", cause)
        tx.effects.store_attribute(error, "__suppress_context__", TRUE)
        tx.effects.store_attribute(error, "__context__", cause)
        raise ObservedException(error)

    def closes_quietly(self) -> bool:
        """Whether nothing is to be seen of it when it is given up as it stands. Where it is suspended in a try or with
        block, a copy of it is closed on trial."""
        if not self.started or self.finished or self.frame.inst.handler is None:
            return True
        double = GeneratorVariable(copy.copy(self.frame))
        double.frame.stack, double.frame.locals = list(self.frame.stack), dict(self.frame.locals)
        double.started = True
        tx = self.frame.parent
        try:
            with tx.trace.trial():
                double.close(tx)
        except (ObservedException, Unsupported, RecursionError):
            return False
        return True

    def close(self, tx: Tracer) -> VariableTracker:
        if not self.started or self.finished:
            self.finished = True
            return NONE
        try:
            item, _ = self.resume(tx, NONE, ObservedException(tx.new_exception(GeneratorExit)))
        except ObservedException as raised:
            if tx.is_exception(raised.value, (GeneratorExit, StopIteration)):
                return NONE
            raise
        if item is not None:
            tx.raise_error(RuntimeError, "generator ignored GeneratorExit")
        return NONE

    def _item_or_stop(
        self, tx: Tracer, outcome: tuple[VariableTracker | None, VariableTracker]
    ) -> VariableTracker:
        item, returned = outcome
        if item is not None:
            return item
        if returned.is_constant() and returned.constant() is None:
            tx.raise_error(StopIteration)
        tx.raise_value(tx.new_exception(StopIteration, returned))
        raise AssertionError

    def children(self) -> Iterable[VariableTracker]:
        return ()

    def reconstruct(self, cg: Any) -> None:
        if not self.started:
            cg.build_generator(self)
            return
        if self.finished:
            cg.call_object(iter, lambda: cg.asm.emit("BUILD_TUPLE", 0))
            return
        unsupported("cannot-reconstruct", value=f"a half-consumed generator ({self.frame.code.co_qualname})")
