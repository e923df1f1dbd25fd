"""Emitted text against the truth at sampled sizes."""

import functools

from shapes.printing import NAMESPACE, group, python_source
from shapes.solver import PruneResult, prune
from tests.shapes.equivalence.sampling import border, sizes
from tests.shapes.equivalence.table import GuardSet
from tests.shapes.equivalence.traced import Trace

RLIMIT = 200_000


@functools.cache
def pruned(guards: GuardSet) -> PruneResult:
    return prune(guards.guards, guards.facts, rlimit=RLIMIT)


def _compiled(arguments, texts):
    """Whether all texts hold, as a function of the arguments; one that cannot be computed does not hold."""
    function = eval(f"lambda {', '.join(arguments)}: {' and '.join(f'({text})' for text in texts) or True}", {**NAMESPACE})

    def holds(point):
        try:
            return function(*point)
        except (ArithmeticError, ValueError):
            return False

    return holds


def as_function(lines, symbols):
    """The emitted lines as one function of the sizes, which is what a check_fn runs."""
    names = {symbol: symbol.name for symbol in symbols}
    return _compiled(names.values(), [python_source(line.expr, names) for line in lines])


def disagreements(guards: GuardSet, count: int) -> tuple[list, int, int]:
    """Sizes at which the emitted text and the program differ; how many were inside, how many outside."""
    kept = pruned(guards).kept
    emitted = as_function(group(kept), guards.symbols)
    wrong, inside, outside = [], 0, 0
    for point in sizes(guards, count, border(guards, kept)):
        truth = guards.holds(point)
        if truth is None:
            continue
        inside, outside = inside + truth, outside + (not truth)
        if emitted(point) is not truth:
            wrong.append(point)
    return wrong, inside, outside


def compiled_trace(found: Trace):
    """The emitted guards as `check_fn` runs them."""
    texts = [text.executable(lambda label: label.name) for text in found.texts]
    return _compiled([symbol.name for symbol in found.guards.symbols], texts)


def trace_disagreements(found: Trace, count: int) -> tuple[list, int]:
    emitted, wrong, inside = compiled_trace(found), [], 0
    for point in sizes(found.guards, count, []):
        truth = found.guards.holds(point)
        if truth is not None:
            inside += truth
            if emitted(point) is not truth:
                wrong.append(point)
    return wrong, inside
