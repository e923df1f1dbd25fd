"""The law of a trace: wherever its guards hold, the program decides as it did when it was traced.

Random programs of size arithmetic and branches run on symbolic numbers once, and on plain ints wherever the emitted
guards accept them; both see the same decisions, and nothing raises that did not raise before.
"""

from __future__ import annotations

import itertools
import operator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tracer
from shapes.printing import NAMESPACE
from tests.shapes.algebra_programs import examples, trees
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.sources.roots import LocalSource

OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": lambda a, b: torch.sym_max(a, b),
    "min": lambda a, b: torch.sym_min(a, b),
    "&": operator.and_,
    "|": operator.or_,
    "<<": lambda a, b: a << (b % 4),
    "abs": lambda a, b: abs(a),
    "/": lambda a, b: int((a / b) * 2),
    "round": lambda a, b: round(a / 4) + b,
    "floor": lambda a, b: torch.sym_int(a * 1.5 - b),
    "ite": lambda a, b: choose(a < b, a, b + 1),
    "branch": lambda a, b: a - 1 if a > b else b,
}
RELATIONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def choose(condition, a, b):
    """`a if condition else b` without a decision."""
    return condition.__sym_ite__(a, b) if isinstance(condition, torch.SymBool) else a if condition else b


def run(tree, values):
    if tree[0] == "symbol":
        return values[tree[1]]
    if tree[0] == "constant":
        return tree[1]
    a, b = run(tree[1], values), run(tree[2], values)
    return OPERATIONS[tree[0]](a, b)


def decisions(program, values) -> list:
    """What the program decides, one entry per line; it stops at the first error."""
    made = []
    for relation, left, right in program:
        try:
            made.append(bool(relation(run(left, values), run(right, values))))
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            made.append(type(error))
            break
    return made


programs = st.lists(
    st.tuples(st.sampled_from(RELATIONS), trees(3, tuple(OPERATIONS), max_leaves=4), trees(3, tuple(OPERATIONS), max_leaves=3)),
    min_size=1,
    max_size=4,
)


def assert_guards_cover(world: FakeWorld, program, symbolic, domain) -> None:
    traced = decisions(program, symbolic)
    guards = [compile(guard.readable, "guard", "eval") for guard in world.env.produce_guards()]
    hints = tuple(symbol.hint for symbol in world.env.symbols())
    assert accepted(guards, hints)
    for values in itertools.product(domain, repeat=3):
        if accepted(guards, values):
            assert decisions(program, values) == traced, (values, [g.readable for g in world.env.produce_guards()])


def accepted(guards, values) -> bool:
    scope = {**NAMESPACE, "L": {f"n{i}": value for i, value in enumerate(values)}}
    try:
        return all(eval(guard, scope) for guard in guards)
    except (ZeroDivisionError, ValueError, OverflowError):
        return False


@given(programs, st.tuples(*[st.integers(-5, 7)] * 3))
@examples(100)
def test_programs_on_ints(program, hints) -> None:
    world = FakeWorld()
    symbolic = [world.symint(hint, LocalSource(f"n{i}")) for i, hint in enumerate(hints)]
    assert_guards_cover(world, program, symbolic, (-6, -4, -1, 0, 1, 2, 3, 5, 8))


@given(programs, st.tuples(*[st.integers(2, 9)] * 3))
@examples(100)
def test_programs_on_sizes(program, hints) -> None:
    world = FakeWorld(duck_shape=False)
    sizes = [world.env.create_size(hint, LocalSource(f"n{i}")) for i, hint in enumerate(hints)]
    assert_guards_cover(world, program, [world.torch_env.wrap(size) for size in sizes], (0, 1, 2, 3, 4, 6, 7, 9, 16))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_the_larger_of_a_constant_and_a_number_out_of_a_tensor_is_symbolic(backend):
    def fn(x):
        total = x.sum().item()
        return x * max(0.001, total / 10.0), min(total, 2.5), max([total, 1.0])

    with tracer.config.patch(capture_scalar_outputs=True):
        run = tracer.compile(fn, backend=backend, fullgraph=True)
        for scale in (1.0, -1.0, float("nan"), 0.0):
            x = torch.arange(4.0) * scale
            torch.testing.assert_close(run(x), fn(x), equal_nan=True)
    assert len(tracer.region_of(run).entries()) == 1
