"""Whatever z3 cannot tell, each question of serving ends on the safe side: nothing is claimed, nothing dropped, nothing wrong."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
import torch

import tracer
from shapes.solver import problem
from shapes.solver.problem import Problem
from shapes.solver.terms import Terms
from tests.serving.test_coverage import branching
from tests.support.regions import entries
from tracer.serving.contract import difference

SPEC = "x: B, S; B in 1..100000; S in 1..100000"  # too many to be tried one by one
EXAMPLE = torch.ones(4, 5)


def _unknown(self, assumptions):
    return "unknown"


def _complains(self, solver, assumptions):
    raise self.z3.Z3Exception("out of memory")


def _gives_up(self, solver, assumptions):
    return self.z3.unknown


_PAST = ContextVar("deadline", default=float("-inf"))


@pytest.fixture(
    params=[(Problem, "ask", _unknown), (Terms, "check", _complains), (Terms, "check", _gives_up), (problem, "_deadline", _PAST)],
    ids=["does not know", "complains", "gives up", "has no time left"],
)
def silent(request, monkeypatch):
    """A z3 that answers nothing, from when it is called."""
    return lambda: monkeypatch.setattr(*request.param)


def certified(**options):
    made = tracer.optimize("eager", shapes=SPEC, **options)(branching)
    assert tracer.precompile(made, example=EXAMPLE)
    return made


def test_nothing_is_certified(silent):
    silent()
    made = tracer.optimize("eager")(branching)
    found = tracer.precompile(made, SPEC, EXAMPLE)
    assert found.status == "unknown" and not found and not made.stats()["certified"] and found.share() < 1
    assert tracer.coverage(made, SPEC, EXAMPLE).status == "unknown"


def test_what_was_certified_is_not_certified_again(silent):
    made = certified()
    silent()
    found = tracer.coverage(made, example=EXAMPLE)
    assert found.status == "unknown" and found.witness is None and not made.stats()["certified"]


def test_guards_stay_and_calls_are_served_right(silent):
    silent()
    made = tracer.optimize("eager")(branching)
    for shape in ((4, 5), (4, 128), (9, 5), (1, 5), (1, 256), (12, 12), (4, 6)):
        x = torch.randn(*shape)
        assert torch.equal(made(x), branching(x))


def test_no_entry_is_retired_or_merged(silent):
    silent()
    made = tracer.optimize("eager")(lambda x: x * 2 if x.shape[0] > 8 else x * 2)
    for size in (3, 4, 9, 3, 12):
        made(torch.ones(size))
    before = len(entries(made))
    assert made.compact() == 0 and before == len(entries(made)) == 3 and not made.stats()["evictions"]


def test_a_seal_and_why_name_no_shape_that_is_not_covered(silent):
    made = certified()
    made.seal()
    silent()
    with pytest.raises(tracer.exc.SealedError, match="no entry serves this call"):
        made(torch.ones(4, 5, dtype=torch.float64))
    found = tracer.why(made, torch.ones(4, 5, dtype=torch.float64))
    assert not found.hit and (found.nearest is None or made.lookup(torch.ones(*found.nearest.values())) is not None)
    assert torch.equal(made(torch.ones(4, 5)), branching(torch.ones(4, 5)))


def test_contracts_are_not_called_equivalent(silent):
    old, new = certified().contract(), certified().contract()
    assert difference(old, new).status == "equivalent"
    silent()
    assert difference(old, new).status == "unknown"


def test_a_mark_that_is_specialised_is_told_all_the_same(silent):
    def f(x):
        return x.sum() * 2 if x.shape[0] == 8 else x

    silent()
    x = torch.ones(8)
    tracer.mark_dynamic(x, 0)
    with pytest.raises(tracer.exc.ConstraintViolationError, match=r"x.shape\[0\] == 8|size\(\)\[0\] == 8"):
        tracer.optimize("eager")(f)(x)


def test_a_mark_that_several_lines_fix_together_is_not_said_to_be_fixed_and_all_guards_stay(silent):
    def f(x):
        if x.shape[0] > 5 and x.shape[0] % 4 == 0 and x.shape[0] < 12:
            return x.sum() * 2
        return x.sum()

    def marked(size):
        x = torch.ones(size)
        tracer.mark_dynamic(x, 0)
        return x

    with pytest.raises(tracer.exc.ConstraintViolationError, match="by these 3 lines together"):
        tracer.optimize("eager")(f)(marked(8))
    silent()
    made = tracer.optimize("eager")(f)
    for size in (8, 9, 4, 12, 8):
        assert torch.equal(made(marked(size)), f(torch.ones(size)))
    assert len(entries(made)) > 2


def test_what_was_loaded_is_not_taken_for_what_is_there(silent, tmp_path):
    def f(x):
        return x * 2

    def compiled():
        return tracer.compile(f, dynamic=True)

    made = compiled()
    made(torch.ones(3))
    assert made.save(tmp_path / "file").saved == 1
    known, unknown = compiled(), compiled()
    for each in (known, unknown):
        each(torch.ones(4))
    assert known.load(tmp_path / "file").loaded == 0 and len(entries(known)) == 1
    silent()
    assert unknown.load(tmp_path / "file").loaded == 1 and len(entries(unknown)) == 2
    assert torch.equal(unknown(torch.ones(5)), f(torch.ones(5))) and unknown.stats()["compiles"] == 1


def test_an_entry_that_is_not_known_to_serve_one_size_alone_has_its_rows_looked_at(silent, monkeypatch):
    made = tracer.optimize("eager", shapes=SPEC)(lambda x: x - x.mean(0) if x.shape[0] == 4 else x * 2)
    made(torch.randn(4, 3))
    tracer.coverage(made, example=EXAMPLE)
    monkeypatch.setattr("tracer.serving.contract.rows_depend", lambda *args: "nobody looked")

    def rows():
        (region,) = made.contract().data["regions"]
        return region["rows"]["B"]

    assert rows() == "independent"  # of one size there is nothing to be padded
    silent()
    assert rows() == "nobody looked"


def test_a_limit_of_one_step_claims_nothing():
    made = certified()
    assert tracer.coverage(made, example=EXAMPLE, rlimit=1).status in ("unknown", "certified")
    fresh = tracer.precompile(tracer.optimize("eager")(branching), SPEC, EXAMPLE, rlimit=1)
    assert fresh.status in ("unknown", "certified") and (fresh.certified == (fresh.share() == 1.0))


def test_an_entry_of_which_nobody_knows_whom_it_serves_ends_the_search(monkeypatch):
    from shapes.regions import SearchResult
    from tracer.serving import regions

    monkeypatch.setattr(regions, "find_member", lambda *args: SearchResult("unknown"))
    found = tracer.precompile(tracer.optimize("eager")(branching), SPEC, EXAMPLE)
    assert found.status == "unknown" and not found and "does not know" in found.reason
