"""The zoo: each model gives one graph where torch.compile does, whatever the batch, and eager's very results."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks import zoo, zoo_report
from benchmarks.zoo_models import ZOO
from benchmarks.zoo_models.registry import Model

QUICK = ["mlp", "distilbert", "vit"]


@pytest.mark.parametrize("name", QUICK)
def test_one_graph_for_all_batches(name):
    row = zoo.run_one(ZOO[name], peer=False)
    assert row.ours.error == "" and row.ours.breaks == []
    assert (row.ours.graphs, row.ours.compiled, row.ours.entries) == (1, 2, 2)  # a batch of 1, and all others
    assert row.ours.difference == 0 and row.ours.random_state_equal
    assert row.verdict == "one graph"


@pytest.mark.full
@pytest.mark.parametrize("name", ZOO)
def test_as_good_as_torch_compile(name):
    model = ZOO[name]
    if not zoo.is_there(model):
        pytest.skip(f"pip install 'shapetracer[zoo]' brings {model.needs}")
    row = next(zoo.rows([model], peer=True))
    assert row.is_good, f"{zoo_report.line(row)}\n{zoo_report.details(row)}"


def test_forty_models_of_a_dozen_families():
    assert len(ZOO) >= 40
    assert len({model.family for model in ZOO.values()}) >= 12


def test_a_difference_is_seen():
    x = torch.ones(3)
    assert zoo.difference({"a": x}, {"a": x.clone()}) == 0
    assert zoo.difference({"a": x}, {"a": x + 2}) == 2
    assert math.isnan(zoo.difference({"a": x}, {"b": x}))
    assert math.isnan(zoo.difference([x], (x,)))
    assert math.isnan(zoo.difference([x, 1], [x, 2]))
    assert math.isnan(zoo.difference(x, x.double()))
    assert zoo.difference(x * math.nan, x * math.nan) == 0


def row(**fields):
    return zoo.Row("a", "b", zoo.Run(**fields), zoo.Run(graphs=1, compiled=2))


def test_verdicts():
    assert row(graphs=1, compiled=2).verdict == "one graph"
    assert row(graphs=1, compiled=3).verdict == "more recompiles"
    assert row(graphs=2, compiled=2).verdict == "more breaks"
    assert row(graphs=1, compiled=2, breaks=["here"]).verdict == "more breaks"
    assert row(graphs=1, compiled=2, difference=1e-9).verdict == "differs"
    assert row(graphs=1, compiled=2, difference=math.nan).verdict == "differs"
    assert zoo.Row("a", "b", zoo.Run(difference=1e-9), zoo.Run(), apart=0.0).verdict == "as torch.compile"
    assert zoo.Row("a", "b", zoo.Run(difference=1e-9), zoo.Run(), apart=1e-9).verdict == "differs"
    assert row(graphs=1, compiled=2, random_state_equal=False).verdict == "differs"
    assert row(error="TypeError").verdict == "crash"
    assert not row(error="TypeError").is_good


class AskingWhetherItIsCompiled(torch.nn.Module):
    def forward(self, x):
        return x + 2 if torch.compiler.is_compiling() else x + 1


def test_where_results_differ_from_eager_torch_compile_runs_too():
    model = Model("asking", "toy", lambda: (AskingWhetherItIsCompiled(), lambda n: {"x": torch.ones(n, 3)}))
    row = zoo.run_one(model, peer=False)
    assert (row.ours.difference, row.apart, row.verdict) == (1, 0, "as torch.compile")


def test_the_table_has_a_line_for_each_model():
    text = zoo_report.markdown([row(graphs=1, compiled=2, all_calls=1.0), row(error="TypeError")])
    assert "2 models: 1 one graph, 1 crash." in text
    assert text.count("| a | b |") == 2


def test_a_model_that_is_not_in_the_zoo():
    with pytest.raises(SystemExit, match="No model nessie in the zoo. It has: bert"):
        zoo.main(["nessie"])
