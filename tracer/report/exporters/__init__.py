"""Metrics of compiled functions for Prometheus and OpenTelemetry, by the client library of each, and a dashboard for Grafana.

`readings` says what there is and reads it from the counters that regions keep; `prometheus` and `opentelemetry` hand it over when
they are asked, so that a call that hits pays nothing. `grafana.json` is the dashboard.
"""
