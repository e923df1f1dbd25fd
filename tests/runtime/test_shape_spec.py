"""ShapeSpec: how sizes are declared, and what a call of a function with declared sizes does."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import tracer
from tracer.runtime.shape_spec import ShapeSpec


def texts(spec: ShapeSpec) -> list[str]:
    return [str(each) for each in (*spec.variables.values(), *spec.relations)]


def test_the_forms_of_a_spec_say_the_same():
    forms = [
        ShapeSpec({"x": ["B", "S"], "y": {0: "2*B + 1"}}, B=(1, 256), S=(8, 4096, 8), relations=["B <= S"]),
        ShapeSpec("x: B, S; y: 2*B + 1; B in 1..256; S in 8..4096 by 8; B <= S"),
        ShapeSpec("x: B, S\ny: 2*B + 1\n1 <= B <= 256\nS >= 8; S < 4097; S % 8 == 0; B <= S"),
        ShapeSpec({"x": ["B in 1..256", "S in 8..4096 by 8"], "y": ["2*B + 1"]}, ["B <= S"]),
        ShapeSpec("x: B, S; y: 2*B + 1; B in 1..256; S in 8..4096; S % 8 == 0; B <= S"),
        ShapeSpec({"x": {0: "B", 1: "S"}, "y": ("2*B + 1",)}, ["B <= S"], B={"max": 256}, S=(8, 4096, 8)),
    ]
    for form in forms:
        assert form.dims == forms[0].dims and form.relations == forms[0].relations
        assert {(v.name, v.min, v.max, v.multiple_of) for v in form.variables.values()} == {
            ("B", 1, 256, 1),
            ("S", 8, 4096, 8),
        }


def test_the_dims_of_torch_export_are_taken():
    batch = Dim("batch", min=2, max=64)
    spec = ShapeSpec({"x": {0: batch, 1: Dim.AUTO}, "y": [2 * batch + 1, None], "z": {"a": {0: Dim.STATIC, 1: batch}}})
    assert texts(spec) == ["2 <= batch <= 64", "0 <= x_1"]
    assert {path: {dim: str(expr) for dim, expr in dims.items()} for path, dims in spec.dims.items()} == {
        ("x",): {0: "batch", 1: "x_1"},
        ("y",): {0: "2*batch + 1"},
        ("z", "a"): {1: "batch"},
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("x: B / 2", "is not an integer expression"),
        ("x: B +", "is not a list of dims"),
        ("x(): B", "is not a path to an argument"),
        ("x: B; B in 9..4", "no size satisfies what is declared of B"),
        ("x: B; B in 1..4; B in 1..5", "declared twice"),
        ({"x": {0: 1.5}}, "declared as 1.5"),
        ("x: B; B", "is not a condition"),
    ],
)
def test_a_spec_that_says_nothing_is_refused(spec, words):
    with pytest.raises(tracer.exc.UserError, match=words):
        ShapeSpec.of(spec)


def compiled_for(fn, shapes):
    return tracer.optimize("eager", shapes=shapes)(fn)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("z: B", "has no argument 'z'"),
        ("x: B, S, T", "dim 2 of x was declared, but it has 2 dims"),
        ("x: 2*B", "B is only used in an expression"),
        ("n: B, S", "2 dims of n were declared, but it is an int"),
        ("m: B", "m was declared with dims, but is a str"),
        ("x['a']: B", "x['a'] was declared, but"),
    ],
)
def test_a_spec_that_does_not_fit_the_call_is_refused(spec, words):
    def f(x, n=3, m=""):
        return x + n

    with pytest.raises(tracer.exc.UserError) as told:
        compiled_for(f, spec)(torch.ones(2, 3))
    assert words in str(told.value)


def test_a_shape_that_was_not_declared_is_an_error_that_says_which():
    f = compiled_for(lambda x, y: x + y.sum(), "x: B, S; y: 2*B + 1; B in 1..8")
    f(torch.ones(2, 3), torch.ones(5))
    with pytest.raises(tracer.exc.ConstraintViolationError) as told:
        f(torch.ones(2, 3), torch.ones(6))
    assert "is 6, but it was declared as 2*B + 1, which is 5 for B = 2" in str(told.value)
    with pytest.raises(tracer.exc.ConstraintViolationError, match="is 9, but it was declared as 1 <= B <= 8"):
        f(torch.ones(9, 3), torch.ones(19))


def test_declared_sizes_are_symbols_from_the_first_call_and_one_entry_serves_them():
    def f(x, y):
        assert y.shape[0] > x.shape[0]
        return x.sum(0), y.sum()

    g = compiled_for(f, "x: B, S; y: 2*B + 1")
    for b, s in ((2, 3), (7, 3), (5, 11), (1, 2)):
        x, y = torch.randn(b, s), torch.randn(2 * b + 1)
        assert all(map(torch.equal, g(x, y), f(x, y)))
    assert len(tracer.region_of(g).entries()) == 1


def test_equal_sizes_with_two_names_are_not_taken_for_one():
    g = compiled_for(lambda x: x.sum(0), "x: B, S")
    g(torch.ones(4, 4))
    g(torch.ones(4, 6))
    assert len(tracer.region_of(g).entries()) == 1


def test_calls_that_have_the_same_arguments_share_their_domain():
    def f(x, y=None):
        return x

    spec = tracer.ShapeSpec("x: B, S; y: B; B in 1..64; S in 1..64")
    small, large, both = (
        spec.bind(f, args).domain
        for args in ((torch.ones(2, 3), None), (torch.ones(64, 9), None), (torch.ones(2, 3), torch.ones(2)))
    )
    assert small is large and small != both and len(both.places) == 3


def test_a_name_found_twice_is_one_size():
    def f(x, y):
        return x.sum(1) + y.sum(1)

    g = compiled_for(f, "x: B, S; y: B, T")
    for b in (2, 5):
        x, y = torch.randn(b, 3), torch.randn(b, 4)
        assert torch.equal(g(x, y), f(x, y))
    assert "L['y'].size()[0] == L['x'].size()[0]" in tracer.region_of(g).entries()[0].guarded_code.guards_text
    with pytest.raises(tracer.exc.ConstraintViolationError, match="declared as B, which is 2"):
        g(torch.ones(2, 3), torch.ones(3, 3))


def test_a_size_that_only_another_argument_shows_reaches_the_graph():
    def f(x, y):
        return torch.zeros(y.shape[0] - 1) + 1  # 2*B, of which x alone tells B

    g = compiled_for(f, "x: B; y: 2*B + 1")
    for b in (2, 5):
        assert g(torch.ones(b), torch.ones(2 * b + 1)).shape == (2 * b,)
    assert len(tracer.region_of(g).entries()) == 1


def test_parts_of_arguments_keywords_and_missing_ones_are_found():
    def f(batch, mask=None, **more):
        total = batch["ids"].sum(1) + more["extra"][0].sum(0)
        return total if mask is None else total + mask.sum(1)

    g = compiled_for(f, {"batch": {"ids": ["B", "S"]}, "mask": ["B", "S"], "extra": [{1: "B"}]})
    for b, s in ((2, 3), (4, 5), (3, 1)):
        ids, extra = torch.randn(b, s), [torch.randn(3, b)]
        assert torch.equal(g({"ids": ids}, extra=extra), f({"ids": ids}, extra=extra))
    assert len(tracer.region_of(g).entries()) == 1
    assert torch.equal(g({"ids": ids}, ids, extra=extra), f({"ids": ids}, ids, extra=extra))


def test_a_module_is_declared_by_the_parameters_of_its_forward():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(x).relu()

    model = Model()
    compiled_model = tracer.compile(model, shapes="x: B, _; B in 2..64")
    for b in (2, 7, 64):
        x = torch.randn(b, 4)
        assert torch.equal(compiled_model(x), model(x))
    assert len(tracer.region_of(compiled_model).entries()) == 1
    with pytest.raises(tracer.exc.ConstraintViolationError, match="is 65"):
        compiled_model(torch.randn(65, 4))


def test_what_runs_behind_a_graph_break_is_not_declared():
    def f(x):
        x = x.sum(1)
        tracer.graph_break()
        return x + 1

    g = compiled_for(f, "x: B, S")
    for b in (2, 5, 6):
        assert torch.equal(g(torch.ones(b, 3)), f(torch.ones(b, 3)))
