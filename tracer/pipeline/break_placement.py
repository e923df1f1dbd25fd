"""Where the graph of a frame ends that cannot be captured whole. Each attempt that stops says where the next one is to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracer import config, errors, graph_breaks
from tracer.effects.dual_levels import step_of_level
from tracer.interpreter.loops import WHOLE_FRAME, step_before_loop, step_of_first_call
from tracer.pipeline.assumptions import question_of
from tracer.pipeline.reported_breaks import report_break
from tracer.protocol.lazy import Unwrapped
from tracer.sources.reading import type_mro

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.interpreter.translator import InstructionTranslator
    from tracer.runtime.region_state import RegionState


class BreakPlacement:
    """The break of one frame. It begins without one, and moves with each attempt that stops: first to the instruction that cannot
    be traced, then, if the graph cannot end there, out to the calls that led to it."""

    def __init__(self, region: RegionState, was_offered_by_hook: bool, under_modes: bool) -> None:
        """`under_modes`: the call is made under torch-function modes of the program."""
        self.region = region
        self.step: int | None = None  # of the trace, at which its graph ends; None: it goes on to the end of the frame
        self.reason: errors.Unsupported | None = None  # what stopped the last attempt
        self.is_before_loop = False  # the break is before a loop, which CPython runs as a whole
        self.calls_instead: tuple[Any, Any] | None = None  # see errors.Unsupported; of what the attempt is to stop at
        self.relies_on: tuple[Any, ...] = ()  # likewise
        self.as_written = False  # likewise
        self._was_offered_by_hook = was_offered_by_hook
        self._under_modes = under_modes
        self._may_skip_loops = True

    def move(self, trace: Trace, error: errors.Unsupported) -> None:
        """Moves the break because an attempt has stopped at `error`. Raises LeftToCPython where there is no place for one, and
        the error itself where the graph may not break."""
        error.at(trace.user_stack())
        error.assuming = error.assuming or question_of(trace, error, not self._was_offered_by_hook)
        self.step = self._next_step(trace, error)
        steps = (error.break_step, None if trace.frame is None else trace.frame.step)
        is_here = self.step is not None and self.step in steps
        self.calls_instead = error.calls_instead if is_here else None
        self.relies_on = error.relies_on if is_here else ()
        self.as_written = error.as_written
        errors.forget_frames(error)  # its traceback would keep the program's arguments alive
        self.reason = error

    def move_out_of_depth(self, trace: Trace) -> None:
        """As `move`, for a trace whose frames are too deep in one another for Python's stack."""
        frame = trace.frame
        name = "a frame" if frame is None else frame.code.co_qualname
        error = errors.Unsupported(graph_breaks.reason("inline-depth"), {"function": name})
        if frame is not None:  # at the innermost one the tracer itself has no stack left
            frames = frame.frames()
            trace.go_back_to(frames[len(frames) // 2])
        self.move(trace, error)

    def _next_step(self, trace: Trace, error: errors.Unsupported) -> int | None:
        if self.region.fullgraph or config.error_on_graph_break:
            raise error
        if self._under_modes:  # the code of an entry runs without them, resume functions would not
            self._leave_to_cpython(trace, error)
        if self.is_before_loop:  # the attempt stopped before it came to the loop
            self.is_before_loop = self._may_skip_loops = False
            return None
        for place in (
            self._before_dual_level,
            self._around_optimizer,
            self._before_loop,
            self._at_first_call,
            self._where_it_says,
        ):
            step = place(trace, error)
            is_before_loop = place == self._before_loop
            if step is None or (step == self.step and not is_before_loop):
                continue
            if step == WHOLE_FRAME:
                self._leave_to_cpython(trace, error)
            report_break(self.region, error, trace)
            self.is_before_loop = is_before_loop
            return step
        return self._at_instruction(trace, error)

    def _leave_to_cpython(self, trace: Trace, error: errors.Unsupported) -> NoReturn:
        report_break(self.region, error, trace)
        raise errors.LeftToCPython(error)

    # -- places, the outermost first ---------------------------------------------------------------------------------

    def _before_dual_level(self, trace: Trace, error: errors.Unsupported) -> int | None:
        """The entry of a level of forward AD inside of which the trace stopped, or an earlier place that the error names."""
        step = step_of_level(trace)
        return step if step is None or error.break_step is None else min(step, error.break_step)

    def _around_optimizer(self, trace: Trace, error: errors.Unsupported) -> int | None:
        """The call of the optimizer in which the trace stopped. An optimizer that decides on data would end in dozens of small
        graphs: it is captured whole, or left to CPython."""
        frames = [] if trace.frame is None else trace.frame.frames()
        of_optimizers = list(map(_is_of_optimizer, frames))
        if not any(of_optimizers):
            return None
        outermost = of_optimizers.index(True)
        if outermost:
            return frames[outermost - 1].break_step()
        return WHOLE_FRAME if self._was_offered_by_hook else None

    def _before_loop(self, trace: Trace, error: errors.Unsupported) -> int | None:
        if not self._may_end_earlier(error):
            return None
        return _not_behind(step_before_loop(trace.frame, weighs_calls=self.region.shapes is None), error)

    def _at_first_call(self, trace: Trace, error: errors.Unsupported) -> int | None:
        if not (self._was_offered_by_hook and self._may_end_earlier(error)):
            return None
        return _not_behind(step_of_first_call(trace.frame), error)

    def _may_end_earlier(self, error: errors.Unsupported) -> bool:
        """Whether the graph may end before what cannot be traced: the error names no place, and that was not tried in vain."""
        return self._may_skip_loops and (error.break_step is None or error.is_late)

    def _where_it_says(self, trace: Trace, error: errors.Unsupported) -> int | None:
        abandons = error.id == "abandoned-generator" and error.break_step is None
        return trace.abandons_generator() if abandons else error.break_step

    def _at_instruction(self, trace: Trace, error: errors.Unsupported) -> int:
        """The instruction that cannot be traced; the call of its function, if the last attempt was to stop there."""
        frame = trace.frame
        if frame is None:
            raise errors.LeftToCPython(error)
        if trace.steps != self.step:
            report_break(self.region, error, trace)
            if error.id != "frame-introspection":
                return frame.break_step()
            if frame.parent is not None:  # locals() must see the frame itself, not a resume function
                return frame.parent.break_step()
        elif frame.parent is not None:
            return frame.parent.step
        raise errors.LeftToCPython(error)


def _is_of_optimizer(frame: InstructionTranslator) -> bool:
    """Whether a frame runs code of torch.optim, or a method of an optimizer."""
    if str(frame.globals.get("__name__")).startswith("torch.optim."):
        return True
    first = frame.locals.get(frame.code.co_varnames[0]) if frame.code.co_argcount else None
    cls = type(first.value) if isinstance(first, Unwrapped) else getattr(first, "cls", None)
    return isinstance(cls, type) and torch.optim.Optimizer in type_mro(cls)


def _not_behind(step: int | None, error: errors.Unsupported) -> int | None:
    """A step, unless it comes after the one that the error names."""
    return None if step is not None and error.break_step is not None and step > error.break_step else step
