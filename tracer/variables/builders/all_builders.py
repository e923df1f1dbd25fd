"""Imports every module of builders, and of the methods that values are given by registration; this registers them."""

from tracer.variables.builders import arrays, callables, containers, iterators, objects  # noqa: F401
from tracer.variables.containers import dict_methods, set_methods  # noqa: F401
