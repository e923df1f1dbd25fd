"""Exceptions and exception groups: making, raising and chaining them as CPython does."""
