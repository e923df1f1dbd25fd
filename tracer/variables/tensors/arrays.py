"""NumPy's arrays and scalars. In the graph, each is represented by a tensor that shares the array's memory. Operations are also
tried in NumPy itself, on trial arrays (`graph.fakes.trial_arrays`), to learn the kind and metadata of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer import config
from tracer.exc import Unsupported
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.fakes.numpy_trials import forms_by_numpy
from tracer.graph.fakes.trial_arrays import TrialArrays, numpy_dtype, try_in_numpy
from tracer.graph.operations.array_operations import ArrayOperation, array_operation, is_in_torch
from tracer.graph.operations.numpy_calls import NumpyCall
from tracer.graph_breaks import unsupported
from tracer.guards.unchanged import find
from tracer.operators.layout import hint, hints
from tracer.protocol.models import model_of
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, SequenceVariable, SizeVariable, TupleVariable
from tracer.variables.containers.ranges import SliceVariable
from tracer.variables.containers.tuples import NamedTupleVariable
from tracer.variables.slots import BINARY, COMPARE, INPLACE, UNARY
from tracer.variables.tensors.array_flags import ArrayFlagsVariable
from tracer.variables.tensors.array_numbers import with_scalars
from tracer.variables.tensors.array_overlaps import is_laid_alike
from tracer.variables.tensors.array_parts import (
    ArrayIterator,
    ArrayMethodVariable,
    FlatIterator,
    read_only_array,
    scalar,
    shared_array,
)
from tracer.variables.tensors.array_results import ArrayResults
from tracer.variables.tensors.dtypes_of_numpy import NumpyDtypeVariable
from tracer.variables.tensors.known_arrays import PLAIN, PYTHON_NUMBERS, is_number_class, known_result, known_view
from tracer.variables.tensors.numpy_errors import rely_on_errors
from tracer.variables.tensors.numpy_sizes import NumpyNumberVariable, plain_arguments, plain_index
from tracer.variables.tensors.subscripts import is_basic_index, reads_numbers, select_basic
from tracer.variables.tensors.tensor import TensorVariable, writing
from tracer.variables.tensors.tensor_methods import capturing_numbers
from tracer.variables.values.constant import ConstantVariable, fold
from tracer.variables.values.symbolic import SymNodeVariable, is_number

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_COMPUTED = frozenset(("T", "real", "imag"))  # attributes whose value is an array
# They break the graph: they read the data, change the array itself, or have no counterpart in torch.
_REFUSED = frozenset(
    """item tolist tobytes dump dumps tofile setflags resize getfield setfield byteswap newbyteorder to_device is_integer hex
    as_integer_ratio bit_count""".split()
)


class NdarrayVariable(VariableTracker):
    """A NumPy array or scalar of class `cls`. `tensor` holds its value; an array shares the tensor's memory."""

    # The dims along which NumPy's strides are negative, where a copy without them represents such an array.
    reversed_dims: tuple[int, ...] = ()
    _known: np.ndarray[Any, Any] | None = None
    _writes = 0  # how many writes of the trace came before

    def __init__(
        self, tensor: TensorVariable, cls: type = np.ndarray, source: Source | None = None, writeable: bool = True
    ) -> None:
        self.tensor = tensor
        self.cls = cls
        self.source = source
        self.writeable = writeable

    @property
    def is_scalar(self) -> bool:
        return self.cls is not np.ndarray

    def operand(self, tx: Tracer) -> NdarrayVariable:
        """The array as operations of the graph take it."""
        return self

    def known(self, tx: Tracer) -> np.ndarray[Any, Any] | None:
        """The values of an array that was computed from constants, as long as nothing has written to its memory."""
        writes = itertools.islice(tx.output.world.fake_mode.writes, self._writes, None)
        return None if self._known is None or storage_of(self.tensor.fake) in writes else self._known

    def knowing(self, tx: Tracer, values: np.ndarray[Any, Any]) -> NdarrayVariable:
        """This new array, whose values are known."""
        self._known, self._writes = values.copy(), len(tx.output.world.fake_mode.writes)
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.tensor.fake.dtype)

    def describe(self) -> str:
        return f"NdarrayVariable({self.cls.__name__} in {self.tensor.node.name})"

    def children(self) -> Iterable[VariableTracker]:
        return (self.tensor,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        make = shared_array if self.writeable and not self.is_scalar else scalar if self.is_scalar else read_only_array
        cg.call_object(make, lambda: cg.load(self.tensor))

    # -- attributes ----------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _COMPUTED:
            return apply(tx, array_operation("attribute", name), [self], {})
        if name in _METADATA:
            result: VariableTracker = _METADATA[name](tx, self)
            return result
        if name == "__class__":
            return tx.class_variable(self.cls)
        if name == "flags":
            return ArrayFlagsVariable(self)
        if name == "flat" and not self.is_scalar:
            return FlatIterator(tx, self)
        if callable(find(self.cls, name)[1]):
            return ArrayMethodVariable(self, name)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__len__":
            return self.length(tx)
        if name == "__iter__":
            return self.iterate(tx)
        if name in ("__copy__", "__deepcopy__") and not self.is_scalar:  # the memo is not looked into
            return self.call_method(tx, "copy", [], {"order": ConstantVariable("K")})
        known = self.known(tx)
        if (
            known is not None
            and name in ("item", "tolist", "tobytes")
            and all(value.is_constant() for value in args)
            and not kwargs
        ):
            return fold(tx, getattr(known, name), *(value.constant() for value in args))
        if name in ("item", "tolist") and config.capture_scalar_outputs and not args and not kwargs:
            return self.tensor.call_method(tx, name, [], {})
        if name in _REFUSED:
            unsupported("data-dependent-method", value=self.describe(), name=name)
        operation = array_operation("operator" if name in _DUNDERS else "method", _DUNDERS.get(name, name))
        return apply(tx, operation, [self, *plain_arguments(tx, name, args)], kwargs)

    # -- operators -----------------------------------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if reflected and isinstance(other, TensorVariable) and not self.is_scalar:
            with_tensor: Any = model_of(tensor_with_array)
            result: VariableTracker = with_tensor(tx, BINARY[op], other, self)
            return result
        if not _is_operand(other):
            return None
        operands = [other, self] if reflected else [self, other]
        return apply(tx, array_operation("operator", BINARY[op].__name__), operands, {})

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if self.is_scalar or not _is_operand(other):
            return None
        return apply(tx, array_operation("operator", INPLACE[op].__name__), [self, _read_first(tx, other, self)], {})

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if not _is_operand(other):
            unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())
        return apply(tx, array_operation("operator", COMPARE[op].__name__), [self, other], {})

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return apply(tx, array_operation("operator", UNARY[op].__name__), [self], {})

    def truth(self, tx: Tracer) -> bool:
        known = self.known(tx)
        if known is not None and known.size == 1:
            return bool(known)
        unsupported("data-dependent-branch", value=self.describe())

    # -- items ---------------------------------------------------------------------------------------------------

    def length(self, tx: Tracer) -> VariableTracker:
        if self.is_scalar or self.tensor.fake.dim() == 0:
            unsupported("call-arguments", error="len() of unsized object")
        return self.tensor.dimension(tx, 0)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        view = self._selected(tx, key)
        if view is not None and view.tensor.fake.dim():
            return view
        index = plain_index(tx, key) if view is None else TupleVariable([])  # of no dims: its item
        return apply(tx, array_operation("operator", "getitem"), [view or self, index], {})

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        view = self._selected(tx, key)
        single = is_number(value) or (isinstance(value, NdarrayVariable) and value.is_scalar)
        if view is not None and not view.tensor.fake.dim() and not single:  # NumPy warns where it takes the item of an array
            view = None
        target, index = (self, plain_index(tx, key)) if view is None else (view, ConstantVariable(Ellipsis))
        apply(tx, array_operation("operator", "setitem"), [target, index, _read_first(tx, value, target, index)], {})

    def _selected(self, tx: Tracer, key: VariableTracker) -> NdarrayVariable | None:
        """The view of a subscript by ints that vary, whose values `torch._numpy` would need; None for other subscripts."""
        if type(self) is not NdarrayVariable or self.is_scalar or self.reversed_dims:
            return None
        view = select_basic(tx, self.tensor, key)
        return None if view is None else NdarrayVariable(view, writeable=self.writeable)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        unsupported("data-dependent-branch", value=self.describe())

    def iterate(self, tx: Tracer) -> VariableTracker:
        self.length(tx)
        return ArrayIterator(self)

    def as_index(self, tx: Tracer) -> Any:
        """This array as an index of a tensor, as a node takes it: torch reads its values."""
        return self.as_number(tx).graph_arg() if self.is_scalar else self.tensor.graph_arg()

    # -- as a number ---------------------------------------------------------------------------------------------

    def as_number(self, tx: Tracer) -> VariableTracker:
        """The Python number that torch converts this NumPy scalar to. A float that was computed is read in the graph."""
        known = self.known(tx)
        if known is not None and self.is_scalar:
            return ConstantVariable(np.bool_(known) if self.cls is np.bool_ else known.item())
        if issubclass(self.cls, np.floating) and reads_numbers(tx):
            with capturing_numbers(tx):
                return self.tensor.call_method(tx, "item", [], {})
        unsupported("not-a-graph-argument", value=self.describe())

    def beside(self, tx: Tracer, tensor: TensorVariable, op: str) -> VariableTracker:
        """This array; a scalar as an operand of a tensor's operator, which treats it as a Python number."""
        if not self.is_scalar:
            return self  # which a tensor's operators do not take
        if self.known(tx) is not None:
            return self.as_number(tx)
        if issubclass(self.cls, np.floating) and op not in ("pow", "ipow") and reads_numbers(tx):
            return self.as_number(tx)
        mine, number = self.tensor.fake, np.zeros((), self.dtype).item()
        same = torch.result_type(tensor.fake, mine) == torch.result_type(tensor.fake, number)
        if not same or tensor.fake.dim() == 0 or self.cls is np.bool_:
            unsupported("unsupported-operator", left=tensor.describe(), op="and", right=self.describe())
        return self.tensor


def tensor_with_array(function: Callable[[Any, Any], Any], tensor: torch.Tensor, array: np.ndarray[Any, Any]) -> Any:
    """`function(tensor, array)` of an operator, which NumPy computes. `library.arrays_of_tensors` has its model."""
    return function(tensor, array)


def _shape(tx: Tracer, self: NdarrayVariable) -> VariableTracker:
    return TupleVariable(self.tensor.size(tx).items(tx))


def _strides(tx: Tracer, self: NdarrayVariable) -> VariableTracker:
    size = ConstantVariable(self.dtype.itemsize)
    return TupleVariable([tx.binary("*", step, size) for step in self.tensor.strides(tx)])


def _size(tx: Tracer, self: NdarrayVariable) -> VariableTracker:
    return self.tensor.call_method(tx, "numel", [], {})


_METADATA: dict[str, Any] = {
    "shape": _shape,
    "strides": _strides,
    "size": _size,
    "ndim": lambda tx, self: ConstantVariable(self.tensor.fake.dim()),
    "dtype": lambda tx, self: NumpyDtypeVariable(self.dtype),
    "itemsize": lambda tx, self: ConstantVariable(self.dtype.itemsize),
    "nbytes": lambda tx, self: tx.binary("*", _size(tx, self), ConstantVariable(self.dtype.itemsize)),
}
# special method -> function of `operator`; the names of `operator.and_` and `or_` end in an underscore
_DUNDERS = {
    **{f"__{function.__name__.strip('_')}__": function.__name__ for function in (*BINARY.values(), *COMPARE.values())},
    "__getitem__": "getitem",
    "__setitem__": "setitem",
}


def _read_first(
    tx: Tracer, value: VariableTracker, array: NdarrayVariable, key: VariableTracker | None = None
) -> VariableTracker:
    """A value that is written to an array, or to the part at `key`. NumPy reads all of it before it writes. So where it lies over
    that part it is a copy, unless each element is written where it was read."""
    if not isinstance(value, NdarrayVariable) or storage_of(value.tensor.fake) != storage_of(array.tensor.fake):
        return value
    part = array if key is None else array.get_item(tx, key) if is_basic_index(tx, key) else None
    if isinstance(part, NdarrayVariable) and is_laid_alike(part.tensor.fake, value.tensor.fake):
        return value
    return value.call_method(tx, "copy", [], {})


def _is_operand(value: VariableTracker) -> bool:
    """Whether NumPy computes with an array and this value; other values may have a reflected method."""
    if value.is_constant():
        return isinstance(value.constant(), (*PYTHON_NUMBERS, np.generic))
    return isinstance(value, (NdarrayVariable, SymNodeVariable))


# Their results are integers that depend on rounding or on the sorting algorithm, so they may differ from NumPy's by any amount.
_DECIDED_BY_ROUNDING = frozenset("argsort argpartition partition histogram histogram2d histogramdd".split())
_READS_NUMBERS = frozenset(("pad",))  # torch's reads arguments back out of tensors, as numbers that depend on data


# -- operations ----------------------------------------------------------------------------------------------------------


def apply(
    tx: Tracer, operation: ArrayOperation, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """Records a NumPy operation in the graph; computes it now if all arguments are constants and the result is a scalar."""
    args = [arg.fixed(tx) if isinstance(arg, NumpyNumberVariable) else arg for arg in args]
    view = VIEWS[operation.name](tx, args, kwargs) if operation.name in VIEWS else None
    if view is not None:
        return view
    args, kwargs = [_operand(tx, arg) for arg in args], {key: _operand(tx, value) for key, value in kwargs.items()}
    args = with_scalars(tx, operation, args, [arg.dtype for arg in args if isinstance(arg, NdarrayVariable)], NdarrayVariable)
    known = known_result(tx, operation, args, kwargs, lambda tensor, values: NdarrayVariable(tensor).knowing(tx, values))
    if known is not None:
        return known
    view_of_known = known_view(tx, operation, args, kwargs)
    try:
        result = _apply_in_torch(tx, operation, args, kwargs)
        if view_of_known is not None and type(result) is NdarrayVariable and result not in args:
            result.knowing(tx, view_of_known)
        return result
    except Unsupported as refused:
        made = _call_numpy(tx, operation, args, kwargs) if refused.id in _LEFT_TO_NUMPY else None
        if made is None:
            raise
        return made


# Makes the views that torch has not, by the names of the operations that give them: None for other arguments (`reversed_arrays`).
VIEWS: dict[str, Callable[[Tracer, list[VariableTracker], dict[str, VariableTracker]], VariableTracker | None]] = {}


def _operand(tx: Tracer, value: VariableTracker) -> VariableTracker:
    if isinstance(value, NdarrayVariable):
        return value.operand(tx)
    if type(value) not in (ListVariable, TupleVariable):
        return value
    assert isinstance(value, SequenceVariable)
    items = value.items(tx)
    operands = [_operand(tx, item) for item in items]
    same = all(new is old for new, old in zip(operands, items))
    return value if same else ListVariable(operands) if isinstance(value, ListVariable) else TupleVariable(operands)


# Why torch may fail to compute what NumPy computes.
_LEFT_TO_NUMPY = ("operator-result", "operator-failed-in-trace", "data-dependent-operator", "data-dependent-value")


def _as_arrays(
    tx: Tracer, args: list[VariableTracker]
) -> tuple[list[VariableTracker], Callable[[TrialArrays, dict[str, VariableTracker]], tuple[list[Any], dict[str, Any]]]]:
    """Arguments of which NumPy reads tensors as arrays that share their memory, and the function that makes the
    arguments of a trial. Tensors of the program are tensors there, too, in the memory of their trial arrays."""
    tensors = [isinstance(arg, TensorVariable) for arg in args]
    args = [arg.call_method(tx, "numpy", [], {}) if is_tensor else arg for arg, is_tensor in zip(args, tensors)]

    def make_arguments(trial: TrialArrays, kwargs: dict[str, VariableTracker]) -> tuple[list[Any], dict[str, Any]]:
        given = [_trial_argument(tx, trial, arg) for arg in args]
        given = [torch.from_numpy(arg) if is_tensor else arg for arg, is_tensor in zip(given, tensors)]
        return given, {key: _trial_argument(tx, trial, value) for key, value in kwargs.items()}

    return args, make_arguments


def _call_numpy(
    tx: Tracer, operation: ArrayOperation, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker | None:
    """Records a call of NumPy itself in the graph; None where a graph cannot hold it."""
    args, make_arguments = _as_arrays(tx, args)
    arrays = list(_arrays(tx, [*args, *kwargs.values()]))
    known_sizes = all(None not in hints(array.tensor.fake.shape) for array in arrays)
    if not arrays or not known_sizes or not all(_is_written(tx, value) for value in (*args, *kwargs.values())):
        return None
    graph_args = tuple(_graph_arg(tx, arg) for arg in args)
    graph_kwargs = {key: _graph_arg(tx, value) for key, value in kwargs.items()}
    tried = forms_by_numpy(operation, lambda trial: make_arguments(trial, kwargs), [array.tensor.fake for array in arrays])
    if tried is None:
        return None
    expected, forms = tried
    if not config.capture_dynamic_output_shape_ops and any(None in form.shape for form in forms):
        return None
    scalars = tuple([array.is_scalar for array in arrays])
    reversed_dims = tuple([array.reversed_dims for array in arrays])
    function = NumpyCall(operation.name, scalars, forms, tuple(rely_on_errors(tx).items()), reversed_dims)
    given = iter(tx.output.call_function(function, graph_args, graph_kwargs).unpack(tx))

    def tracked(like: Any) -> VariableTracker:
        if isinstance(like, (list, tuple)):
            items = [tracked(item) for item in like]
            if type(like) is list:
                return ListVariable(items)
            return TupleVariable(items) if type(like) is tuple else NamedTupleVariable(items, type(like))
        tensor = next(given)
        assert isinstance(tensor, TensorVariable)
        return NdarrayVariable(tensor, type(like))

    return tracked(expected)


def _is_written(tx: Tracer, value: VariableTracker) -> bool:
    """Whether a graph has an argument as it is: an array, or constants of Python."""
    if isinstance(value, SequenceVariable):
        return all(_is_written(tx, item) for item in value.items(tx))
    if isinstance(value, SliceVariable):
        return all(_is_written(tx, part) for part in value.parts)
    return not isinstance(value, SymNodeVariable) and not (value.is_constant() and isinstance(value.constant(), np.generic))


def _apply_in_torch(
    tx: Tracer, operation: ArrayOperation, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """Records an operation that `torch._numpy` computes as NumPy does; breaks the graph where it does not."""
    if operation.name.rpartition(":")[2] in _DECIDED_BY_ROUNDING:
        unsupported("operator-result", operator=operation.name, cls="result that the last bit of a float decides")
    if not is_in_torch(operation.name) or operation.name.partition(":")[2] in _READS_NUMBERS:
        unsupported("operator-result", operator=operation.name, cls="value that torch has no counterpart of")
    args, make_arguments = _as_arrays(tx, args)
    expected, trial = try_in_numpy(operation, lambda trial: make_arguments(trial, kwargs))
    arrays = list(_arrays(tx, [*args, *kwargs.values()]))
    if not arrays and isinstance(expected, np.generic) and all(v.is_constant() for v in (*args, *kwargs.values())):
        return ConstantVariable(expected)
    rely_on_errors(tx)
    graph_args = tuple(_graph_arg(tx, arg) for arg in args)
    graph_kwargs = {key: _graph_arg(tx, value) for key, value in kwargs.items()}
    with writing(tx, *(array.tensor for array in arrays)):
        result = tx.output.call_function(operation, graph_args, graph_kwargs)
    return ArrayResults(tx, operation, trial, arrays, NdarrayVariable).tracked(result, expected)


def _arrays(tx: Tracer, values: Iterable[VariableTracker]) -> Iterable[NdarrayVariable]:
    """The arrays among values, and in lists and tuples among them."""
    for value in values:
        if isinstance(value, NdarrayVariable):
            yield value
        elif isinstance(value, SequenceVariable):
            yield from _arrays(tx, value.items(tx))


def _trial_argument(tx: Tracer, trial: TrialArrays, value: VariableTracker) -> Any:
    """The object that replaces an argument when an operation is tried in NumPy."""
    if isinstance(value, NdarrayVariable):
        array = trial.of(value, value.tensor.fake, value.cls, value.writeable, value.known(tx))
        return trial.with_reversed_dims(value, array, value.reversed_dims) if value.reversed_dims else array
    if isinstance(value, SymNodeVariable):
        number = hint(value.example)
        if number is None:
            unsupported("data-dependent-value", value=value.describe())
        return number
    if isinstance(value, SequenceVariable) and type(value) in (ListVariable, TupleVariable, SizeVariable):
        items = [_trial_argument(tx, trial, item) for item in value.items(tx)]
        return tuple(items) if isinstance(value, TupleVariable) else items
    if isinstance(value, SliceVariable):
        return slice(*(_trial_argument(tx, trial, part) for part in value.parts))
    return _plain(value)


def _graph_arg(tx: Tracer, value: VariableTracker) -> Any:
    """An argument as the node of the operation takes it."""
    if isinstance(value, NdarrayVariable):
        return value.tensor.node
    if isinstance(value, SymNodeVariable):
        return value.graph_arg()
    if isinstance(value, SequenceVariable):
        items = [_graph_arg(tx, item) for item in value.items(tx)]
        return tuple(items) if isinstance(value, TupleVariable) else items
    if isinstance(value, SliceVariable):
        return slice(*(_graph_arg(tx, part) for part in value.parts))
    plain = _plain(value)
    if isinstance(plain, np.dtype):
        return plain.name
    if isinstance(plain, np.generic):  # unlike Python's numbers, it counts fully in type promotion
        exact = torch.from_numpy(np.array(plain)).dtype
        return tx.output.call_function(torch.scalar_tensor, (plain.item(),), {"dtype": exact}).graph_arg()
    return plain


def _plain(value: VariableTracker) -> Any:
    """A constant that both NumPy and `torch._numpy` accept; number classes become dtypes."""
    if value.is_constant():
        constant = value.constant()
        if isinstance(constant, PLAIN):
            return constant
    kind = getattr(value, "value", None)
    if isinstance(kind, type) and is_number_class(kind):
        return np.dtype(kind)
    unsupported("not-a-graph-argument", value=value.describe())
