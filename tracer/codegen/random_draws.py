"""Output code that draws random numbers from the generators of Python and NumPy, in the program's order."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from shapes.printing import NAMESPACE
from tracer import _C
from tracer.effects.random_draws import Computed, Drawn, generator_states, restore_states

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen


def emit_draws(cg: Codegen) -> str | None:
    """Emits the draws. Each number is kept in a local of `cg.random_results`, at the index of its draw.

    Returns the local that holds the states of the generators before the draws, for `emit_restore_states`; None if nothing is
    drawn. A generator without a source is made by the output code itself: its state need not be restored.
    """
    draws = cg.effects.draws
    if not draws:
        return None
    generators = dict.fromkeys(draw.generator for draw in draws if draw.generator is not None and draw.generator.source)
    cg.call_object(generator_states, *[lambda each=each: cg.load(each) for each in generators])
    states = cg.store_temporary()
    for draw in draws:
        generator = [] if draw.generator is None else [draw.generator]
        cg.call_object(
            draw.function,
            *[lambda each=each: cg.load(each) for each in generator],
            *[lambda arg=arg: _load(cg, arg) for arg in draw.args],
            **{name: lambda arg=arg: _load(cg, arg) for name, arg in draw.kwargs.items()},
        )
        cg.random_results.append(cg.store_temporary())
    return states


def _load(cg: Codegen, arg: Any) -> None:
    if isinstance(arg, Drawn):
        cg.load_drawn(arg.number)
    elif isinstance(arg, Computed):
        reads = [lambda source=source: cg.read(source) for source in arg.sources]
        cg.call_object(_compute, lambda: cg.load_const(arg.text), *reads)
    elif type(arg) is tuple and any(isinstance(part, (Computed, Drawn)) for part in arg):
        cg.call_object(_together, *[lambda part=part: _load(cg, part) for part in arg])
    else:
        cg.load_const(arg)


# These run in the middle of output code, where the frame hook may be active, and are not part of the program.
def _compute(text: str, *values: int) -> Any:
    """The value of a `Computed`, which may use the functions of `shapes.printing`."""
    return _compiled_formula(text, len(values))(*values)


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


@functools.cache
def _compiled_formula(text: str, count: int) -> Any:
    formula = eval(f"lambda {', '.join(f'v{index}' for index in range(count))}: {text}", dict(NAMESPACE))
    _C.never_trace(formula.__code__)
    return formula


_C.never_trace(_compute.__code__)
_C.never_trace(_together.__code__)


def emit_restore_states(cg: Codegen, states: str) -> None:
    """Emits what undoes the draws, for a graph that fails: CPython then runs the frame from its start, and draws again."""
    cg.call_object(restore_states, lambda: cg.asm.load_fast(states))
    cg.asm.pop()
