"""explain: graphs, breaks, guards and operations of one call."""

from __future__ import annotations

import torch

import tracer

X = torch.ones(3)


def breaks_once(x):
    y = x.sin() + 1
    tracer.graph_break("for the report")
    return y.cos() * 2


def test_explain_counts_graphs_breaks_and_operations():
    report = tracer.explain(breaks_once)(X)
    assert (report.graph_count, report.graph_break_count, report.op_count) == (2, 1, 4)
    assert [len(ops) for ops in report.ops_per_graph] == [2, 2]
    assert torch.equal(report.result, breaks_once(X))
    assert report.out_guards


def test_explain_prints_a_report():
    text = str(tracer.explain(breaks_once)(X))
    assert "Graphs: 2, graph breaks: 1, operations: 4" in text
    assert "Graph 1: sin, add" in text and "for the report" in text and "test_explain.py" in text


def test_explain_takes_decorated_functions_and_modules():
    report = tracer.explain(tracer.compile(breaks_once))(X)
    assert report.graph_count == 2
    assert tracer.explain(torch.nn.Linear(3, 3))(X).graph_count == 1


def test_explain_leaves_the_regions_of_the_function_alone(graphs):
    fn = tracer.optimize(graphs.backend)(breaks_once)
    tracer.explain(fn)(X)
    assert len(graphs) == 0 and tracer.region_of(fn).entries() == []


def test_counters_tell_how_many_frames_and_calls_were_captured():
    tracer.counters.clear()
    tracer.compile(lambda x: x.sin() + 1)(torch.ones(2))
    assert tracer.counters["frames"] == {"total": 1, "ok": 1}
    assert tracer.counters["stats"] == {"unique_graphs": 1, "calls_captured": 2}
