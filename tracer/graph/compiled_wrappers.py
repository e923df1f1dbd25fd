"""Which wrappers a graph may have that a backend is to compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

from tracer.graph.fakes.flattened import flattens, is_written
from tracer.graph.fakes.wrapper_fakes import WrapperFake, wrappers_in
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tracer.graph.attempt import AttemptOptions
    from tracer.graph.fakes.flattened import Flattened, Form


class Flattens(Protocol):
    """Traces how a class takes its instances apart."""

    def flattened(self, wrapper: WrapperFake) -> Flattened | None:
        """What a wrapper is made of that exists before the trace; None for one that the graph makes."""

    def form_of(self, wrapper: WrapperFake) -> Form:
        """How the class takes a wrapper apart that the graph makes. Breaks the graph if it would not put it together as it is."""


class CompiledWrappers:
    """Knows for each wrapper that an operation of the graph is given what it is made of."""

    def __init__(self, options: AttemptOptions, recorder: Flattens) -> None:
        self._compiles = not options.runs_as_written
        self._refuses_all = options.refuses_wrappers
        self._recorder: Flattens | None = recorder  # None once the graph is finished
        self._forms: dict[Any, Form] = {}
        self._with_gradients: list[WrapperFake] = []  # those that existed before the trace

    def takes(self, cls: type) -> bool:
        """Whether the graph may have operations on instances of a class."""
        return not self._compiles or not self._refuses_all and flattens(cls)

    def check(self, name: str, examples: Any) -> None:
        """Breaks the graph for an operation `name` on wrappers that a compiler could not be given."""
        for wrapper in wrappers_in(examples):
            if not self.takes(wrapper.wrapper):
                why = self._refuses_all or "its class lacks __tensor_flatten__ or __tensor_unflatten__"
                unsupported("tensor-subclass", cls=wrapper.wrapper.__qualname__, source=f"{name}, to be compiled: {why}")
            self.look_into(wrapper)

    def made(self, fake: WrapperFake) -> None:
        """To be called for a wrapper that an operation of the graph makes. Breaks the graph if a compiler would make another."""
        if self._compiles:
            assert self._recorder is not None
            fake.form = self._recorder.form_of(fake)

    def form(self, key: Any, find: Callable[[], Form]) -> Form:
        """What `find` gives for the first wrapper with a key: its class, and what is known of its attributes."""
        if key not in self._forms:
            self._forms[key] = find()
        return self._forms[key]

    def fix_numbers_of(self, results: Iterable[Any]) -> None:
        """Makes the numbers in the contexts of results constants, where a compiler will take them for such."""
        for result in results:
            if isinstance(result, WrapperFake) and result.form is not None and result.form.places and result.requires_grad:
                for number in result.numbers:
                    number.node.shape_env.evaluate_sym_node(number.node)

    def refuse_written(self) -> None:
        """Breaks the graph if it writes to what is inside of a wrapper that requires a gradient. A compiler makes such a change
        after the graph, by a `copy_` that the program does not call."""
        for wrapper in self._with_gradients:
            if is_written(wrapper):
                unsupported("mutation-of-input", value=f"memory of a {wrapper.wrapper.__qualname__} that requires a gradient")

    def forget(self) -> None:
        """Called when the graph is finished."""
        self._recorder = None
        self._forms.clear()
        self._with_gradients.clear()

    def look_into(self, fake: torch.Tensor) -> None:
        """Finds out what a wrapper is made of that exists before the trace."""
        if self._compiles and isinstance(fake, WrapperFake) and fake.flattened is None and self._recorder is not None:
            fake.flattened = self._recorder.flattened(fake)
            if fake.flattened is not None and fake.requires_grad:
                self._with_gradients.append(fake)
