"""What Prometheus and OpenTelemetry are told of compiled functions, and the dashboard that shows it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import pytest
import torch

import tracer
from tests.support import collect_garbage
from tracer.__main__ import main
from tracer.exc import SealedError, UserError
from tracer.metrics import Histogram
from tracer.report.exporters import readings
from tracer.report.exporters.prometheus import prometheus_name
from tracer.report.exporters.readings import METRICS, Readings


def needs(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install 'shapetracer[metrics]'")


def plus_one(x):
    return x + 1 if x.shape[0] <= 8 else x + 2


OWN = [""]  # the name for what the running test compiles


@pytest.fixture(autouse=True)
def own_name(request):
    OWN[0] = request.node.name


def compiled(name=""):
    return tracer.compile(plus_one, shapes="x: B, S; B in 1..64; S in 1..64", name=name or OWN[0])


def refused(made, *args):
    with pytest.raises(SealedError):
        made(*args)


def served_and_refused(name=""):
    """A sealed function with a certificate, five hits, and misses of two kinds."""
    made = compiled(name)
    assert tracer.precompile(made, example=torch.ones(3, 5)).certified
    made.seal()
    for size in (2, 3, 9, 20, 40):
        made(torch.ones(size, 4))
    for _ in range(2):
        refused(made, torch.ones(3, 5, dtype=torch.float64))
    refused(made, torch.ones(65, 5))
    return made


@pytest.fixture
def reading():
    """Reads what is exported for one name."""
    found = Readings()
    stop = found.start()
    yield lambda name="": next((each for each in found.read() if each.function == (name or OWN[0])), None)
    stop()


# -- what is read -------------------------------------------------------------------------------------------------


def test_hits_misses_compiles_entries_and_the_certificate_of_a_function_are_read(reading):
    made = served_and_refused()
    seen = reading()
    assert (seen.hits, seen.misses, seen.entries) == (5, {"guards": 2, "undeclared": 1}, 2)
    assert sum(seen.compiles.counts) == made.stats()["compiles"] and seen.compiles.sum > 0
    assert seen.certified and seen.sealed and seen.evictions == 0


def test_a_certificate_that_the_model_does_not_keep_is_not_told(reading):
    model = torch.nn.Linear(4, 2).eval()
    made = tracer.compile(model, shapes="input: B, _; B in 1..64", name=OWN[0])
    tracer.precompile(made, example=torch.ones(3, 4))
    assert reading().certified and not reading().sealed
    model.double()
    assert not reading().certified


def test_what_is_compiled_under_one_name_is_counted_together_and_a_name_tells_it_apart(reading):
    every = [compiled(), compiled(), compiled("other")]
    for made in every:
        for _ in range(3):
            made(torch.ones(3, 5))
    assert reading().hits == 4 and reading().misses == {"no entry": 2} and reading("other").hits == 2
    tracer.precompile(every[0], example=torch.ones(3, 5))
    assert not reading().certified  # the other one of that name is not


def test_counts_never_fall_when_entries_and_functions_go(reading):
    made, stays = compiled(), compiled()
    for _ in range(4):
        made(torch.ones(3, 5))
        stays(torch.ones(3, 5))
    assert reading().hits == 6
    tracer.region_of(made).reset()
    made(torch.ones(3, 5))
    made(torch.ones(3, 5))
    before = reading()
    assert before.hits == 7 and made.stats()["hits"] == 4 and before.entries == 2
    counted = before.hits, before.misses, before.compiles.sum
    del made, before
    collect_garbage()
    after = reading()
    assert (after.hits, after.misses, after.compiles.sum) == counted and after.entries == 1


def test_the_hits_of_an_entry_whose_object_died_are_still_counted():
    table = torch.nn.Linear(4, 2)

    def looked_up(x):
        return holder[0](x)

    holder = [table]
    made = tracer.compile(looked_up)
    for _ in range(3):
        made(torch.ones(3, 4))
    assert made.stats()["hits"] == 2
    holder[0] = torch.nn.Sequential(torch.nn.Linear(4, 2))
    del table
    collect_garbage()
    made(torch.ones(3, 4))
    assert made.stats()["hits"] == 2


def test_evictions_are_counted(reading):
    made = tracer.compile(plus_one, capacity=1, name=OWN[0])
    made(torch.ones(3, 5))
    made(torch.ones(3))
    assert reading().evictions == 1 and reading().entries == 1


def test_misses_from_before_the_export_have_no_reason():
    made = compiled("early")
    made(torch.ones(3, 5))
    found = Readings()
    stop = found.start()
    made(torch.ones(3, 5, dtype=torch.float64))
    stop()
    made(torch.ones(3, 5, dtype=torch.float16))  # not any more
    (seen,) = [each for each in found.read() if each.function == "early"]
    assert seen.misses == {"other": 1, "guards": 1}


def test_a_flood_of_bad_requests_is_counted_without_looking_for_each_reason(reading, monkeypatch):
    made = served_and_refused()
    before = reading().misses.total()
    monkeypatch.setattr(readings, "MOST_NEW_CAUSES", 3)
    monkeypatch.setattr(readings.time, "monotonic", lambda: -5.0)
    for size in range(100, 120):
        refused(made, torch.ones(size, 5))
    assert reading().misses.total() == before + 20 and reading().misses["other"] == 17
    refused(made, torch.ones(100, 5))  # a cause that is known
    assert reading().misses["other"] == 17


def test_a_hit_runs_no_code_of_an_exporter(reading):
    made = served_and_refused()
    (entry, *_) = tracer.region_of(made).entries()
    assert entry.check_fn is entry.guarded_code.manager.check_fn and entry.latencies is None


def test_a_histogram_counts_each_value_up_to_its_bound():
    seconds = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        seconds.note(value)
    assert seconds.cumulative() == [(1.0, 2), (2.0, 3), (float("inf"), 4)] and seconds.sum == 10.0


# -- Prometheus ---------------------------------------------------------------------------------------------------


@pytest.fixture
def scraped():
    needs("prometheus_client")
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    stop = tracer.report_to_prometheus(registry)
    yield lambda: prometheus_client.generate_latest(registry).decode()
    stop()
    assert not prometheus_client.generate_latest(registry)


def test_prometheus_scrapes_each_metric_by_the_users_name(scraped):
    made = served_and_refused("ranker")
    text = scraped()
    for line in (
        'shapetracer_hits_total{function="ranker"} 5.0',
        'shapetracer_misses_total{function="ranker",reason="guards"} 2.0',
        'shapetracer_misses_total{function="ranker",reason="undeclared"} 1.0',
        'shapetracer_compile_duration_seconds_bucket{function="ranker",le="+Inf"} 2.0',
        'shapetracer_compile_duration_seconds_count{function="ranker"} 2.0',
        'shapetracer_entries{function="ranker"} 2.0',
        'shapetracer_evictions_total{function="ranker"} 0.0',
        'shapetracer_certified{function="ranker"} 1.0',
        'shapetracer_sealed{function="ranker"} 1.0',
    ):
        assert line in text.splitlines(), text
    made(torch.ones(3, 5))
    assert 'shapetracer_hits_total{function="ranker"} 6.0' in scraped()


def test_a_module_has_the_name_of_its_class(scraped):
    model = torch.nn.Linear(4, 2)
    made = tracer.compile(model)
    made(torch.ones(3, 4))
    assert re.search(r'shapetracer_entries{function="Linear"} \d', scraped())


def test_a_missing_client_library_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    for report in (tracer.report_to_prometheus, tracer.report_to_opentelemetry):
        with pytest.raises(UserError, match=r"pip install 'shapetracer\[metrics\]'"):
            report()


# -- OpenTelemetry ------------------------------------------------------------------------------------------------


def test_opentelemetry_collects_the_same_metrics():
    needs("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    stop = tracer.report_to_opentelemetry(MeterProvider([reader]))
    made = served_and_refused("scorer")

    def collected():
        found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        return {
            (metric.name, *point.attributes.values()): point
            for metric in found
            for point in metric.data.data_points
            if point.attributes["function"] == "scorer"
        }

    points = collected()
    assert {name for name, *_ in points} == {f"shapetracer.{metric.name}" for metric in METRICS}
    compiles = points.pop(("shapetracer.compile.duration", "scorer"))
    assert compiles.count == 2 and compiles.sum > 0 and compiles.explicit_bounds == Histogram().bounds
    assert {name: point.value for name, point in points.items()} == {
        ("shapetracer.hits", "scorer"): 5,
        ("shapetracer.misses", "scorer", "guards"): 2,
        ("shapetracer.misses", "scorer", "undeclared"): 1,
        ("shapetracer.entries", "scorer"): 2,
        ("shapetracer.evictions", "scorer"): 0,
        ("shapetracer.certified", "scorer"): 1,
        ("shapetracer.sealed", "scorer"): 1,
    }
    stop()
    made(torch.ones(3, 5))
    data = reader.get_metrics_data()
    assert data is None or "shapetracer.hits" not in data.to_json()


# -- the dashboard ------------------------------------------------------------------------------------------------


def test_the_dashboard_names_metrics_and_labels_that_are_exported(capsys):
    assert main(["dashboard"]) == 0
    board = json.loads(capsys.readouterr().out)
    exported = {}
    for metric in METRICS:
        suffixes = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}[metric.kind]
        for suffix in suffixes:
            exported[prometheus_name(metric) + suffix] = {"function", *metric.labels, *(["le"] if suffix == "_bucket" else [])}
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    named = set()
    for expression in asked:
        metrics = set(re.findall(r"shapetracer_\w+", expression))
        assert metrics and metrics <= exported.keys(), expression
        labels = {"job"}.union(*map(exported.get, metrics))  # Prometheus adds the job
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert set(group.split(", ")) <= labels, expression
        assert set(re.findall(r"(\w+)=~", expression)) <= labels, expression
        named |= metrics
    assert {name.removesuffix("_count").removesuffix("_bucket").removesuffix("_sum") for name in named} == {
        prometheus_name(metric) + ("_total" if metric.kind == "counter" else "") for metric in METRICS
    }


def test_panels_of_the_dashboard_have_ids_of_their_own_and_do_not_overlap(capsys):
    main(["dashboard"])
    panels = json.loads(capsys.readouterr().out)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (column, row)
        for at in (panel["gridPos"] for panel in panels)
        for column in range(at["x"], at["x"] + at["w"])
        for row in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)) and max(column for column, _ in cells) < 24
