"""Time to a certificate, beside what torch.compile spends on compiling for the same shapes: `python -m benchmarks.certificates`.

The certificate is for every batch and length of the domain; torch.compile gets random requests of it, with backend "eager" too,
once as it is and once with dynamic=True. Times are CPU seconds of the process.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import torch

import tracer
from benchmarks import served_models
from benchmarks.demo_models import MODELS, Request, build

SPEC = "input_ids: B, S; attention_mask: B, S; B in 1..{batch}; S in 1..{length}"


def requests(batch: int, length: int, count: int) -> list[Request]:
    draw = random.Random(0)
    return [Request(draw.randint(1, batch), draw.randint(1, length), seed) for seed in range(count)]


def certificate(name: str, layers: int, batch: int, length: int, asked: list[Request]) -> str:
    compiled = tracer.compile(build(name, layers, length))
    started = time.process_time()
    found = tracer.precompile(compiled, SPEC.format(batch=batch, length=length), kwargs=Request(3, 7, 0).inputs())
    seconds = time.process_time() - started
    entries = len(found.covering)
    compiled.seal()
    for request in asked:
        compiled(**request.inputs())
    later = tracer.stats(compiled)["compiles"] - entries
    return f"{found.status} in {seconds:.1f} s, {entries} entries; {later} compiles in requests"


def peer(name: str, layers: int, length: int, asked: list[Request], dynamic: bool | None) -> str:
    """The time is that of the calls that compiled, in which the request itself runs too."""
    torch._dynamo.reset()
    compiles: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        compiles.append(len(compiles))
        return gm.forward

    compiled = torch.compile(build(name, layers, length), backend=backend, dynamic=dynamic)
    seconds, late = 0.0, 0
    for number, request in enumerate(asked):
        inputs, before = request.inputs(), len(compiles)
        started = time.process_time()
        compiled(**inputs)
        if len(compiles) > before:
            seconds += time.process_time() - started
            late = number
    return f"{len(compiles)} compiles in {seconds:.1f} s, the last in request {late}; nothing is proved"


# -- pictures, in more sizes than two --------------------------------------------------------------------------------------

OF_MANY_SIZES = ("resnet", "vit", "unet")


def certificate_of_many_sizes(name: str) -> str:
    (kind,) = served_models.SERVED[name].kinds
    compiled = tracer.compile(served_models.build(name))
    started = time.process_time()
    found = tracer.precompile(compiled, kind.spec, kwargs=kind.inputs(**kind.example))
    return f"{found.status} in {time.process_time() - started:.1f} s, {len(found.covering)} entries, by {found.domain}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--of-many-sizes", nargs="*", default=OF_MANY_SIZES, choices=OF_MANY_SIZES)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--requests", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    asked = requests(args.batch, args.length, args.requests)
    with torch.no_grad():
        for name in args.of_many_sizes:
            print(f"{name}: {certificate_of_many_sizes(name)}", flush=True)
        for name in args.models:
            certificate(name, 1, 8, 8, [])  # what a first compile loads, on both sides
            peer(name, 1, args.length, asked[:2], None)
            print(f"{name}, {args.layers} layers, B 1..{args.batch}, S 1..{args.length}, {len(asked)} random requests")
            print(f"  this tracer                  {certificate(name, args.layers, args.batch, args.length, asked)}", flush=True)
            for dynamic in (None, True):
                told = peer(name, args.layers, args.length, asked, dynamic)
                print(f"  torch.compile(dynamic={dynamic!s:4})   {told}", flush=True)


if __name__ == "__main__":
    main()
