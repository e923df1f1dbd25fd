"""Views that an `autograd.Function` returns: of an input, or two results in the same memory. Tensors whose data were exchanged
(`x.data = y`) and leaves that the program makes are treated as such views, because they too lie in the memory of another tensor.

AOTAutograd does not return such a view itself: it returns a new view of the other tensor, and the function's rule for gradients
is lost. Only where the view lies in the memory of an input of the graph may the very result of the function be returned.

Models note these views while they are traced. `Trace.refuse_results` asks for them once the results of a graph are known, and
breaks the graph for backends that do not run it as it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fakes.fake_tensors import storage_of

if TYPE_CHECKING:
    from tracer.graph.output_graph import GraphInput


class FunctionViews:
    """The views of one graph, each with the step of the trace that called the function: there the graph breaks if need be."""

    def __init__(self) -> None:
        self._views: list[tuple[torch.Tensor, int | None]] = []

    def __len__(self) -> int:
        return len(self._views)

    def note(self, fakes: list[torch.Tensor], known: list[torch.Tensor], step: int | None) -> None:
        """Notes which of the results `fakes` of a function are such views; `known` are its arguments."""
        storages = [storage_of(fake) for fake in fakes]
        before = set(map(storage_of, known))
        for fake, storage in zip(fakes, storages):
            new = not any(fake is each for each in known)
            if new and fake.requires_grad and (storage in before or storages.count(storage) > 1):
                self._views.append((fake, step))

    def step_of_exposed_view(self, results: list[Any], inputs: list[GraphInput]) -> int | None:
        """The step that made a view which the graph returns in such a way that AOTAutograd would replace it; None if there is
        none."""
        if not self._views:
            return None
        tensors = [each for each in results if isinstance(each, torch.Tensor) and each.layout is torch.strided]
        storages = [storage_of(each) for each in tensors]
        of_inputs = {storage_of(item.fake) for item in inputs if isinstance(item.fake, torch.Tensor)}
        known = {id(view) for view, _ in self._views}
        for view, step in self._views:
            sharing = [each for each, storage in zip(tensors, storages) if storage == storage_of(view)]
            if storage_of(view) in of_inputs:  # the function's result itself may be returned, but no further view of it
                differentiated = [each for each in sharing if id(each) not in known]
            else:
                differentiated = sharing if len(sharing) > 1 else []
            if any(_comes_from(each, view) for each in differentiated):
                return step
        return None

    def clear(self) -> None:
        self._views.clear()


def _comes_from(tensor: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether the gradient of a tensor flows through the operation that made the view."""
    sought, seen, todo = view.grad_fn, set[Any](), [tensor.grad_fn]
    while todo:
        function = todo.pop()
        if function is sought:
            return sought is not None
        if function is not None and function not in seen:
            seen.add(function)
            todo += [before for before, _ in function.next_functions]
    return False
