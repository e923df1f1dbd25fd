"""Imports every module that registers builders, or methods of tracked values."""

from tracer.variables.builders import arrays, callables, containers, iterators, objects  # noqa: F401
from tracer.variables.containers import dict_methods, set_methods  # noqa: F401
