"""What the tracer did, kept in files and shown as a page: `TRACER_REPORT=DIR`, then `python -m tracer report DIR`.

`recorder` writes and `contents` words the records; `records` says what they are, `findings` gathers them by function, and `page`
with `timeline` and `shape_space` makes one HTML file of them. Nothing of the pipeline knows this room.
"""
