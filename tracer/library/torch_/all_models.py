"""Imports every module of models of torch, which registers them."""

from tracer.library.torch_ import compiling, metadata, numbers, overrides, state  # noqa: F401
