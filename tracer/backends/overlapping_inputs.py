"""Inputs that lie in the same memory, which the graph writes to.

AOTAutograd gives its graph one tensor in their place, which it looks for in each call: the tensor that autograd knows them to be
views of, or else their whole memory as a vector. The code is compiled for the latter: the tracer's guards say how the inputs
overlap, and not what they are views of. So they are passed on as tensors that are views of nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import Compiled, unchanged
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.output_graph import EXAMPLE


def as_views_of_nothing(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """A function that wraps the compiled graph, such that inputs which share memory that is written to arrive without a base.
    (Where they require a gradient, AOTAutograd refuses the graph.)"""
    inputs = [node.meta.get(EXAMPLE) for node in graph.nodes if node.op == "placeholder"]
    places = [index for index, example in enumerate(inputs) if _overlaps_where_written(example)]
    return functools.partial(_around, tuple(places)) if places else unchanged


def _overlaps_where_written(example: Any) -> bool:
    if not isinstance(example, torch.Tensor) or isinstance(example, WrapperFake) or example.layout != torch.strided:
        return False
    mode, storage = getattr(example, "fake_mode", None), storage_of(example)
    return storage in getattr(mode, "shared_storages", ()) and storage in getattr(mode, "written_storages", ())


def _around(places: tuple[int, ...], compiled: Compiled) -> Compiled:
    return functools.partial(_call, places, compiled)


def _call(places: tuple[int, ...], compiled: Compiled, *args: Any) -> Any:
    given = list(args)
    apart = [place for place in places if not given[place].requires_grad]
    for place in apart:
        given[place] = given[place].detach()
    results = compiled(*given)
    counting = [args[place] for place in apart if not args[place].is_inference()]
    torch.autograd.graph.increment_version(counting)  # AOTAutograd has written to a tensor of its own in the same memory
    return results
