"""What an installed shapetracer has to be able to do; run outside of the tree, with the folder that it has to be installed in."""

import importlib.metadata
import importlib.resources
import sys
import tempfile
from pathlib import Path

import torch

import shapes
import tracer

for package in (tracer, shapes):
    assert Path(package.__file__).resolve().is_relative_to(sys.argv[1]), f"{package.__file__} is not the installed one"
    assert importlib.resources.files(package).joinpath("py.typed").is_file()
assert importlib.metadata.version("shapetracer") == tracer.__version__


@tracer.optimize(fullgraph=True)
def scaled(a, b):
    return a.shape[0] * a * b


with tempfile.TemporaryDirectory() as folder:
    stop = tracer.record(folder)
    for n in (4, 8, 16):
        a, b = torch.randn(n), torch.randn(n)
        assert torch.equal(scaled(a, b), n * a * b)
    assert len(tracer.region_of(scaled).entries()) == 2
    stop()

    from tracer.report.page import write

    assert "<style>" in write(folder).read_text()

certificate = tracer.precompile(
    tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, C; B in 1..64; C in 1..64"), example=(torch.randn(3, 4),)
)
assert certificate.certified, certificate
