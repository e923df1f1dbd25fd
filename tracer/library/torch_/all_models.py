"""Imports every module of models of torch, which registers them."""

from tracer.library.torch_ import compiling, state  # noqa: F401
