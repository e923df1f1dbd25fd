"""Imports every module of models of torch, which registers them."""

from tracer.library.torch_ import answers, autograd_, compiling, creation, metadata, modules, numbers, overrides, state  # noqa: F401
