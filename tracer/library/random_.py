"""Models of the generators of random numbers of Python and NumPy: what is drawn becomes an input of the graph.

Whatever gives something else than a number or an array of them (a shuffled list, a state) is left to CPython."""
from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.effects.draws import Draw
from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.sources import DrawnTensorSource
from tracer.sources.reading import tensor_of_drawn
from tracer.variables.arrays import NdarrayVariable
from tracer.variables.base import VariableTracker
from tracer.variables.constant import NONE, ConstantVariable
from tracer.variables.symbolic import SymNodeVariable
from tracer.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.variables.protocol import Tracer

Value = VariableTracker

METHODS: dict[type, str] = {
    random.Random: (
        "random uniform triangular normalvariate gauss lognormvariate vonmisesvariate gammavariate betavariate expovariate "
        "paretovariate weibullvariate randint randrange getrandbits seed"
    ),
    np.random.RandomState: (
        "random random_sample rand randn uniform normal standard_normal exponential standard_exponential beta gamma "
        "standard_gamma triangular laplace logistic lognormal gumbel rayleigh weibull pareto power chisquare randint binomial "
        "poisson geometric seed"
    ),
}
_OWN_MODULES = ("torch", "tracer", "math", "builtins", "operator", "_operator")
_LARGEST = 2**62  # so that what is drawn fits the integers of a tensor


def _draws(cls: type, function: Any) -> Any:
    def model(tx: Tracer, generator: Value, /, *args: Value, **kwargs: Value) -> Value:
        exact = generator.source is not None and generator.python_type() is cls
        values = (*args, *kwargs.values())
        if not exact or not all(value.is_constant() for value in values) or "out" in kwargs:
            unsupported("random-state", name=function.__name__)
        draw = Draw(
            function,
            generator,
            tuple([arg.constant() for arg in args]),
            {name: value.constant() for name, value in kwargs.items()},
        )
        if any(_may_draw(node.target) for node in tx.output.graph.nodes if node.op == "call_function"):
            unsupported("random-state", name=f"{function.__name__}, after an operator of the program,")
        sample = _sample(cls, draw)
        tx.effects.draw(draw)
        return NONE if sample is None else _drawn(tx, len(tx.effects.draws) - 1, sample)

    return model


def _may_draw(target: Any) -> bool:
    """Whether a call in the graph runs code of the program, which may draw, too: no later draw must come before it."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return target.__module__ not in ("torch._ops.aten", "torch._ops.prims")
    module = getattr(target, "__module__", None) or "builtins"
    return module.partition(".")[0] not in _OWN_MODULES


def _sample(cls: type, draw: Draw) -> Any:
    """What another generator gives: its type is that of what the program will get. An error is left to CPython."""
    given = [item for arg in (*draw.args, *draw.kwargs.values()) for item in (arg if type(arg) is tuple else (arg,))]
    large = any(type(arg) is int and abs(arg) >= _LARGEST for arg in given)
    too_many_bits = draw.function.__name__ == "getrandbits" and not all(type(arg) is int and arg < 63 for arg in given)
    if large or too_many_bits or not all(type(arg) in (int, float, type(None)) for arg in given):
        unsupported("random-state", name=draw.function.__name__)
    try:
        sample = draw.function(cls(0), *draw.args, **draw.kwargs)
    except Exception:
        unsupported("random-state", name=draw.function.__name__)
    is_array = type(sample) is np.ndarray and sample.dtype in (np.int64, np.float64)
    if not is_array and type(sample) not in (int, float, type(None)):
        unsupported("random-state", name=f"{draw.function.__name__}, which gives a {type(sample).__name__},")
    return sample


def _drawn(tx: Tracer, number: int, sample: Any) -> Value:
    output, env = tx.output, tx.output.world.torch_env
    real = tensor_of_drawn(sample)
    fake = output.world.run(torch.empty, (tuple(real.shape),), {"dtype": real.dtype, "device": real.device})
    node = output.add_input(DrawnTensorSource(number), real, fake, own_memory=True)
    if isinstance(sample, np.ndarray):
        return NdarrayVariable(TensorVariable(node, fake))
    example = env.create_unbacked_symfloat() if type(sample) is float else env.create_unbacked_symint()
    taken = output.create_node("call_method", "item", (node,), {}, example, pure=True)
    return DrawnNumberVariable(taken, example, number)


class DrawnNumberVariable(SymNodeVariable):
    """A number in the graph that was taken out of a tensor; where the output code needs it, it is what was drawn itself."""

    def __init__(self, node: fx.Node, example: Any, number: int) -> None:
        super().__init__(node, example)
        self.number = number

    def reconstruct(self, cg: Any) -> None:
        cg.load_drawn(self.number)


_draw_choice = _draws(random.Random, random.Random.choice)


@models(random.Random.choice)
def _choice(tx: Tracer, generator: Value, seq: Value) -> Value:
    """One of several ints, or of several floats. What else is chosen is an object that the trace would have to know."""
    items = seq.unpack(tx) if seq.python_type() in (list, tuple, range) else []
    kinds = {type(item.constant()) if item.is_constant() else None for item in items}
    if kinds not in ({int}, {float}):
        unsupported("random-state", name="choice, of other things than numbers of one kind,")
    return _draw_choice(tx, generator, ConstantVariable(tuple([item.constant() for item in items])))  # type: ignore[no-any-return]


def _left_to_cpython(name: str) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        unsupported("random-state", name=name)

    return model


def _register() -> None:
    for name in ("choices", "sample", "shuffle", "getstate", "setstate", "randbytes"):
        models(getattr(random.Random, name))(_left_to_cpython(name))
    for cls, names in METHODS.items():
        for name in names.split():
            function = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
            models(function)(_draws(cls, function))


_register()
