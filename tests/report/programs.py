"""Programs under test, and recordings of them."""

from __future__ import annotations

import torch

import tracer
from tests.support.processes import run_python
from tracer.report import records
from tracer.report.findings import gather


def branching(x):
    y = x * 2
    if x.shape[0] <= 8:
        y = y + 1
    if x.shape[1] % 16 == 0:
        y = y - 1
    if x.shape[1] > 100:
        y = torch.relu(y)
    return y.sum(1)


def shouting(x):
    print("<script>mean</script>", x.shape)
    return x + 1


def breaking(x):
    return shouting(x * 2) * 3


def recorded(directory, do):
    """The recording of `do()`, read back."""
    stop = tracer.record(directory)
    try:
        do()
    finally:
        stop()
    return records.read(directory)


def found(directory, do):
    return gather(recorded(directory, do))


def eight_regions(calls=40):
    """Eight entries, proved to cover the domain, and calls of many shapes."""
    made = tracer.compile(branching, shapes="x: B, S; B in 1..64; S in 1..400", recompile_limit=32)
    certificate = tracer.precompile(made, example=(torch.randn(3, 5),))
    assert certificate.certified
    for n in range(calls):
        made(torch.empty(1 + 7 * n % 64, 1 + (37 * n % 400) if n % 3 else 16 * (1 + n % 25)))
    return made


def run(program, directory, **more):
    """A process of its own, with TRACER_REPORT in its environment."""
    return run_python(program, TRACER_REPORT=str(directory), **more)
