"""What is no shape spec is answered with the line that would be one, and no name in a spec is dropped."""

from __future__ import annotations

import pytest
import torch

import tracer
from tracer.exc import UserError
from tracer.runtime.shape_spec import ShapeSpec


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("B = 1..64", "B in 1..64"),
        ("B == 1..64", "B in 1..64"),
        ("B := 1..64", "B in 1..64"),
        ("B: 1..64", "B in 1..64"),
        ("B in 1...64", "B in 1..64"),
        ("B in 1…64", "B in 1..64"),
        ("B in 1-64", "B in 1..64"),
        ("B in 1:64", "B in 1..64"),
        ("B in 1 to 64", "B in 1..64"),
        ("B in [1, 64]", "B in 1..64"),
        ("B in (1, 64)", "B in 1..64"),
        ("B in range(1, 64)", "B in 1..63"),
        ("B ∈ 1..64", "B in 1..64"),
        ("B in 8..64 step 8", "B in 8..64 by 8"),
        ("B = 8..64 by 8", "B in 8..64 by 8"),
        ("B in ..64", "B <= 64"),
        ("B = 64", "B == 64"),
        ("S = 2*B", "S == 2*B"),
        ("B % 8", "B % 8 == 0"),
        ("B multiple of 8", "B % 8 == 0"),
        ("y: B S", "y: B, S"),
        ("y B, S", "y: B, S"),
        ("y: (B, S)", "y: B, S"),
        ("y: [B, S]", "y: B, S"),
        ("y: B, 2S", "y: B, 2*S"),
        ("y: B, ?", "y: B, _"),
        ("y: B, *", "y: B, _"),
        ("y: B, S, z: B", "y: B, S; z: B"),
    ],
)
def test_a_clause_that_cannot_be_read_is_answered_with_the_line_that_was_meant(written, meant):
    with pytest.raises(UserError) as told:
        ShapeSpec(f"x: B, S; {written}")
    assert f"write {meant!r}" in str(told.value) and "A spec has clauses" in str(told.value)
    assert ShapeSpec(f"x: B, S; {meant}")


@pytest.mark.parametrize("written", ["1..64", "B in", "y: ..., S", "B + S", "y: B / S"])
def test_a_clause_that_means_nothing_is_answered_with_the_grammar_alone(written):
    with pytest.raises(UserError) as told:
        ShapeSpec(f"x: B, S; {written}")
    assert "write" not in str(told.value) and "A spec has clauses" in str(told.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (lambda: ShapeSpec("x: B, S; BB in 1..8"), ["'BB in 1..8' says nothing", "did you mean B?", "'x: B, S'"]),
        (lambda: ShapeSpec("x: B, S; B*T <= 1024"), ["T is no dim", "'B*T <= 1024' says nothing", "B, S"]),
        (lambda: ShapeSpec("x: B, S; T <= 8"), ["T is no dim", "'T <= 8'"]),
        (lambda: ShapeSpec("x: B, S; s % 8 == 0"), ["s is no dim", "did you mean S?"]),
        (lambda: ShapeSpec({"x": ["B", "S"]}, BB=(1, 8)), ["'BB=(1, 8)' says nothing", "did you mean B?"]),
        (lambda: ShapeSpec({"x": ["B", "S"]}, ["B <= T"]), ["'B <= T' says nothing"]),
        (lambda: ShapeSpec("B in 1..8"), ["no name stands at a dim"]),
    ],
)
def test_a_name_that_stands_at_no_dim_is_an_error(spec, words):
    with pytest.raises(UserError) as told:
        spec()
    assert all(word in str(told.value) for word in words), told.value


def test_a_relation_whose_argument_is_left_out_waits_for_a_call_that_has_it():
    def f(x, mask=None):
        return x.sum(0) if mask is None else (x * mask).sum(0)

    made = tracer.compile(f, shapes="x: B, S; mask: B, T; B in 1..8; S in 1..8; T in 1..8; S <= T; T <= S")
    assert torch.equal(made(torch.ones(3, 4)), torch.ones(3, 4).sum(0))
    assert torch.equal(made(torch.ones(3, 4), torch.ones(3, 4)), torch.ones(3, 4).sum(0))


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("x: B, 16*H", "'x: B, H; H in 16.. by 16', and write H//16 where"),
        ("x: B, 16*H; H in 1..8", "'x: B, H; H in 16..128 by 16', and write H//16 where"),
        ("x: B, 4*H + 1; H in 0..8", "'x: B, H; H in 1..33; H % 4 == 1', and write (H - 1)//4 where"),
        ("x: B, H*W", "'x: B, N'"),
    ],
)
def test_a_size_that_is_only_computed_from_is_answered_with_the_line_that_names_the_dim(spec, line):
    with pytest.raises(UserError, match="is only used in an expression") as told:
        ShapeSpec(spec)
    assert line in str(told.value)
    assert ShapeSpec(line[1 : line.index("'", 1)])


def test_bounds_of_a_keyword_in_text_are_answered_with_numbers():
    with pytest.raises(UserError, match=r"write B=\(1, 64\)"):
        ShapeSpec({"x": ["B"]}, B="1..64")
