"""Records what the tracer does in files, and shows them as a page: `TRACER_REPORT=DIR`, then `python -m tracer report DIR`.

`recorder` writes records, whose content `contents` makes; `records` reads them, `findings` groups them by function, and `page`
with `timeline` and `shape_space` makes one HTML file of them.
"""
