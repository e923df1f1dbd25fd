"""Views that an `autograd.Function` gives: of its input, or of what it returns twice. Tensors whose data were exchanged
(`x.data = y`) and leaves that the program makes are treated as such views, because they too lie in the memory of another tensor.

AOTAutograd makes a result that lies in the memory of another one once more, as a view of that; what the function does to
gradients would be lost. It knows the function's very result, where that is a view of an input of the graph.

Models note them while they are traced; `Trace.refuse_results` asks once the results of a graph are known, and breaks the graph,
for backends that do not run it as it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fakes.fake_tensors import storage_of

if TYPE_CHECKING:
    from tracer.graph.output_graph import GraphInput


class FunctionViews:
    """Those of one graph, with the step of the trace that called the function, at which the graph is broken then."""

    def __init__(self) -> None:
        self._views: list[tuple[torch.Tensor, int | None]] = []

    def note(self, fakes: list[torch.Tensor], known: list[torch.Tensor], step: int | None) -> None:
        """What a function gave for `known`."""
        storages = [storage_of(fake) for fake in fakes]
        before = set(map(storage_of, known))
        for fake, storage in zip(fakes, storages):
            new = not any(fake is each for each in known)
            if new and fake.requires_grad and (storage in before or storages.count(storage) > 1):
                self._views.append((fake, step))

    def that_shows(self, results: list[Any], inputs: list[GraphInput]) -> int | None:
        """The step that made one which the graph returns so that a compiler would take it for a plain view."""
        if not self._views:
            return None
        tensors = [each for each in results if isinstance(each, torch.Tensor) and each.layout is torch.strided]
        storages = [storage_of(each) for each in tensors]
        of_inputs = {storage_of(item.fake) for item in inputs if isinstance(item.fake, torch.Tensor)}
        known = {id(view) for view, _ in self._views}
        for view, step in self._views:
            sharing = [each for each, storage in zip(tensors, storages) if storage == storage_of(view)]
            if storage_of(view) in of_inputs:  # the very view may be returned, another view of it may not
                differentiated = [each for each in sharing if id(each) not in known]
            else:
                differentiated = sharing if len(sharing) > 1 else []
            if any(_comes_from(each, view) for each in differentiated):
                return step
        return None

    def clear(self) -> None:
        self._views.clear()


def _comes_from(tensor: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether gradients of a tensor go through what made the view."""
    sought, seen, todo = view.grad_fn, set[Any](), [tensor.grad_fn]
    while todo:
        function = todo.pop()
        if function is sought:
            return sought is not None
        if function is not None and function not in seen:
            seen.add(function)
            todo += [before for before, _ in function.next_functions]
    return False
