"""Measurements of the tracer beside torch.compile, in one process and one run; `demo` is what `make demo` shows."""
