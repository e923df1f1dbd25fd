"""Functions of math, and of builtins, on ints that vary: what Python gives, from one graph, and Python's errors."""

from __future__ import annotations

import math

import pytest
import torch

import tracer
from tests.support.outcomes import outcome
from tracer.backends.calling import resolve_backend

VALUES = [12, 13, 3, 25, 7, 40, 20]
ERRORS = [0, -5]

FUNCTIONS = {
    **{f.__name__: f for f in (math.sqrt, math.log2, math.sin, math.cos, math.tan, math.atan, math.tanh)},
    "scale": lambda n: 1 / math.sqrt(n),
    "rounded": lambda n: round(n) + round(n / 3) + round(n / 7, 2),
    "rounded_to_tens": lambda n: round(n, -1) + round(-n, -1) * 100 + round(n * 10, -2) + round(n, 2),
    "floor_ceil_trunc": lambda n: math.floor(n / 4) + math.ceil(n / 4) * math.trunc(-n / 4),
    "torch_functions": lambda n: torch.sym_max(n, 9) + torch.sym_min(n, 9) * torch.sym_sum([n, 1, n]),
    "torch_conversions": lambda n: torch.sym_float(n) / 3 + torch.sym_int(n / 2),
    "torch_ite": lambda n: torch.sym_ite(n < 20, n, n * 2 + 1),
    "torch_ite_of_a_constant": lambda n: torch.sym_ite(n < 100, n, 3) + torch.sym_ite(n > 100, 2, n),
}


def values(result):
    """Equal where tensors have the same values, any nan being nan."""
    return repr(result.tolist()) if isinstance(result, torch.Tensor) else result


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_an_int_and_of_a_size(name, backend):
    function, graphs = FUNCTIONS[name], []

    def of_an_int(t, n):
        return t * function(n)

    def of_a_size(t, x):
        return t * function(x.shape[0])

    def counting(gm, example_inputs):
        graphs.append(gm)
        return resolve_backend(backend)(gm, example_inputs)

    t = torch.tensor([1.0, -2.0], dtype=torch.float64)
    for program, wrap in ((of_an_int, int), (of_a_size, torch.ones)):
        graphs.clear()
        compiled = tracer.optimize(counting)(program)
        for value in VALUES:
            assert values(outcome(compiled, t, wrap(value))) == values(outcome(program, t, wrap(value))), value
        assert len(graphs) == 2
        for value in ERRORS if program is of_an_int else ():
            if not (name == "scale" and value == 0):
                assert values(outcome(compiled, t, value)) == values(outcome(program, t, value)), value


STEPS = {  # the function, and what is the same for all numbers that an entry serves
    "bits": (lambda n: n.bit_length(), lambda n: n.bit_length()),
    "bits of what is negative": (lambda n: (3 - n).bit_length(), lambda n: (3 - n).bit_length()),
    "next power of two": (lambda n: 1 << (n - 1).bit_length(), lambda n: (n - 1).bit_length()),
    "whole root": (lambda n: math.isqrt(n), lambda n: math.isqrt(n)),
}


@pytest.mark.parametrize("of_a_size", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_function_with_few_values_has_an_entry_for_each_value(name, of_a_size):
    function, step = STEPS[name]

    def program(x, n):
        return x.new_ones(function(x.shape[0] if of_a_size else n)), function(n)

    compiled = tracer.compile(program, dynamic=True, backend="aot_eager")
    numbers = (5, 6, 7, 8, 9, 11, 15, 16, 17, 30, 31, 32, 33, 63, 64, 65, 80, 99)
    with tracer.config.patch(recompile_limit=64):
        for n in numbers:
            seen, expected = compiled(torch.ones(n), n), program(torch.ones(n), n)
            assert torch.equal(seen[0], expected[0]) and seen[1] == expected[1] and type(seen[1]) is int
    assert compiled.stats()["compiles"] == len({step(n) for n in numbers})


@pytest.mark.parametrize("value", [0, -1, -7])
def test_bits_and_roots_of_what_is_not_positive(value):
    def program(x, n):
        return x + n.bit_length(), math.isqrt(n)

    compiled = tracer.compile(program)
    for n in (12, 5, value, value, 12, -9, 10**30):
        assert outcome_of(compiled, n) == outcome_of(program, n)


def outcome_of(program, n):
    try:
        x, root = program(torch.zeros(1), n)
        return x.item(), root
    except ValueError as error:
        return str(error)
