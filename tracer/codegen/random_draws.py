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
    """Emits the draws. Returns the local with the generators' states before, for `emit_restore_states`; None if nothing is
    drawn."""
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
    else:
        cg.load_const(arg)


def _compute(text: str, *values: int) -> Any:
    return _compiled_formula(text, len(values))(*values)


@functools.cache
def _compiled_formula(text: str, count: int) -> Any:
    formula = eval(f"lambda {', '.join(f'v{index}' for index in range(count))}: {text}", dict(NAMESPACE))
    _C.never_trace(formula.__code__)
    return formula


_C.never_trace(_compute.__code__)


def emit_restore_states(cg: Codegen, states: str) -> None:
    cg.call_object(restore_states, lambda: cg.asm.load_fast(states))
    cg.asm.pop()
