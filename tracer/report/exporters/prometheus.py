"""The metrics for Prometheus: a collector for `prometheus_client`, which reads them when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracer.errors import UserError
from tracer.report.exporters.readings import METRICS, PREFIX, Metric, Reading, Readings

INSTALL = "pip install 'shapetracer[metrics]'"


def report_to_prometheus(registry: Any = None) -> Callable[[], None]:
    """Exports the metrics of all compiled functions of this process to a registry of `prometheus_client`, by default its own.

    They are read when the registry is collected, so that a call that hits costs nothing. Serve them as any others of the
    process, with `prometheus_client.start_http_server(port)` or `make_asgi_app()`. Each has the label `function`, the name of
    what was compiled (`compile(fn, name=...)` gives another). Returns what ends the export. Raises UserError where
    `prometheus_client` is not installed; ValueError, of the registry, where something else has these names.

    ```python
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    stop = tracer.report_to_prometheus(registry)
    model = tracer.compile(torch.nn.Linear(4, 2), name="encoder")
    for _ in range(3):
        model(torch.ones(5, 4))
    assert 'shapetracer_hits_total{function="encoder"} 2.0' in prometheus_client.generate_latest(registry).decode()
    stop()
    ```
    """
    try:
        import prometheus_client.core  # late: an extra, needed by those who export to it
    except ImportError:
        raise UserError("prometheus_client is not installed", hint=f"{INSTALL}.") from None
    to = prometheus_client.REGISTRY if registry is None else registry
    collector = _Collector(prometheus_client.core)
    to.register(collector)
    end = collector.readings.start()

    def stop() -> None:
        end()
        to.unregister(collector)

    return stop


def prometheus_name(metric: Metric) -> str:
    """`shapetracer_compile_duration_seconds`; Prometheus appends `_total` to counters."""
    return f"{PREFIX}_{metric.name.replace('.', '_')}" + ("_seconds" if metric.unit == "s" else "")


class _Collector:
    """What a registry asks. `core`: prometheus_client.core."""

    def __init__(self, core: Any) -> None:
        self._families = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        self.readings = Readings()

    def describe(self) -> list[Any]:
        """The names, so that registering it collects nothing."""
        return [self._family(metric) for metric in METRICS]

    def collect(self) -> Iterator[Any]:
        readings = self.readings.read()
        for metric in METRICS:
            family = self._family(metric)
            for reading in readings:
                _add(family, metric, reading)
            yield family

    def _family(self, metric: Metric) -> Any:
        return self._families[metric.kind](prometheus_name(metric), metric.description, labels=["function", *metric.labels])


def _add(family: Any, metric: Metric, reading: Reading) -> None:
    for labels, value in metric.values(reading):
        values = [reading.function, *labels]
        if metric.kind == "histogram":
            buckets = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in value.cumulative()]
            family.add_metric(values, buckets, value.sum)
        else:
            family.add_metric(values, value)


__all__ = ["INSTALL", "prometheus_name", "report_to_prometheus"]
