"""The metrics for OpenTelemetry: observable instruments, which its readers ask when they export; compiles as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracer import metrics
from tracer.errors import UserError
from tracer.metrics import COMPILE_BOUNDS, Event
from tracer.report.exporters.prometheus import INSTALL
from tracer.report.exporters.readings import METRICS, PREFIX, Metric, Readings


def report_to_opentelemetry(provider: Any = None) -> Callable[[], None]:
    """Exports the metrics of all compiled functions of this process to a `MeterProvider` of OpenTelemetry, by default the one
    of the process (`opentelemetry.metrics.set_meter_provider`).

    They are read when a reader of the provider exports, so that a call that hits costs nothing. The seconds of compiles are
    recorded from now on, as they happen: OpenTelemetry reads no histogram. Each metric has the attribute `function`, the name of
    what was compiled (`compile(fn, name=...)` gives another). Returns what ends the export; the provider keeps the instruments,
    which then have no values. Raises UserError where `opentelemetry-api` is not installed.

    ```python
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    stop = tracer.report_to_opentelemetry(MeterProvider([reader]))
    tracer.compile(torch.nn.Linear(4, 2))(torch.ones(5, 4))
    assert "shapetracer.hits" in str(reader.get_metrics_data())
    stop()
    ```
    """
    try:
        import opentelemetry.metrics  # late: an extra, needed by those who export to it
    except ImportError:
        raise UserError("opentelemetry is not installed", hint=f"{INSTALL}.") from None
    instruments = _Instruments(opentelemetry.metrics)
    instruments.create(opentelemetry.metrics.get_meter(PREFIX, meter_provider=provider))
    return instruments.start()


class _Instruments:
    """`api`: opentelemetry.metrics."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._readings = Readings()
        self._ended = False
        self._seconds: Any = None

    def create(self, meter: Any) -> None:
        kinds = {"counter": meter.create_observable_counter, "gauge": meter.create_observable_gauge}
        for metric in METRICS:
            named = {"name": f"{PREFIX}.{metric.name}", "unit": metric.unit, "description": metric.description}
            if metric.kind == "histogram":
                self._seconds = meter.create_histogram(**named, explicit_bucket_boundaries_advisory=COMPILE_BOUNDS)
            else:
                kinds[metric.kind](**named, callbacks=[self._reading(metric)])

    def start(self) -> Callable[[], None]:
        ends = [self._readings.start(), metrics.add_callback(self._on_compile, "compile")]

        def stop() -> None:
            self._ended = True
            for end in ends:
                end()

        return stop

    def _reading(self, metric: Metric) -> Callable[[Any], Iterator[Any]]:
        def observe(_: Any) -> Iterator[Any]:
            for reading in () if self._ended else self._readings.read():
                for labels, value in metric.values(reading):
                    yield self._api.Observation(value, {"function": reading.function, **dict(zip(metric.labels, labels))})

        return observe

    def _on_compile(self, event: Event) -> None:
        self._seconds.record(event.seconds, {"function": event.region})


__all__ = ["report_to_opentelemetry"]
