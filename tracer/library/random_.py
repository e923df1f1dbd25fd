"""Models of the random number generators of Python and NumPy: the numbers drawn become inputs of the graph.

A draw of anything but numbers of one kind or an array of them (a shuffled list of strings, say) is left to CPython."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer import _C
from tracer.effects.deferred_calls import DeferredCall
from tracer.effects.random_draws import Draw, Drawn, shuffled
from tracer.graph_breaks import unsupported
from tracer.library.draws_of_sizes import SizesOfDraw, seed_of
from tracer.operators.facts import runs_other_code
from tracer.protocol.lookups import defines
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import tensor_of_drawn
from tracer.sources.tensors import DrawnTensorSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.ranges import SliceVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker

METHODS: dict[type, str] = {
    random.Random: (
        "random uniform triangular normalvariate gauss lognormvariate vonmisesvariate gammavariate betavariate expovariate "
        "paretovariate weibullvariate randint randrange getrandbits seed"
    ),
    np.random.RandomState: (
        "random random_sample rand randn uniform normal standard_normal exponential standard_exponential beta gamma "
        "standard_gamma triangular laplace logistic lognormal gumbel rayleigh weibull pareto power chisquare randint binomial "
        "poisson geometric permutation choice seed"
    ),
    np.random.Generator: (
        "random uniform normal standard_normal exponential standard_exponential beta gamma standard_gamma triangular laplace "
        "logistic lognormal gumbel rayleigh weibull pareto power chisquare integers binomial poisson geometric permutation choice"
    ),
}
_ANY_STATE: dict[type, Any] = {np.random.Generator: lambda: np.random.Generator(np.random.PCG64(0))}
_NUMBERS = (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64)
_LARGEST = 2**62  # so that drawn ints fit into an int64 tensor


_MOST_ITEMS = 200  # of a drawn list: each item is a number of its own in the graph


def _model_of_draw(cls: type, function: Any) -> Any:
    """The model of a method of a generator of class `cls`. The output code calls it; the graph is given what it draws."""

    def model(tx: Tracer, generator: Value, /, *args: Value, **kwargs: Value) -> Value:
        if "out" in kwargs:
            unsupported("random-state", name=function.__name__)
        sizes = SizesOfDraw(tx, function)
        given = {name: _argument(value, sizes) for name, value in kwargs.items()}
        draw = draw_of(tx, cls, function, generator, tuple([_argument(arg, sizes) for arg in args]), given)
        sizes.guard_range(draw)
        sample = _sample(cls, sizes.tried(draw))
        shape = sizes.shape(draw, sample, functools.partial(_sample, cls))
        number = tx.effects.draw(draw)
        return NONE if sample is None else _tracked_sample(tx, number, sample, shape, _bounds(draw))

    return model


def _argument(value: Value, sizes: SizesOfDraw) -> Any:
    """An argument as the output code writes it: a constant, a number computed from sizes, or a dtype."""
    if isinstance(value, ClassVariable) and value.value in _NUMBERS:
        return np.dtype(value.value)
    if isinstance(value, SymNodeVariable):
        return sizes.computed(value)
    items = sizes.items(value, lambda item: _argument(item, sizes))
    if items is not None:
        return items
    if not value.is_constant():
        unsupported("random-state", name=sizes.function.__name__)
    return value.constant()


def draw_of(tx: Tracer, cls: type, function: Any, generator: Value, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Draw:
    """A call of `function` with a generator of the class `cls` that the program has, or has made in the trace."""
    known = generator.source is not None or isinstance(generator, DrawnGeneratorVariable)
    if not known or generator.python_type() is not cls:
        unsupported("random-state", name=function.__name__)
    if any(runs_other_code(node.target) for node in tx.output.graph.nodes if node.op == "call_function"):
        unsupported("random-state", name=f"{function.__name__}, after an operator of the program,")
    if state_in_graph(tx, generator) is not None:  # the draws of the output code come before the graph
        unsupported("random-state", name=f"{function.__name__}, after a draw in the graph from the same generator,")
    return Draw(function, generator, args, kwargs)


def state_in_graph(tx: Tracer, generator: Value) -> DeferredCall | None:
    """The call that will set the state of a generator that the graph has drawn from."""
    calls = (call for call in tx.effects.calls if call.function is torch.Generator.set_state)
    return next((call for call in calls if call.arguments[0] is generator), None)


def _sample(cls: type, draw: Draw) -> Any:
    """The same draw from another generator: the program will get a value of the same type. An error is left to CPython."""
    given = [item for arg in (*draw.args, *draw.kwargs.values()) for item in _parts(arg)]
    large = any(type(arg) is int and abs(arg) >= _LARGEST for arg in given)
    too_many_bits = draw.function.__name__ == "getrandbits" and not all(type(arg) is int and arg < 63 for arg in given)
    plain = all(type(arg) in (int, float, bool, type(None)) or isinstance(arg, np.dtype) for arg in given)
    if large or too_many_bits or not plain:
        unsupported("random-state", name=draw.function.__name__)
    try:
        sample = draw.function(_ANY_STATE.get(cls, functools.partial(cls, 0))(), *draw.args, **draw.kwargs)
    except Exception:
        unsupported("random-state", name=draw.function.__name__)
    is_array = type(sample) is np.ndarray and sample.dtype.type in _NUMBERS or type(sample) in _NUMBERS
    if type(sample) is list and 0 < len(sample) <= _MOST_ITEMS and {*map(type, sample)} in ({int}, {float}):
        return sample
    if not is_array and type(sample) not in (int, float, type(None)):
        unsupported("random-state", name=f"{draw.function.__name__}, which gives a {type(sample).__name__},")
    return sample


def _parts(arg: Any) -> tuple[Any, ...]:
    if type(arg) is range:
        return arg.start, arg.stop, arg.step
    return arg if type(arg) is tuple else (arg,)


def _bounds(draw: Draw) -> tuple[int, int] | None:
    """The least and the greatest int that can be drawn, or None if that is not known."""
    name, args = draw.function.__name__, draw.args
    if name in ("randint", "randrange", "getrandbits") and (draw.kwargs or not all(type(arg) is int for arg in args[:2])):
        return None
    if name == "getrandbits":
        return 0, 2 ** args[0] - 1
    if name == "randint":  # NumPy's leaves out the upper one
        drawn: Any = range(args[0], args[1] + 1) if draw.function is random.Random.randint else range(*args[:2])
    elif name == "randrange":
        drawn = range(*args)
    else:
        drawn = next(iter(args), None)
    if type(drawn) is range and drawn:
        return min(drawn[0], drawn[-1]), max(drawn[0], drawn[-1])
    return (min(drawn), max(drawn)) if type(drawn) is tuple and {*map(type, drawn)} == {int} else None


def _tracked_sample(tx: Tracer, number: int, sample: Any, shape: tuple[Any, ...], bounds: tuple[int, int] | None) -> Value:
    """The tracked form of what draw `number` gives: an array, or numbers that depend on data. `sample` is a value of its kind, an
    array of the shape `shape`."""
    output, env = tx.output, tx.output.world.torch_env
    real = tensor_of_drawn(sample)
    fake = output.world.run(torch.empty, (shape,), {"dtype": real.dtype, "device": real.device})
    node = output.add_input(DrawnTensorSource(number), real, fake, own_memory=True)
    if isinstance(sample, (np.ndarray, np.generic)):
        return NdarrayVariable(TensorVariable(node, fake), type(sample))

    def taken(tensor: fx.Node, like: Any, index: int | None) -> DrawnNumberVariable:
        example = env.create_unbacked_symfloat() if type(like) is float else env.create_unbacked_symint()
        if bounds is not None and isinstance(example, torch.SymInt):
            env.constrain_symbol_range(example.node.expr, *bounds)
        return DrawnNumberVariable(
            output.create_node("call_method", "item", (tensor,), {}, example, pure=True), example, number, index
        )

    if type(sample) is not list:
        return taken(node, sample, None)
    items: list[Value] = []
    for index, like in enumerate(sample):
        part = output.world.run(torch.select, (fake, 0, index), {})
        items.append(taken(output.create_node("call_method", "select", (node, 0, index), {}, part, pure=True), like, index))
    return ListVariable(items)


class DrawnNumberVariable(SymNodeVariable):
    """A drawn number, which the graph takes out of an input tensor. The output code loads the number that was drawn."""

    def __init__(self, node: fx.Node, example: Any, number: int, index: int | None = None) -> None:
        super().__init__(node, example)
        self.number = number
        self.index = index  # in the list that was drawn

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_drawn(self.number)
        if self.index is not None:
            cg.load_const(self.index)
            cg.asm.subscript()


class DrawnStateVariable(VariableTracker):
    """generator.getstate()"""

    def __init__(self, number: int) -> None:
        self.number = number

    def python_type(self) -> type:
        return tuple

    def truth(self, tx: Tracer) -> bool:
        return True

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_drawn(self.number)


class DrawnGeneratorVariable(UserObjectVariable):
    """random.Random(seed) or np.random.default_rng(seed), made in the trace: the output code makes it among its draws. Only its
    methods can be used."""

    def __init__(self, number: int, cls: type = random.Random) -> None:
        super().__init__(cls)
        self.number = number

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name.startswith("__") or not defines(self.cls, name):
            unsupported("unsupported-attribute", value="a generator of random numbers", name=name)
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        unsupported("unsupported-attribute-store", value="a generator of random numbers", name=name)

    def del_attr(self, tx: Tracer, name: str) -> None:
        unsupported("unsupported-attribute-store", value="a generator of random numbers", name=name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_drawn(self.number)

    def fill(self, cg: ValueCodegen) -> None:
        """Does nothing: the object is complete."""


def _numbers(seq: Value, tx: Tracer, name: str) -> ConstantVariable:
    """The ints or the floats to choose from. Other items are refused: the trace would have to know which object is chosen."""
    if seq.is_constant() and isinstance(seq.constant(), range):
        return ConstantVariable(seq.constant())
    items = seq.unpack(tx) if seq.python_type() in (list, tuple, range) else []
    kinds = {type(item.constant()) if item.is_constant() else None for item in items}
    if kinds not in ({int}, {float}):
        unsupported("random-state", name=f"{name}, of other things than numbers of one kind,")
    return ConstantVariable(tuple([item.constant() for item in items]))


def _model_of_choice(function: Any) -> Any:
    """The model of a method that draws items of a sequence, such as `random.choice`."""
    draw = _model_of_draw(random.Random, function)

    def model(tx: Tracer, generator: Value, seq: Value, *args: Value, **kwargs: Value) -> Value:
        weights = [_tuple_of(tx, arg) for arg in args]
        named = {name: _tuple_of(tx, value) for name, value in kwargs.items()}
        result: Value = draw(tx, generator, _numbers(seq, tx, function.__name__), *weights, **named)
        return result

    return model


def _tuple_of(tx: Tracer, value: Value) -> Value:
    """A list of constants, such as weights, as one constant tuple. Other values are returned as they are."""
    if value.python_type() is not list:
        return value
    items = value.unpack(tx)
    return ConstantVariable(tuple([item.constant() for item in items])) if all(i.is_constant() for i in items) else value


_draw_shuffled = _model_of_draw(random.Random, shuffled)


@models(random.Random.shuffle)
def _shuffle(tx: Tracer, generator: Value, x: Value) -> Value:
    if not isinstance(x, ListVariable):
        unsupported("random-state", name=f"shuffle of {x.describe()}")
    if len(x.unpack(tx)) > 1:  # else nothing is drawn
        x.set_item(tx, SliceVariable(NONE, NONE, NONE), _draw_shuffled(tx, generator, _numbers(x, tx, "shuffle")))
    return NONE


def _model_of_shuffle(cls: type) -> Any:
    """The model of a `shuffle` of NumPy, which exchanges rows of an array by their number alone."""
    draw = _model_of_draw(cls, _shuffled_places)

    def model(tx: Tracer, generator: Value, x: Value) -> Value:
        if not isinstance(x, NdarrayVariable) or x.is_scalar or not x.writeable:
            unsupported("random-state", name=f"shuffle of {x.describe()}")
        x.set_item(tx, ConstantVariable(...), x.get_item(tx, draw(tx, generator, x.length(tx))))
        return NONE

    return model


def _shuffled_places(generator: Any, count: int) -> np.ndarray[Any, Any]:
    places = np.arange(count)
    generator.shuffle(places)
    return places


_C.never_trace(_shuffled_places.__code__)
for _cls in (np.random.RandomState, np.random.Generator):
    models(_cls.shuffle)(_model_of_shuffle(_cls))


@models(random.Random.getstate)
def _getstate(tx: Tracer, generator: Value) -> Value:
    return DrawnStateVariable(tx.effects.draw(draw_of(tx, random.Random, random.Random.getstate, generator, (), {})))


@models(random.Random.setstate)
def _setstate(tx: Tracer, generator: Value, state: Value) -> Value:
    if not isinstance(state, DrawnStateVariable):
        unsupported("random-state", name="setstate")
    tx.effects.draw(draw_of(tx, random.Random, random.Random.setstate, generator, (Drawn(state.number),), {}))
    return NONE


@models(random.Random)
def _generator(tx: Tracer, *seed: Value) -> Value:
    """The seed must be a number or text. Such a generator draws the same at each call, but the output code makes the draws."""
    if len(seed) != 1:
        unsupported("random-state", name="random.Random of something else than a number or text")
    known = seed[0].is_constant() and type(seed[0].constant()) in (float, str, bytes)
    given = seed[0].constant() if known else seed_of(tx, seed[0], random.Random)
    return DrawnGeneratorVariable(tx.effects.draw(Draw(random.Random, None, (given,), {})))


@models(np.random.default_rng)
def _default_rng(tx: Tracer, *seed: Value) -> Value:
    """Without a seed, the output code makes a generator of fresh entropy at each call."""
    return _seeded(tx, np.random.default_rng, seed, None)


@models(np.random.RandomState)
def _random_state(tx: Tracer, *seed: Value) -> Value:
    return _seeded(tx, np.random.RandomState, seed, 2**32 - 1)


def _seeded(tx: Tracer, make: Any, seed: tuple[Value, ...], most: int | None) -> Value:
    """A generator of NumPy with a seed, which is at least 0."""
    if len(seed) > 1:
        unsupported("random-state", name=f"{make.__name__} of several seeds")
    given = tuple([None if value.is_none() else seed_of(tx, value, make, 0, most) for value in seed])
    cls = np.random.Generator if make is np.random.default_rng else make
    return DrawnGeneratorVariable(tx.effects.draw(Draw(make, None, given, {})), cls)


def _left_to_cpython(name: str) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        unsupported("random-state", name=name)

    return model


def _register() -> None:
    models(random.Random.randbytes)(_left_to_cpython("randbytes"))
    for name in ("choice", "choices", "sample"):
        models(getattr(random.Random, name))(_model_of_choice(getattr(random.Random, name)))
    for cls, names in METHODS.items():
        for name in names.split():
            function = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
            models(function)(_model_of_draw(cls, function))


_register()
