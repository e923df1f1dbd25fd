"""Records what the tracer does in files, and shows them as a page: `TRACER_REPORT=DIR`, then `python -m tracer report DIR`.

`recorder` writes records, whose content `contents` makes; `records` reads them, `findings` groups them by function, and `page`
makes one HTML file of them, with `timeline`, `shape_space` and the sections of functions. `live` serves that page while more is
recorded. `exporters` hands metrics to Prometheus and OpenTelemetry.
"""
