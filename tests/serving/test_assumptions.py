"""The assumption on sizes that is printed for a branch is the weakest, and with it pasted the branch is decided."""

from __future__ import annotations

import itertools
import linecache
import random
import re
from pathlib import Path

import pytest
import torch

import tracer
from tests.serving import assumption_cases
from tests.serving.assumption_cases import CASES
from tests.support.outcomes import outcome

_SOURCE = Path(assumption_cases.__file__).read_text().splitlines()
_numbers = itertools.count()


def example_of(case, **sizes):
    torch.manual_seed(0)
    return case.args(**{**case.sizes, **sizes})


def broken(case, fn):
    """What the error says when the graph is to be whole; None if it is."""
    compiled = tracer.compile(fn, fullgraph=True, shapes=case.spec)
    try:
        compiled(*example_of(case))
    except tracer.exc.Unsupported as error:
        assert error.id.startswith("data-dependent")
        return error
    return None


def pasted(case, check, line):
    """The program with a line in front of another one."""
    lines = [*_SOURCE]
    indent = re.match(r"\s*", lines[line - 1])[0]
    lines.insert(line - 1, f"{indent}{check}")
    name = f"<pasted {next(_numbers)}>"
    text = "\n".join(lines) + "\n"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope = {"__name__": assumption_cases.__name__}
    exec(compile(text, name, "exec"), scope)
    return scope[case.fn.__name__]


def first_line(case):
    return (
        case.fn.__code__.co_firstlineno
        + next(number for number, line in enumerate(_SOURCE[case.fn.__code__.co_firstlineno - 1 :]) if line.startswith("def "))
        + 1
    )


def answer_for_break(case):
    """The line that is printed for a case where data decide, None if there is none; and the line to paste it before."""
    error = broken(case, case.fn)
    assert error is not None and error.assumption in str(error)
    if not error.assumption:
        return None, 0
    check, place = re.fullmatch(r"(torch\._check\(.*\)) before (.*) decides it", error.assumption).groups()
    at = re.search(r":(\d+) in", place)
    assert at or place == f"the first line of {case.fn.__name__}"
    return check, int(at[1]) if at else first_line(case)


def regions(case, fn, spec=None):
    """The certificate of a program, and how many graphs it needs."""
    compiled = tracer.compile(fn)
    found = tracer.precompile(compiled, spec or case.spec, example_of(case))
    assert found.certified, found
    return compiled, found, sum(each.kind == "graph" for each in found.covering)


def agrees_with_eager(case, fn, compiled, seed=0):
    draw = random.Random(seed)
    for _ in range(12):
        args = example_of(case, **{name: draw.randint(1, 64) for name in case.sizes})
        expected, seen = outcome(fn, *args), outcome(compiled, *args)
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(seen, expected, rtol=0, atol=0, equal_nan=True)
        else:
            assert seen == expected


def with_clause(spec, clause):
    """The spec with one more clause; bounds take the place of those that it has."""
    name, bounds, _ = clause.partition(" in ")
    return "; ".join([*(each for each in spec.split("; ") if not bounds or not each.startswith(f"{name} in ")), clause])


def some_by_default(cases, every):
    marks = [() if number % every == 0 else pytest.mark.full for number in range(len(cases))]
    return [pytest.param(each, id=each.fn.__name__, marks=mark) for each, mark in zip(cases, marks)]


@pytest.mark.parametrize("case", some_by_default([each for each in CASES if not each.divides], 4))
def test_the_assumption_that_is_printed_makes_the_graph_whole(case):
    check, line = answer_for_break(case)
    assert check == (None if case.expected is None else f"torch._check({case.expected})")
    if check is not None:
        again = pasted(case, check, line)
        assert broken(case, again) is None
        agrees_with_eager(case, again, tracer.compile(again, shapes=case.spec))


@pytest.mark.parametrize("case", some_by_default([each for each in CASES if each.divides], 4))
def test_each_assumption_of_a_certificate_makes_regions_fewer(case):
    _, found, count = regions(case, case.fn)
    assumptions = found.assumptions()
    assert f"torch._check({case.expected})" in [each.check for each in assumptions]
    for each in assumptions:
        assert str(each) in str(found)
        again = pasted(case, each.check, first_line(case))
        compiled, _, fewer = regions(case, again)
        assert fewer < count
        assert regions(case, case.fn, with_clause(case.spec, each.clause))[2] < count
        agrees_with_eager(case, again, compiled)


def test_there_are_forty_cases():
    assert len(CASES) == 40
