"""torch.compile's `shapes_spec=`: what its variables name is dynamic, all else constant, and other calls raise."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch.fx.experimental.dynamic_spec import (
    DictSpec,
    IntVar,
    ObjectSpec,
    ParamsSpec,
    SeqSpec,
    ShapesSpec,
    ShapeVar,
    TensorSpec,
)

import tracer
from tracer.errors import ConstraintViolationError, UserError

pytestmark = pytest.mark.usefixtures("installed")
ones = torch.ones


def doubled(x):
    return x * 2


def entries_for(fn, spec, *calls):
    """How many entries serve some calls, which give what `fn` gives."""
    compiled = torch.compile(fn, shapes_spec=spec, fullgraph=True)
    for args in calls:
        torch.testing.assert_close(compiled(*args), fn(*args), rtol=0, atol=0)
    return len(tracer.region_of(compiled).entries())


def test_one_entry_serves_every_size_of_a_variable_also_none_and_one():
    spec = ShapesSpec({"x": TensorSpec([ShapeVar("rows"), None])})
    assert entries_for(doubled, spec, *[(ones(rows, 4),) for rows in (3, 5, 1, 0)]) == 1


def test_sizes_that_are_not_named_are_constants():
    spec = ParamsSpec({"x": TensorSpec([ShapeVar("rows"), None])})
    assert entries_for(doubled, spec, *[(ones(3, columns),) for columns in (4, 5, 6)]) == 3
    assert entries_for(doubled, {}, *[(ones(rows),) for rows in (4, 5, 6)]) == 3


def test_a_module_in_place_and_wrapped_has_the_parameters_of_its_forward():
    spec = ShapesSpec({"input": TensorSpec([ShapeVar("rows"), 4])})
    in_place, wrapped = torch.nn.Linear(4, 2), torch.compile(torch.nn.Linear(4, 2), shapes_spec=spec)
    in_place.compile(shapes_spec=spec)
    for compiled in (in_place, wrapped):
        for rows in (3, 1, 6):
            assert compiled(ones(rows, 4)).shape == (rows, 2)
        assert len(tracer.region_of(compiled).entries()) == 1


def test_ints_vary_below_zero_too():
    calls = [(ones(2), n) for n in (3, 5, 0, -4)]
    assert entries_for(lambda x, n: x * n, ShapesSpec({"n": IntVar("n")}), *calls) == 1
    assert entries_for(lambda x, n: x * n, ShapesSpec({}), *calls) == 4


def test_variables_of_one_name_are_different_ones():
    spec = ShapesSpec({"x": TensorSpec([ShapeVar()]), "y": TensorSpec([ShapeVar()]), "z": TensorSpec([ShapeVar("relations")])})
    calls = [(ones(2), ones(3), ones(4)), (ones(5), ones(2), ones(2))]
    assert entries_for(lambda x, y, z: (x + 1, y + 1, z + 1), spec, *calls) == 1


def test_sizes_inside_of_containers_and_objects_are_named():
    class Box:
        def __init__(self, inner):
            self.inner = inner

    def summed(d, box):
        return d["x"][1] * 2 + box.inner.sum()

    of_dict = DictSpec({"x": SeqSpec([None, TensorSpec([ShapeVar("a")])])})
    spec = ShapesSpec({"d": of_dict, "box": ObjectSpec({"inner": TensorSpec([ShapeVar("b")])})})
    calls = [({"x": [0, ones(n)]}, Box(ones(n + 2))) for n in (3, 4, 5)]
    assert entries_for(summed, spec, *calls) == 1


def test_further_arguments_are_named_by_position_and_by_keyword():
    class Summed(torch.nn.Module):
        def forward(self, *tensors, **more):
            return tensors[1] * 2 + sum(each.sum() for each in more.values())

    spec = ShapesSpec({"*args": [None, TensorSpec([ShapeVar("a")])], "**kwargs": {"k": TensorSpec([ShapeVar("b")])}})
    for compiled in (torch.compile(Summed(), shapes_spec=spec), torch.compile(Summed().forward, shapes_spec=spec)):
        for n in (3, 4, 5):
            assert torch.equal(compiled(0, ones(n), k=ones(n + 1)), ones(n) * 2 + n + 1)
        assert len(tracer.region_of(compiled).entries()) == 1
        assert torch.equal(compiled(0, ones(3)), ones(3) * 2)  # an argument that is left out


def test_derived_sizes_and_assumptions_relate_variables():
    a, b = ShapeVar("a", min=2), ShapeVar("b", max=64)
    spec = ShapesSpec({"x": TensorSpec([a, b]), "y": TensorSpec([a * 2 + 1])}, assumptions=[a < b, b % 2 == 0])
    compiled = torch.compile(lambda x, y: x.sum() + y, shapes_spec=spec, fullgraph=True)
    for n, m in ((2, 4), (5, 8)):
        assert torch.equal(compiled(ones(n, m), ones(2 * n + 1)), ones(2 * n + 1) * (n * m + 1))
    assert len(tracer.region_of(compiled).entries()) == 1
    for x, y in (((1, 4), 3), ((5, 4), 11), ((2, 3), 5), ((2, 4), 6), ((2, 66), 5)):
        with pytest.raises(ConstraintViolationError, match="was declared"):
            compiled(ones(x), ones(y))


@pytest.mark.parametrize("spec", [{"x": TensorSpec([4])}, {"n": 2}], ids=["size", "int"])
def test_another_value_than_the_one_that_is_pinned_raises(spec):
    compiled = torch.compile(lambda x, n: x * n, shapes_spec=ShapesSpec(spec))
    compiled(ones(4), 2)
    with pytest.raises(ConstraintViolationError, match=r"but it was declared as \d\.\n"):
        compiled(ones(3), 1)


def test_what_is_behind_a_graph_break_varies_with_what_is_named():
    def broken(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    compiled = torch.compile(broken, shapes_spec=ShapesSpec({"x": TensorSpec([ShapeVar("rows"), None])}))
    for rows in range(2, 9):
        assert torch.equal(compiled(ones(rows, 2)), ones(rows, 2) * 3)
    assert len(tracer.region_of(compiled).entries()) <= 3


def test_what_cannot_be_honoured_is_refused():
    a = ShapeVar("a")
    with pytest.raises(ValueError, match="`dynamic` and `shapes_spec` cannot both be set"):
        torch.compile(doubled, dynamic=True, shapes_spec=ShapesSpec({"x": TensorSpec([a])}))
    with pytest.raises(TypeError, match="must be ParamsSpec, dict"):
        torch.compile(doubled, shapes_spec=3)
    with pytest.raises(UserError, match="computes with a, but no dim and no int is a itself"):
        torch.compile(doubled, shapes_spec=ShapesSpec({"x": TensorSpec([a + 1])}))
    with pytest.raises(UserError, match=r"names '\*args', but .* takes no such arguments"):
        torch.compile(doubled, shapes_spec=ShapesSpec({"*args": [None, TensorSpec([a])]}))
    with pytest.warns(UserWarning, match="optimization_hint=8 of a has no effect"):
        torch.compile(doubled, shapes_spec=ShapesSpec({"x": TensorSpec([ShapeVar("a", optimization_hint=8)])}))
