"""The tracked values of what an operation of NumPy gives, as the graph computes it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from tracer.graph.fakes.trial_arrays import TrialArrays, numpy_dtype, value_in_trials
from tracer.graph.operations.array_operations import ArrayOperation
from tracer.graph_breaks import unsupported
from tracer.operators.layout import hint, hints
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.arrays import NdarrayVariable


class ArrayResults:
    """Makes the tracked results of an operation; breaks the graph if they differ from what NumPy gave in the trial.

    `seen` is what the operation gave on fakes, `expected` what NumPy gave; `arrays` are the tracked ones among the arguments, and
    `make` makes the tracked value of an array or scalar."""

    def __init__(
        self,
        tx: Tracer,
        operation: ArrayOperation,
        trial: TrialArrays,
        arrays: list[NdarrayVariable],
        make: Callable[..., NdarrayVariable],
    ) -> None:
        self.tx = tx
        self.operation = operation
        self.trial = trial
        self.arrays = arrays
        self.make = make
        self._made: list[tuple[Any, NdarrayVariable]] = []  # the arrays that NumPy gave so far

    def tracked(self, seen: VariableTracker, expected: Any) -> VariableTracker:
        if isinstance(expected, np.ndarray) and isinstance(seen, TensorVariable):
            return self._array(seen, expected)
        if isinstance(expected, np.generic) and isinstance(seen, TensorVariable):
            self._check(seen.fake, expected)
            if any(_memory(seen.fake) == _memory(array.tensor.fake) for array in self.arrays):
                seen = seen.call_method(self.tx, "clone", [], {})
            assert isinstance(seen, TensorVariable)
            return self.make(seen, type(expected))
        if type(expected) in (tuple, list) and seen.python_type() in (tuple, list):
            items = seen.unpack(self.tx)
            if len(items) == len(expected):
                make = TupleVariable if type(expected) is tuple else ListVariable
                return make([self.tracked(item, other) for item, other in zip(items, expected)])
        if type(expected) is int and isinstance(seen, SymNodeVariable) and hint(seen.example) == expected:
            return seen
        if not (seen.is_constant() and type(expected) is type(seen.constant()) and seen.constant() == expected):
            self._differs()
        return seen

    def _array(self, seen: TensorVariable, expected: np.ndarray[Any, Any]) -> NdarrayVariable:
        fake = seen.fake
        self._check(fake, expected)
        if any(np.may_share_memory(expected, array) for array in self.trial.reversed):
            self._differs()  # of an array that a copy represents
        steps = [value_in_trials(step) * expected.itemsize for step in fake.stride()]
        if expected.size and any(n > 1 and a != b for n, a, b in zip(expected.shape, steps, expected.strides)):
            self._differs()  # strides of dims of size 1 mean nothing
        for owner, array in self.trial.owners:
            if array is expected:  # NumPy returned this argument itself
                return next(each for each in self.arrays if each.tensor.fake is owner)
            if expected.size and (_memory(fake) == _memory(owner)) is not np.may_share_memory(expected, array):
                self._differs()
        for array, made in self._made:
            if array is expected:  # NumPy gives one array several times
                return made
            is_shared = _memory(fake) == _memory(made.tensor.fake)
            if np.may_share_memory(expected, array) and not is_shared or is_shared and not self._lie_together(expected, array):
                self._differs()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that NumPy may not let broadcast arrays be written to one day
            writeable = expected.flags.writeable
        self._made.append((expected, self.make(seen, np.ndarray, None, writeable)))
        return self._made[-1][1]

    def _lie_together(self, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
        """Whether two results are views of one array: what owns their memory, or an argument."""
        owners = [array for _, array in self.trial.owners]
        in_one = any(np.may_share_memory(one, array) and np.may_share_memory(other, array) for array in owners)
        return in_one or _owner(one) is _owner(other)

    def _check(self, fake: torch.Tensor, expected: Any) -> None:
        sizes = hints(fake.shape)  # None for one that depends on data
        alike = len(sizes) == expected.ndim and all(a in (None, b) for a, b in zip(sizes, expected.shape))
        if numpy_dtype(fake.dtype) != expected.dtype or not alike:
            self._differs()
        if fake.is_conj() or fake.is_neg():
            self._differs()

    def _differs(self) -> NoReturn:
        unsupported("operator-result", operator=self.operation.name, cls="result that is not quite NumPy's")


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array whose memory this one is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _memory(fake: torch.Tensor) -> int:
    """A number by which storages are told apart."""
    number: int = fake.untyped_storage()._cdata
    return number
