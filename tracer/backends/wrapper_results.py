"""Results that are wrappers whose context has symbolic numbers leave a compiled graph in parts, and are put together behind it.

AOTAutograd puts a result together with the context of the compile, whose numbers would be those of the first call. Where a result
requires a gradient, its history belongs to the wrapper, and it cannot be taken apart: the numbers are constants then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import Compiled, unchanged
from tracer.backends.written_wrappers import maker, take_apart_written
from tracer.graph.fakes.flattened import Form, found_at
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.output_graph import EXAMPLE


def take_wrappers_apart(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """Takes apart the results of a graph that need it, and the inputs that it writes to. Returns the new example inputs, and a
    function that wraps the compiled graph: it takes the inputs, and gives the results, of before."""
    put_together = take_results_apart(graph)
    examples, taken_apart = take_apart_written(graph, examples)
    return examples, lambda compiled: put_together(taken_apart(compiled))


def take_results_apart(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """Replaces such results of a graph by what they are made of. Returns a function that wraps the compiled graph: it puts them
    together. The nodes still have the fakes of the trace."""
    returned: Any = graph.output_node().args[0]
    nodes = [node for node in returned if isinstance(node, fx.Node)] if isinstance(returned, (list, tuple)) else []
    forms = {node: form for node in nodes if (form := _form_with_numbers(node)) is not None}
    if not forms:
        return unchanged
    parts: list[fx.Node] = []
    made: dict[fx.Node, tuple[Callable[..., torch.Tensor], int, int]] = {}  # with where its parts begin and end
    with graph.inserting_before(graph.output_node()):
        for node, form in forms.items():
            start = len(parts)
            parts += _taken_apart(graph, node, form)
            made[node] = _maker(node, form), start, len(parts)
    places = [made.get(node) for node in returned]
    kept = [node for node in returned if node not in made]
    graph.output_node().args = ((*kept, *parts),)
    count = len(kept)

    def around(compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            results = list(compiled(*args))
            others, inside = iter(results[:count]), results[count:]
            known: dict[int, torch.Tensor] = {}  # a result that is returned twice is one object
            found = []
            for place in places:
                if place is None:
                    found.append(next(others))
                    continue
                make, start, end = place
                if start not in known:
                    known[start] = make(*inside[start:end])
                found.append(known[start])
            return found

        return run

    return around


def _form_with_numbers(node: fx.Node) -> Form | None:
    example = node.meta.get(EXAMPLE)
    if node.op == "placeholder" or not isinstance(example, WrapperFake) or example.form is None or example.requires_grad:
        return None
    return example.form if example.form.places else None


def _taken_apart(graph: fx.Graph, node: fx.Node, form: Form) -> list[fx.Node]:
    """The nodes of the tensors inside, of the numbers in the context, and of the sizes and strides."""
    example = node.meta[EXAMPLE]
    parts = [graph.call_function(getattr, (node, name)) for name in form.names]
    numbers = [graph.call_function(_number_in_context(path), (node,)) for path in form.places]
    sizes = [graph.call_method(method, (node, dim)) for method in ("size", "stride") for dim in range(example.dim())]
    return [*parts, *numbers, *sizes]


def _maker(node: fx.Node, form: Form) -> Callable[..., torch.Tensor]:
    example: WrapperFake = node.meta[EXAMPLE]
    cls, dims, names, places = example.wrapper, example.dim(), len(form.names), len(form.places)

    def make(*parts: Any) -> torch.Tensor:
        inner, numbers, sizes = parts[:names], parts[names : names + places], parts[names + places :]
        with torch._C.DisableTorchFunctionSubclass():
            return maker(cls, form.names, form.context, sizes[:dims], sizes[dims:])(*inner, *numbers)

    return make


def _number_in_context(path: tuple[Any, ...]) -> Callable[[Any], Any]:
    def number(wrapper: Any) -> Any:
        return found_at(wrapper.__tensor_flatten__()[1], path)

    return number
