"""Random programs, run by CPython and traced, must leave the same behind. `python -m tests.fuzz` runs many."""

FILE = "<generated program>"
