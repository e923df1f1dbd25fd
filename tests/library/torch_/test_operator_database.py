"""Every operator of torch's own database, on its CPU samples of float32 and int64: traced equals eager, to the bit.

Static and with all dims dynamic. `operators_that_break.txt` holds the operators that are not captured as one graph, each with
its reason; one that starts to be captured fails until its line goes.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal import common_methods_invocations as database
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.support import check_made
from tests.support.comparing import Comparison, deep_copied
from tracer import config
from tracer.metrics import counters
from tracer.protocol import inlining

DTYPES = (torch.float32, torch.int64)
EXPECTED_TO_BREAK = {
    name.strip(): reason.strip()
    for name, _, reason in (
        line.partition(":") for line in (Path(__file__).parent / "operators_that_break.txt").read_text().splitlines()
    )
    if name.strip() and not name.startswith("#")
}
NOT_REPEATABLE = {"linalg.lstsq"}
UNINITIALISED = set("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split())


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPERATORS = {name_of(op): op for op in database.op_db}


@pytest.fixture
def samples_are_the_users_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lambdas of the database are traced through; its seeding, which `check` does itself, is left out."""
    monkeypatch.setattr(inlining, "_OPAQUE", inlining._OPAQUE - {"torch.testing"})
    monkeypatch.setattr(database, "wrapper_set_seed", lambda op, *args, **kwargs: op(*args, **kwargs))
    inlining.is_opaque_module.cache_clear()
    captures = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with config.patch(accumulated_recompile_limit=10**9, **captures), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    inlining.is_opaque_module.cache_clear()


class MetadataOnly(Comparison):
    """For operators whose values are whatever the memory held."""

    def _tensor(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        for what in ("dtype", "shape", "device", "requires_grad", "layout"):
            assert getattr(expected, what) == getattr(seen, what), f"{path}.{what}"
        assert expected.stride() == seen.stride(), path


class Approximately(Comparison):
    """For operators of which eager itself gives other last bits from run to run (LAPACK, by where the memory lies)."""

    def _tensor(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        torch.testing.assert_close(seen, expected, msg=lambda text: f"{path}: {text}")


def comparison_for(op: Any) -> type[Comparison]:
    return MetadataOnly if op.name in UNINITIALISED else Approximately if op.name in NOT_REPEATABLE else Comparison


def samples(op: Any, dtype: torch.dtype, most: int) -> list[Any]:
    if dtype not in op.supported_dtypes("cpu"):
        return []
    return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), most))


def copied(values: Any) -> Any:
    """As new, views of one tensor still views of one; sparse tensors, which deepcopy does not know, cloned."""
    if any(isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided for leaf in tree_leaves(values)):
        return tree_map_only(torch.Tensor, torch.clone, values)
    return deep_copied(values)


def _arguments(values: Any) -> tuple[Any, dict[str, Any]]:
    return copied(values), {}


def trouble(name: str, most: int) -> str:
    """Why an operator is not captured as one graph, or nothing; a result that differs from eager's is an error at once."""
    op, found, skipped = OPERATORS[name], "", counters["frames"]["skipped"]
    function = op.get_op()

    def program(value: Any, args: Any, kwargs: Any) -> Any:
        return function(value, *args, **kwargs)

    compare = comparison_for(op)
    for dtype, dynamic in itertools.product(DTYPES, (None, True)):
        for sample in samples(op, dtype, most):
            values = (sample.input, list(sample.args), dict(sample.kwargs))
            make = functools.partial(_arguments, values)
            checked = check_made(program, make, dynamic=dynamic, calls=1, comparison=compare)
            if checked.breaks:
                found = found or f"{checked.breaks[0].id}"
    return found or ("skipped" if counters["frames"]["skipped"] > skipped else "")


def judge(name: str, most: int) -> None:
    found = trouble(name, most)
    expected = EXPECTED_TO_BREAK.get(name)
    assert not (found and expected is None), f"{name} is not captured: {found}"
    assert found or expected is None, f"{name} is captured now: its line in operators_that_break.txt can go"


@pytest.mark.full
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name, samples_are_the_users_own):
    judge(name, 12)


@pytest.mark.parametrize("name", list(OPERATORS)[::29])
def test_every_twenty_ninth_operator(name, samples_are_the_users_own):
    judge(name, 2)


def test_few_operators_break_and_each_has_a_reason():
    assert set(EXPECTED_TO_BREAK) <= set(OPERATORS)
    assert len(EXPECTED_TO_BREAK) <= 0.05 * len(OPERATORS)
    assert all(len(reason.split()) >= 4 for reason in EXPECTED_TO_BREAK.values())
