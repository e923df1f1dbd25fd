"""Each row is needed: without it, the derived facts would be wrong. `test_probed_strides` has the rows of layouts."""

from __future__ import annotations

import inspect
import types
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.graph.fakes import make_fakes
from tests.operators.test_probed_strides import LAYOUTS as layouts
from tests.operators.unsaid import without_rows
from tracer.operators.facts import facts_of, writes
from tracer.operators.table import AS_ITS_ARGUMENT, BATCH, CHANNELS, IN_LINE, ROWS

aten = torch.ops.aten
NAN = float("nan")


def square(value: float) -> torch.Tensor:
    return torch.full((2, 2), float(value))


def positions(rows: int, value: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.full((rows,), value, dtype=dtype)


# Operator, and arguments on which it raises, although its form on fakes does not.
FAILS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "_assert_async": (aten._assert_async.default, (torch.zeros(1),), {}),
    "_histogramdd_bin_edges": (aten._histogramdd_bin_edges.default, (square(NAN), [2, 2]), {}),
    "_linalg_check_errors": (aten._linalg_check_errors.default, (positions(1, 1, torch.int32)[0], "f"), {"is_matrix": True}),
    "_linalg_eigh": (aten._linalg_eigh.default, (torch.full((3, 3), NAN),), {}),
    "_linalg_solve_ex": (aten._linalg_solve_ex.default, (square(0), torch.ones(2, 1)), {"check_errors": True}),
    "_linalg_svd": (aten._linalg_svd.default, (square(NAN),), {}),
    "_pack_padded_sequence": (aten._pack_padded_sequence.default, (torch.ones(3, 2, 1), torch.tensor([1, -2]), False), {}),
    "bernoulli": (aten.bernoulli.default, (square(2),), {}),
    "binary_cross_entropy": (aten.binary_cross_entropy.default, (square(3), square(1)), {}),
    "bincount": (aten.bincount.default, (positions(1, -1),), {}),
    "bucketize": (aten.bucketize.Tensor, (torch.ones(2), square(1)), {}),
    "cholesky_inverse": (aten.cholesky_inverse.default, (square(0),), {}),
    "histc": (aten.histc.default, (square(NAN),), {}),
    "histogram": (aten.histogram.bin_ct, (torch.full((3,), NAN), 3), {}),
    "linalg_cholesky_ex": (aten.linalg_cholesky_ex.default, (square(-1),), {"check_errors": True}),
    "linalg_eig": (aten.linalg_eig.default, (square(NAN),), {}),
    "linalg_inv_ex": (aten.linalg_inv_ex.default, (square(0),), {"check_errors": True}),
    "linalg_ldl_factor_ex": (aten.linalg_ldl_factor_ex.default, (square(0),), {"check_errors": True}),
    "linalg_ldl_solve": (aten.linalg_ldl_solve.default, (square(1), positions(2, 9, torch.int32), torch.ones(2, 1)), {}),
    "linalg_lu_factor_ex": (aten.linalg_lu_factor_ex.default, (square(0),), {"check_errors": True}),
    "linalg_lu_solve": (aten.linalg_lu_solve.default, (square(1), positions(2, 9, torch.int32), torch.ones(2, 1)), {}),
    "lu_unpack": (aten.lu_unpack.default, (square(1), positions(2, 9, torch.int32)), {}),
    "masked_scatter": (aten.masked_scatter.default, (torch.ones(3), torch.ones(3) > 0, torch.ones(1)), {}),
    "masked_select": (aten.masked_select.default, (square(1), square(1)), {}),
    "multi_margin_loss": (aten.multi_margin_loss.default, (square(1), positions(2, 7)), {}),
    "multilabel_margin_loss_forward": (aten.multilabel_margin_loss_forward.default, (square(1), square(7).long(), 1), {}),
    "multinomial": (aten.multinomial.default, (square(-1), 1), {}),
    "nll_loss2d_forward": (
        aten.nll_loss2d_forward.default,
        (torch.ones(1, 3, 2, 2), square(7).long()[None], None, 1, -100),
        {},
    ),
    "nll_loss_forward": (aten.nll_loss_forward.default, (square(1), positions(2, 7), None, 1, -100), {}),
    "normal": (aten.normal.Tensor_Tensor, (square(1), square(-1)), {}),
    "poisson": (aten.poisson.default, (square(-1),), {}),
    "repeat_interleave": (aten.repeat_interleave.Tensor, (positions(2, -1),), {}),
    "searchsorted": (aten.searchsorted.Tensor, (torch.ones(2), torch.ones(1)), {"sorter": positions(2, 7)}),
}
if hasattr(aten, "cholesky"):  # gone in torch 2.14
    FAILS["cholesky"] = (aten.cholesky.default, (square(-1),), {})
OF_NUMBERS_OF_DATA = {"_assert_scalar", "split_with_sizes"}  # what they are given is no tensor


def test_each_has_a_call_here():
    assert {name for name, row in ROWS.items() if row.fails and hasattr(aten, name)} == FAILS.keys() | OF_NUMBERS_OF_DATA


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("name", FAILS)
def test_an_operator_passes_on_fakes_and_fails_on_data(name):
    func, args, kwargs = FAILS[name]
    assert func._opname == name
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    world, fakes = make_fakes(tensors, tensors)
    of = {id(real): fake for real, fake in zip(tensors, fakes, strict=True)}
    world.run(func, [of.get(id(each), each) for each in args], {key: of.get(id(each), each) for key, each in kwargs.items()})
    with pytest.raises((RuntimeError, IndexError, NotImplementedError)):
        func(*args, **kwargs)
    with without_rows(name):
        assert not facts_of(func).may_fail


@pytest.mark.parametrize("name", sorted(OF_NUMBERS_OF_DATA))
def test_numbers_that_data_decide_are_not_told_by_the_schema(name):
    with without_rows(name):
        assert not facts_of(getattr(aten, name).default).may_fail
    with pytest.raises(RuntimeError):
        aten._assert_scalar(0, "no") if name == "_assert_scalar" else aten.split_with_sizes(torch.ones(3), [1, 1])


ELEMENTWISE = {
    "_to_copy": lambda x: aten._to_copy.default(x, dtype=torch.float64),
    "floor_divide": lambda x: aten.floor_divide.default(x, 2 * x),
    "rsub": lambda x: aten.rsub.Tensor(x, x * x),
}


def test_operators_that_go_element_by_element_have_no_tag_that_says_so():
    assert {name for name, row in ROWS.items() if row.elementwise} == ELEMENTWISE.keys()
    x, order = torch.tensor([3.0, 1.0, 2.0, 5.0]), torch.tensor([2, 0, 3, 1])
    for name, call in ELEMENTWISE.items():
        assert torch.equal(call(x[order]), call(x)[order])
        with without_rows(name):
            assert not facts_of(getattr(aten, name).Tensor if name == "rsub" else getattr(aten, name).default).elementwise


def test_operators_that_update_statistics_do_not_say_so_or_not_when():
    named = {name for name, row in ROWS.items() if row.statistics}
    x = torch.arange(6.0).view(2, 3)
    calls = {
        "native_batch_norm": lambda m, v, on: aten.native_batch_norm(x, None, None, m, v, on, 0.5, 1e-5),
        "_native_batch_norm_legit": lambda m, v, on: aten._native_batch_norm_legit(x, None, None, m, v, on, 0.5, 1e-5),
        "batch_norm_update_stats": lambda m, v, on: aten.batch_norm_update_stats(x, m, v, 0.5) if on else None,
    }
    for name, call in calls.items():
        for on in (True, False):
            mean, variance = torch.zeros(3), torch.ones(3)
            call(mean, variance, on)
            assert mean.any() == on
    for name in named - calls.keys():  # these run on a GPU alone
        func = getattr(aten, name).default
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CPU")
    for name in named - {"_native_batch_norm_legit"}:
        with without_rows(name):
            assert not facts_of(getattr(aten, name).default).writes


def test_an_operator_that_writes_although_its_schema_does_not_say_so():
    assert [name for name, row in ROWS.items() if row.writes] == ["_no_grad_embedding_renorm_"]
    weight = torch.full((3, 2), 4.0)
    F._no_grad_embedding_renorm_(weight, torch.tensor([1]), 1.0, 2.0)
    assert not torch.equal(weight, torch.full((3, 2), 4.0))
    assert writes(F._no_grad_embedding_renorm_, {})
    with without_rows("_no_grad_embedding_renorm_"):
        assert not writes(F._no_grad_embedding_renorm_, {})


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.lifts])
def test_operators_that_lift_constants_keep_their_data_which_no_metadata_tell(name):
    func = getattr(aten, name).default
    assert not facts_of(func).by_metadata
    with without_rows(name):
        assert facts_of(func).by_metadata


def made_alike(name: str) -> Any:
    more = {"full_like": (2.0,), "randint_like": (5,)}.get(name, ())
    return lambda x: getattr(aten, name)(x, *more)


def normalised(packet: Any, *options: Any) -> Any:
    return lambda x: packet(x, None, None, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), *options, 0.1, 1e-5)[0]


TURNED = torch.ones(4, 2, 3).permute(1, 2, 0)
SMALL = torch.empty_strided((1, 2, 1), (7, 1, 3))
LIES: dict[str, tuple[Any, torch.Tensor]] = {
    **{name: (made_alike(name), SMALL) for name, row in ROWS.items() if row.lies == AS_ITS_ARGUMENT},
    "native_batch_norm": (normalised(aten.native_batch_norm, True), TURNED),
    "_native_batch_norm_legit": (normalised(aten._native_batch_norm_legit, True), TURNED),
    "_native_batch_norm_legit_no_training": (normalised(aten._native_batch_norm_legit_no_training), TURNED),
    "_batch_norm_with_update": (
        lambda x: aten._batch_norm_with_update(x, *[torch.ones(x.shape[1]) for _ in range(4)], 0.1, 1e-5)[0],
        TURNED,
    ),
    "max_unpool2d": (
        lambda x: aten.max_unpool2d(x, torch.zeros_like(x, dtype=torch.int64), [4, 4]),
        torch.ones(2, 2, 3, 5).permute(3, 2, 1, 0),
    ),
    "log_sigmoid_forward": (lambda x: aten.log_sigmoid_forward(x)[0], TURNED),
    "normal": (lambda x: aten.normal.Tensor_Tensor(x, x), TURNED),
    "nll_loss2d_forward": (
        lambda x: aten.nll_loss2d_forward(x, torch.zeros(5, 4, 2).long().permute(0, 2, 1), None, 0, -100)[0],
        torch.ones(5, 3, 2, 4),
    ),
}


def test_each_layout_that_a_rule_tells_has_a_call_here():
    named = {name for name, row in ROWS.items() if row.lies}
    assert named == LIES.keys()
    assert {ROWS[name].lies for name in named} == {AS_ITS_ARGUMENT, CHANNELS, BATCH, IN_LINE}


LAYOUTS = [make() for make in layouts.values()]


@pytest.mark.parametrize("name", LIES)
def test_a_rule_tells_the_layout_that_pytorchs_rule_does_not(name):
    call, own = LIES[name]

    def on_fakes(x: torch.Tensor) -> tuple[int, ...]:
        world, _ = make_fakes([], [])
        with world.fake_mode:
            return call(torch.empty_strided(x.shape, x.stride())).stride()

    needed = False
    for x in (own, *LAYOUTS):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                expected, ruled = call(x).stride(), on_fakes(x)
                with without_rows(name):
                    unruled = on_fakes(x)
                with FakeTensorMode():  # as compilers see it
                    plain = call(torch.empty_strided(x.shape, x.stride())).stride()
            except Exception:  # not of these sizes
                continue
        assert ruled == expected
        needed |= unruled != expected or plain != expected
    assert needed, "take it out of the table"


# -- floats on which only elements depend --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.floats])
def test_floats_that_only_elements_depend_on_are_arguments_of_the_operator(name):
    packet, function = getattr(aten, name, None), getattr(torch.nn.functional, name, None)
    floats = set(inspect.signature(function).parameters) if isinstance(function, types.FunctionType) else set()
    for overload in packet.overloads() if packet is not None else ():
        arguments = getattr(packet, overload)._schema.arguments
        floats |= {each.name for each in arguments if str(each.type) in ("float", "Optional[float]")}
    assert set(ROWS[name].floats.split()) <= floats


def test_rows_with_values_at_which_something_else_may_be_done_have_floats():
    assert all(row.floats for row in ROWS.values() if row.turns)
