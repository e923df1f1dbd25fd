"""The facts that are derived for each operator of ATen agree with what torch does."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tracer.operators.facts import argument, facts_of, offset_argument, takes_one_for_all, writes
from tracer.operators.table import ROWS

aten = torch.ops.aten


def overloads() -> Iterator[Any]:
    """All operators of ATen that the dispatcher knows: those of TorchScript's lists are none of tensors."""
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        full = f"{schema.name}.{schema.overload_name}".removesuffix(".")
        if namespace == "aten" and torch._C._dispatch_has_kernel(full):
            yield getattr(getattr(aten, name), schema.overload_name or "default")


ALL = sorted(set(overloads()), key=str)


def is_out(func: Any) -> bool:
    return any(each.is_out for each in func._schema.arguments)


def test_there_are_thousands_of_them():
    assert len(ALL) > 2500


def test_what_an_operator_writes_to_is_what_its_schema_says_and_the_statistics_that_the_table_names():
    for func in ALL:
        facts = facts_of(func)
        said = {(i, arg.name) for i, arg in enumerate(func._schema.arguments) if arg.is_write}
        assert said <= {*facts.writes, *facts.statistics}, func
        assert set(facts.writes) <= said, func
        assert bool(facts.writes) == func._schema.is_mutable or facts.statistics, func
        assert not facts.statistics or ROWS[func._opname].statistics, func


def test_what_an_operator_draws_and_how_it_goes_through_its_operands_is_what_its_tags_say():
    for func in ALL:
        facts = facts_of(func)
        assert facts.random == (torch.Tag.nondeterministic_seeded in func.tags), func
        untagged = ROWS.get(func._opname) or ROWS.get(func._opname.removesuffix("_"))
        assert facts.elementwise == (torch.Tag.pointwise in func.tags or bool(untagged and untagged.elementwise)), func
        assert facts.is_view == func.is_view, func
        if torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags:
            assert not facts.by_metadata, func


def test_what_gives_one_new_tensor_shares_no_memory_with_an_argument():
    for func in ALL:
        if facts_of(func).gives_one_new_tensor:
            assert not func.is_view and not func._schema.is_mutable and len(func._schema.returns) == 1, func


def test_an_operator_whose_name_ends_in_an_underscore_writes_to_its_first_argument():
    for func in ALL:
        name = func._opname
        if name.endswith("_") and not name.startswith("__") and not is_out(func) and not ROWS.get(name):
            assert facts_of(func).writes[0][0] == 0, func


def test_a_form_in_place_may_fail_where_the_other_does():
    for name in ("bernoulli_", "index_put_", "masked_scatter_", "scatter_", "normal_"):
        assert all(facts_of(func).may_fail for func in ALL if func._opname == name), name
    assert not facts_of(aten.add.Tensor).may_fail and not facts_of(aten.mm.default).may_fail


def test_an_operator_of_others_may_fail_and_is_not_known_by_its_metadata():
    with torch.library._scoped_library("facts_of_operators", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.define("grow(Tensor(a!) x) -> ()")
        ops = torch.ops.facts_of_operators
        assert facts_of(ops.twice.default).may_fail and not facts_of(ops.twice.default).by_metadata
        assert writes(ops.grow, {}) and writes(ops.grow.default, {}) and not writes(ops.twice, {})


def by_convention(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


NAMESPACES = (torch.Tensor, torch._C._VariableFunctions, F, torch._C._nn, torch._C._linalg, torch._C._fft, torch._C._special)
NAMES = sorted({name for namespace in NAMESPACES for name in dir(namespace)})


def test_of_methods_and_functions_that_tell_by_their_names_that_they_write_none_is_missed():
    for name in NAMES:
        if by_convention(name):
            assert writes(name, {}), name


@pytest.mark.parametrize(
    "name", ["sort", "rrelu", "batch_norm", "__int__", "__index__", "__invert__", "__init__", "add", "detach"]
)
def test_others_do_not_write(name):
    assert not writes(name, {})


@pytest.mark.parametrize("name", ["_cummax_helper", "rrelu_with_noise", "record_stream", "__iadd__", "__ior__", "__idiv__"])
def test_some_write_although_their_names_do_not_end_in_an_underscore(name):
    assert writes(name, {})


def test_operators_of_python_that_change_their_left_operand_write():
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "ilshift", "irshift", "iand", "ior"):
        assert writes(getattr(operator, name), {})
    assert writes(operator.setitem, {}) and not writes(operator.getitem, {}) and not writes(operator.index, {})


def test_what_is_given_an_out_writes():
    assert writes("add", {"out": None}) and not writes("add", {})


def test_a_function_of_python_writes_by_its_name():
    def scale_(x):
        return x.mul_(2)

    def scale(x):
        return x * 2

    assert writes(scale_, {}) and not writes(scale, {})


def test_where_an_operation_counts_from_the_storage():
    given = torch.as_strided, "as_strided_", aten.as_strided, aten.as_strided.default, torch.as_strided_copy
    assert {offset_argument(target) for target in given} == {(3, "storage_offset")}
    assert offset_argument("as_strided_scatter") == (4, "storage_offset")
    assert offset_argument("set_") is None and offset_argument("view") is None


def test_a_batch_norm_updates_its_statistics_while_it_trains():
    x, mean, variance = torch.ones(2, 3), torch.zeros(3), torch.ones(3)
    facts = facts_of(aten.native_batch_norm.default)
    training, evaluation = [(x, None, None, mean, variance, each, 0.1, 1e-5) for each in (True, False)]
    assert [id(each) for each in facts.written_tensors(training, {})] == [id(mean), id(variance)]
    assert not list(facts.written_tensors(evaluation, {}))


def test_a_dropout_that_is_switched_off_draws_nothing():
    facts = facts_of(aten.native_dropout.default)
    assert facts.draws((torch.ones(2), 0.5, True), {}) and not facts.draws((torch.ones(2), 0.5, False), {})
    assert argument((1, "p"), (1,), {"p": 0.5}) == 0.5


def test_one_number_may_stand_for_a_list_of_them():
    assert takes_one_for_all(aten.max_pool2d, "kernel_size") and not takes_one_for_all(aten.add, "other")
