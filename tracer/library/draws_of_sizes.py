"""Arguments of random draws that are computed from sizes of the call: `np.random.randn(*x.shape)`, `rng.permutation(len(x))`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.effects.random_draws import Computed, Draw
from tracer.graph_breaks import unsupported
from tracer.operators.layout import hint
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.tensors.created_leaves import size_before_the_graph
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

# At which position a method of NumPy's generators takes the size of what is drawn. The others take it by name, if at all.
_SIZE_AT = {
    **dict.fromkeys("random random_sample standard_normal standard_exponential".split(), 0),
    **dict.fromkeys("exponential poisson geometric rayleigh weibull pareto power chisquare standard_gamma choice".split(), 1),
    **dict.fromkeys("uniform normal beta gamma laplace logistic lognormal gumbel binomial randint integers".split(), 2),
    "triangular": 3,
}
_ALL_ARE_SIZES = ("rand", "randn")
_FROM_NUMBERS = ("randint", "randrange", "integers")  # between two ints, or below one
_FROM_RANGE = ("choice", "permutation", "_shuffled_places")
_STEPS = (2, 3, 5, 7, 11)  # what sizes are made longer by, so that they are told apart


def seed_of(tx: Tracer, seed: VariableTracker, function: Any, low: int | None = None, high: int | None = None) -> Any:
    """A seed as the output code gives it to a generator: a constant int, or a number computed from those of the call. It lies
    between the bounds, with guards."""
    if isinstance(seed, SymNodeVariable):
        number = SizesOfDraw(tx, function).computed(seed)
    elif seed.is_constant() and type(seed.constant()) is int:
        number = seed.constant()
    else:
        unsupported("random-state", name=f"{function.__name__} of something else than an int")
    for bound, op in ((low, "<="), (high, ">=")):
        if bound is not None and not tx.binary_truth(op, ConstantVariable(bound), seed):
            unsupported("random-state", name=f"{function.__name__}, which raises here,")
    return number


class SizesOfDraw:
    """The numbers among the arguments of one draw that vary with the sizes of the call."""

    def __init__(self, tx: Tracer, function: Any) -> None:
        self.tx = tx
        self.function = function
        self.values: dict[Computed, SymNodeVariable] = {}

    def _refuse(self, why: str) -> None:
        unsupported("random-state", name=f"{self.function.__name__} {why}")

    def computed(self, value: SymNodeVariable) -> Any:
        """A number as the output code computes it."""
        number = size_before_the_graph(self.tx, value.example) if value.python_type() is int else None
        if number is None:
            self._refuse("of a number that depends on data, or that is no size,")
        if isinstance(number, Computed):
            self.values[number] = value
        return number

    def items(self, value: VariableTracker, argument: Callable[[VariableTracker], Any]) -> tuple[Any, ...] | None:
        """The items of a list or tuple, each as `argument` makes it; None for another value."""
        if not isinstance(value, (ListVariable, TupleVariable)):
            return None
        return tuple([argument(item) for item in value.items(self.tx)])

    def tried(self, draw: Draw, longer: bool = False) -> Draw:
        """The draw of this call; with `longer`, one of other sizes."""
        if not self.values:
            return draw
        if len(self.values) > len(_STEPS):
            self._refuse("of many numbers that vary")
        numbers = {key: number + step * longer for (key, number), step in zip(self._hints().items(), _STEPS)}

        def filled(arg: Any) -> Any:
            if isinstance(arg, Computed):
                return numbers[arg]
            return tuple([filled(part) for part in arg]) if type(arg) is tuple else arg

        return draw._replace(args=filled(draw.args), kwargs={name: filled(value) for name, value in draw.kwargs.items()})

    def _hints(self) -> dict[Computed, int]:
        hints = {key: hint(value.example) for key, value in self.values.items()}
        if None in hints.values():
            self._refuse("of a number that depends on data")
        return {key: int(number) for key, number in hints.items() if number is not None}

    def shape(self, draw: Draw, sample: Any, again: Callable[[Draw], Any]) -> tuple[Any, ...]:
        """The shape of what is drawn, where `sample` is what `again` gives for the draw of this call."""
        sizes: tuple[int, ...] = np.shape(sample)
        if not self.values:
            return sizes
        others = np.shape(again(self.tried(draw, longer=True)))
        if len(sizes) != len(others) or len(sizes) and not isinstance(sample, np.ndarray):
            self._refuse("of a number that varies")
        known = {(hint, hint + step): self.values[key].example for (key, hint), step in zip(self._hints().items(), _STEPS)}
        shape = [a if a == b else known.get((a, b)) for a, b in zip(sizes, others)]
        if None in shape:
            self._refuse("of a number that varies")
        return tuple(shape)

    def guard_range(self, draw: Draw) -> None:
        """Guards that no call with other sizes raises: the output code draws before all other effects of the program."""
        if not self.values:
            return
        name, args, kwargs = self.function.__name__, list(draw.args), dict(draw.kwargs)
        place = _SIZE_AT.get(name)
        sizes: list[Any] = [kwargs.pop("size", None)]
        if name in _ALL_ARE_SIZES:
            sizes, args = args, []
        elif place is not None and len(args) > place:
            sizes.append(args.pop(place))
        for size in sizes:
            for part in size if type(size) is tuple else (size,):
                if part is not None:
                    self._guard(0, "<=", part)
        if not any(self._varies(arg) for arg in (*args, *kwargs.values())):
            return
        if name in _FROM_NUMBERS and not kwargs and len(args) in (1, 2):
            self._guard(0 if len(args) == 1 else args[0], "<=" if self.function is random.Random.randint else "<", args[-1])
        elif name in _FROM_RANGE and len(args) == 1 and isinstance(args[0], Computed):
            self._guard(0, "<" if name == "choice" else "<=", args[0])
            self._guard_chosen_once(args[0], sizes[-1], kwargs)
        else:
            self._refuse("of numbers that vary")

    def _guard_chosen_once(self, count: Computed, size: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.keys() - {"replace"} or type(size) is tuple:
            self._refuse("of numbers that vary, with more arguments")
        if kwargs.get("replace") is False:
            self._guard(1 if size is None else size, "<=", count)

    def _varies(self, arg: Any) -> bool:
        return any(isinstance(part, Computed) for part in (arg if type(arg) is tuple else (arg,)))

    def _guard(self, low: Any, op: str, high: Any) -> None:
        sides = [self.values[side] if isinstance(side, Computed) else ConstantVariable(side) for side in (low, high)]
        if not all(side.python_type() is int for side in sides) or not self.tx.binary_truth(op, *sides):
            self._refuse("of other numbers than it takes")
