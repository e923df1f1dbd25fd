"""The output code's own draws of random numbers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from shapes.printing import NAMESPACE
from tracer import _C
from tracer.effects.random_draws import Computed, Drawn, put_back, states_of

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen


def emit_draws(cg: Codegen) -> str | None:
    """Draws what the program draws. The local that holds the states before is for `emit_put_back`; None: nothing is drawn."""
    draws = cg.effects.draws
    if not draws:
        return None
    generators = dict.fromkeys(draw.generator for draw in draws if draw.generator is not None and draw.generator.source)
    cg.call_object(states_of, *[lambda each=each: cg.load(each) for each in generators])
    states = cg.store_temporary()
    for draw in draws:
        generator = [] if draw.generator is None else [draw.generator]
        cg.call_object(
            draw.function,
            *[lambda each=each: cg.load(each) for each in generator],
            *[lambda arg=arg: _load(cg, arg) for arg in draw.args],
            **{name: lambda arg=arg: _load(cg, arg) for name, arg in draw.kwargs.items()},
        )
        cg.drawn.append(cg.store_temporary())
    return states


def _load(cg: Codegen, arg: Any) -> None:
    if isinstance(arg, Drawn):
        cg.load_drawn(arg.number)
    elif isinstance(arg, Computed):
        reads = [lambda source=source: cg.read(source) for source in arg.sources]
        cg.call_object(_computed, lambda: cg.load_const(arg.text), *reads)
    else:
        cg.load_const(arg)


def _computed(text: str, *values: int) -> Any:
    return _formula(text, len(values))(*values)


@functools.cache
def _formula(text: str, count: int) -> Any:
    formula = eval(f"lambda {', '.join(f'v{index}' for index in range(count))}: {text}", dict(NAMESPACE))
    _C.never_trace(formula.__code__)
    return formula


_C.never_trace(_computed.__code__)


def emit_put_back(cg: Codegen, states: str) -> None:
    cg.call_object(put_back, lambda: cg.asm.load_fast(states))
    cg.asm.pop()
