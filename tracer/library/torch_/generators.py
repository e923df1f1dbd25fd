"""Models of `torch.Generator` and of the random functions that are given one. Most such numbers depend on nothing that the graph
computes, and the default generator is another one, so that the output code draws them before the graph, as those of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.effects.deferred_calls import DeferredCall
from tracer.effects.random_draws import Draw
from tracer.graph.operations.drawn_fills import filled
from tracer.graph.operations.draws_by_data import BY_DATA
from tracer.graph_breaks import unsupported
from tracer.guards.identity import Distinct, TypeMatch
from tracer.guards.values import EqualsMatch
from tracer.library.draws_of_sizes import seed_of
from tracer.library.random_ import DrawnGeneratorVariable, draw_of, state_in_graph
from tracer.operators.layout import hints
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.roots import ObjectSource
from tracer.sources.tensors import DrawnTensorSource
from tracer.variables.builders.builder import VariableBuilder, opaque, tracks
from tracer.variables.containers.lists import ListVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.created_leaves import no_leaf_can_be_made, size_before_the_graph
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

#: Each with the number of arguments that it takes before the size. Those of `BY_DATA` draw by what the graph computes.
_FUNCTIONS: dict[Any, int] = {torch.rand: 0, torch.randn: 0, torch.randint: 2, torch.normal: 2, torch.randperm: 0}
_DEFAULT = ObjectSource(torch.default_generator, "torch.default_generator")


@tracks(torch.Generator)
def _generator(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if value is torch.default_generator:  # it draws inside the graph, too
        return opaque(builder, value, source)
    builder.guard(TypeMatch(source, torch.Generator))
    builder.guard(Distinct((source, _DEFAULT)))
    builder.guard(EqualsMatch(GenericAttrSource(source, "device"), value.device))
    return builder.remember(value, UserObjectVariable(torch.Generator, value, source))


@models(torch.Generator)
def _new_generator(tx: Tracer, device: Value = NONE) -> Value:
    if not device.is_none() and (not device.is_constant() or torch.device(device.constant()).type != "cpu"):
        unsupported("random-state", name="torch.Generator of another device than the CPU")
    return DrawnGeneratorVariable(tx.effects.draw(Draw(torch.Generator, None, (), {})), torch.Generator)


@models(torch.Generator.manual_seed)
def _manual_seed(tx: Tracer, generator: Value, seed: Value) -> Value:
    number = seed_of(tx, seed, torch.Generator.manual_seed)
    if type(number) is int:
        _try(torch.Generator.manual_seed, torch.Generator("cpu"), number)
    tx.effects.draw(draw_of(tx, torch.Generator, torch.Generator.manual_seed, generator, (number,), {}))
    return generator


def draw_tensor(tx: Tracer, function: Any, args: list[Value], generator: Value, kwargs: dict[str, Value]) -> Value:
    """`function(*args, generator=generator, **kwargs)`, drawn before the graph."""
    name = f"torch.{function.__name__} with a generator of its own"
    count = _FUNCTIONS.get(function)
    if function is torch.randint and len(args) + ("size" in kwargs) == 2:
        args = [tx.literal(0), *args]
    if not isinstance(generator, UserObjectVariable):
        unsupported("random-state", name=f"torch.{function.__name__} with the default generator, given by name,")
    if function in BY_DATA and not no_leaf_can_be_made(tx) and tx.output.chances.take():
        return _drawn_by_data(tx, function, args, generator, kwargs)
    if count is None or no_leaf_can_be_made(tx) or not all(arg.is_constant() for arg in args[:count]):
        unsupported("random-state", name=name)
    first = tuple([arg.constant() for arg in args[:count]])
    left_out = {key for key, value in kwargs.items() if value.is_constant() and value.constant() in (None, False, torch.strided)}
    if set(kwargs) - left_out - {"dtype", "device", "size"} or len(first) < count or not {*map(type, first)} <= {int, float}:
        unsupported("random-state", name=name)
    drawn = _like(tx, function, args[count:], {key: value for key, value in kwargs.items() if key not in left_out})
    if function is torch.randperm and drawn.dtype is not torch.int64 and any(type(size) is not int for size in drawn.shape):
        unsupported("random-state", name=f"torch.randperm of {drawn.dtype}, which cannot hold every size that may come,")
    return _drawn(tx, name, generator, drawn_tensor, (function, first, drawn.dtype, drawn.device), drawn)


def _drawn_by_data(
    tx: Tracer, function: Any, args: list[Value], generator: UserObjectVariable, kwargs: dict[str, Value]
) -> Value:
    """`function(*args, generator=generator)`, drawn in the graph from the state that the generator has there. What is drawn from
    it later in the trace has to be drawn so, too (`random_.draw_of` sees to that)."""
    if generator.source is not None and generator.value.device.type != "cpu":
        unsupported("random-state", name=f"torch.{function.__name__} with a generator of another device than the CPU")
    tx.output.journal.refuse("it draws from a generator")
    before = state_in_graph(tx, generator)
    state = _state_before_the_graph(tx, generator) if before is None else before.arguments[1]
    drawn, left = tx.call_in_graph(BY_DATA[function], [state, *args], kwargs).unpack(tx)
    tx.effects.defer(DeferredCall(torch.Generator.set_state, (), (generator, left)), before)
    return drawn


def _state_before_the_graph(tx: Tracer, generator: UserObjectVariable) -> Value:
    number = tx.effects.draw(draw_of(tx, torch.Generator, torch.Generator.get_state, generator, (), {}))
    real = torch.Generator().get_state()
    fake = tx.output.world.run(torch.empty, (tuple(real.shape),), {"dtype": real.dtype})
    return tx.output.wrap(tx.output.add_input(DrawnTensorSource(number), real, fake, own_memory=True), fake)


def _drawn(
    tx: Tracer, name: str, generator: UserObjectVariable, function: Any, args: tuple[Any, ...], like: torch.Tensor
) -> Value:
    """`function(generator, *args, *sizes)` with the sizes of the fake `like`, drawn before the graph."""
    sizes = [size_before_the_graph(tx, size) for size in like.shape]
    if like.device.type != "cpu" and tx.trace.torch_state.on_another_stream:  # which would not wait for what is drawn before
        unsupported("random-state", name=f"{name}, on a stream that the program has entered,")
    if any(size is None for size in sizes):
        unsupported("random-state", name=f"{name}, of a size that depends on data,")
    draw = draw_of(tx, torch.Generator, function, generator, (*args, *sizes), {})
    shape = hints(like.shape)
    tried = torch.Generator("cpu" if generator.source is None else generator.value.device)
    _try(function, tried, *args, *(shape if torch.randperm in args else (1,) * len(shape)))
    number = tx.effects.draw(draw)
    fake = tx.output.world.run(torch.empty, (tuple(like.shape),), {"dtype": like.dtype, "device": like.device})
    real = torch.empty(shape, dtype=like.dtype, device=like.device)
    return tx.output.wrap(tx.output.add_input(DrawnTensorSource(number), real, fake, own_memory=True), fake)


@models(filled)
def _filled(
    tx: Tracer, tensor: TensorVariable, method: str, args: tuple[Value, ...], generator: Value, kwargs: dict[str, Value]
) -> Value:
    """`tensor.method(*args, generator=generator)`: what is drawn before the graph is copied into the tensor. In a tensor that
    is not contiguous, the numbers would lie in another order."""
    fake, name = tensor.fake, f"Tensor.{method} with a generator of its own"
    given = [*args, *kwargs.values()]
    if not isinstance(generator, UserObjectVariable) or no_leaf_can_be_made(tx) or tensor.cls not in _PLAIN:
        unsupported("random-state", name=name)
    if fake.requires_grad and torch.is_grad_enabled() or fake.layout is not torch.strided or not fake.is_contiguous():
        unsupported("random-state", name=f"{name}, of a tensor that requires a gradient, or is not contiguous,")
    if not all(value.is_constant() and type(value.constant()) in (int, float, type(None)) for value in given):
        unsupported("random-state", name=f"{name}, of numbers that vary,")
    named = tuple([(key, value.constant()) for key, value in kwargs.items()])
    first = (method, tuple([value.constant() for value in args]), named, fake.dtype, fake.device)
    return tensor.call_method(tx, "copy_", [_drawn(tx, name, generator, filled, first, fake)], {})


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _try(draw: Any, *args: Any) -> None:
    """Breaks the graph at a draw that raises: the output code draws before all other effects of the program, and outside of its
    handlers."""
    try:
        draw(*args)
    except Exception:
        unsupported("random-state", name=f"{draw.__name__}, which raises here,")


def _like(tx: Tracer, function: Any, size: list[Value], kwargs: dict[str, Value]) -> torch.Tensor:
    """A fake of the size, dtype and device of what the function draws."""
    if function in (torch.randint, torch.randperm):
        kwargs = {"dtype": tx.literal(torch.int64)} | kwargs
    if function is torch.randperm:
        size = [ListVariable(size)]
    made = tx.call_in_graph(torch.empty, size, kwargs)  # nothing uses this operation, so that the graph is rid of it
    assert isinstance(made, TensorVariable)
    return made.fake


def drawn_tensor(
    generator: torch.Generator, function: Any, first: tuple[Any, ...], dtype: torch.dtype, device: torch.device, *sizes: int
) -> torch.Tensor:
    """In the output code: what the function draws."""
    size = sizes if function is torch.randperm else (sizes,)
    drawn: torch.Tensor = function(*first, *size, generator=generator, dtype=dtype, device=device)
    return drawn


_C.never_trace(drawn_tensor.__code__)
