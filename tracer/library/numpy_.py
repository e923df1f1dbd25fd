"""Models of NumPy's functions: operations of the graph where `torch._numpy` has the function too; the rest breaks the graph.

Functions with side effects are left to CPython, because `torch._numpy` does not keep NumPy's own state. `random_` models
`np.random`.
"""

from __future__ import annotations

import math
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer import _C
from tracer.graph.operations.array_operations import array_operation, is_in_torch
from tracer.graph_breaks import unsupported
from tracer.library import numpy_views
from tracer.library.polyfills import numpy_ as polyfills
from tracer.library.warnings_ import defer_warning
from tracer.protocol.inlining import transparent
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import SequenceVariable
from tracer.variables.tensors.arrays import NdarrayVariable, apply
from tracer.variables.tensors.numpy_sizes import reduced_sizes, rounded_size
from tracer.variables.values.constant import NONE, ConstantVariable, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

assert polyfills and numpy_views  # they come first: a function of them has no other model
_NAMESPACES: tuple[tuple[str, ModuleType], ...] = (("", np), ("linalg.", np.linalg), ("fft.", np.fft))


# Functions that `torch._numpy` lacks, and that do nothing but compute: of constants, NumPy computes them while tracing.
_PURE = frozenset(
    """
    astype base_repr binary_repr block compress concat cumulative_prod cumulative_sum delete digitize ediff1d
    extract format_float_positional format_float_scientific frexp histogram_bin_edges insert interp
    intersect1d isin ix_ kaiser lexsort matrix_transpose nanargmax nanargmin nanmax nanmean nancumprod nancumsum nanprod
    nanmedian nanmin nanpercentile
    nanquantile nanstd nansum nanvar packbits partition argpartition permute_dims poly polyadd polyder polydiv polyfit polyint
    polymul polysub polyval pow ravel_multi_index roots select setdiff1d setxor1d spacing trapezoid trim_zeros union1d unpackbits
    unravel_index unique_all unique_counts unique_inverse unique_values unstack unwrap
    vecdot bitwise_count acos acosh asin asinh atan atan2 atanh
    """.split()
)


_REDUCING = {"prod": "*", "sum": "+"}
_ROUNDING: dict[str, Any] = {"ceil": math.ceil, "floor": math.floor, "trunc": math.trunc}


def _function(paths: list[str]) -> Any:
    operations = [array_operation("function", path) for path in paths]
    reduces = next((_REDUCING[path] for path in paths if path in _REDUCING), None)
    rounds = next((path for path in paths if path in _ROUNDING), None)

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        operation = next((each for each in operations if is_in_torch(each.name)), operations[0])
        if _PURE.isdisjoint(paths) and not is_in_torch(operation.name):
            unsupported("unsupported-builtin", function=f"numpy.{paths[0]}")
        if reduces is not None and len(args) == 1 and isinstance(args[0], SequenceVariable) and not kwargs:
            made = reduced_sizes(tx, reduces, args[0].items(tx))
            if made is not None:
                return made
        rounded = rounded_size(getattr(np, rounds), _ROUNDING[rounds], args) if rounds and not kwargs else None
        return rounded or apply(tx, operation, list(args), kwargs)

    return model


def _functions() -> dict[int, tuple[Any, list[str]]]:
    """NumPy's functions by id, each with all its names."""
    found: dict[int, tuple[Any, list[str]]] = {}
    for prefix, namespace in _NAMESPACES:
        for name in dir(namespace):
            value = None if name.startswith("_") else getattr(namespace, name)
            if callable(value) and not isinstance(value, type):
                found.setdefault(id(value), (value, []))[1].append(prefix + name)
    return found


_ABOUT_DTYPES = "issubdtype result_type promote_types can_cast min_scalar_type common_type isdtype mintypecode isscalar".split()
for _numpys, _paths in _functions().values():
    if models.get(_numpys) is None and set(_ABOUT_DTYPES).isdisjoint(_paths):  # `numpy_dtypes` has those
        models.of_plain_tensors(_numpys)(_function(_paths))


_UFUNCS = {id(value): name for name in dir(np) if isinstance(value := getattr(np, name), np.ufunc)}


def _ufunc_method(name: str) -> Any:
    def model(tx: Tracer, ufunc: Value, /, *args: Value, **kwargs: Value) -> Value:
        """`np.add.reduce(array)` and the like."""
        of = _UFUNCS.get(id(getattr(ufunc, "value", None)))
        if of is None:
            unsupported("unsupported-builtin", function=f"{name} of a ufunc that is not NumPy's")
        return apply(tx, array_operation("function", f"{of}.{name}"), list(args), kwargs)

    return model


for _name in ("reduce", "accumulate", "reduceat", "outer", "at"):
    models.of_plain_tensors(getattr(np.ufunc, _name))(_ufunc_method(_name))


def _grid(name: str) -> Any:
    def model(tx: Tracer, made: Value, key: Value) -> Value:
        """`np.mgrid[key]` and the like."""
        own = getattr(made, "value", None)
        path = next((path for path in _GRIDS if getattr(np, path) is own), None)
        if path is None:
            unsupported("unsupported-builtin", function=f"numpy.{name} of another object")
        return apply(tx, array_operation("function", f"{path}.__getitem__"), [key], {})

    return model


_GRIDS = ("mgrid", "ogrid", "r_", "c_")
for _function_of_grid in dict.fromkeys(type(getattr(np, name)).__getitem__ for name in _GRIDS):
    models.of_plain_tensors(_function_of_grid)(_grid("mgrid"))


def _scalar(cls: type[np.number[Any]]) -> Any:
    def model(tx: Tracer, *args: Value) -> Value:
        if not all(isinstance(arg, ConstantVariable) for arg in args):
            unsupported("unsupported-builtin", function=f"numpy.{cls.__name__} of something else than a constant")
        return fold(tx, cls, *(arg.constant() for arg in args))

    return model


for _name in "int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128".split():
    models.of_plain_tensors(getattr(np, _name))(_scalar(getattr(np, _name)))


transparent(vars(np.errstate)["__init__"], vars(type(np.s_))["__getitem__"])
for _class in (np.ndindex, np.ndenumerate, np.vectorize):
    transparent(*(value for value in vars(_class).values() if isinstance(value, FunctionType)))
_HELPERS = ("_parse_input_dimensions", "_calculate_shapes", "_update_dim_sizes", "_create_arrays", "_parse_gufunc_signature",
            "_get_vectorize_dtype")  # fmt: skip
transparent(*(value for name, value in vars(np.vectorize)["__call__"].__globals__.items() if name in _HELPERS))


@models(np.errstate)
def _error_state(tx: Tracer, **options: Value) -> Value:
    """Entered and left as a context (`effects.torch_state`). What calls back breaks the graph."""
    if "call" in options:
        unsupported("with-block", value="np.errstate with a callback,")
    return tx.type_call(tx.class_variable(np.errstate), [], options)


# -- from arrays to tensors ------------------------------------------------------------------------------------------------


def shared_tensor(tx: Tracer, array: NdarrayVariable) -> Value:
    """A new tensor in the memory of an array."""
    if array.is_scalar:
        unsupported("unsupported-builtin", function="torch.from_numpy of a scalar")
    if not array.writeable:
        defer_warning(tx, "torch.from_numpy of an array that is read only", _warn_of_read_only)
    return array.tensor.call_method(tx, "detach", [], {})


def _warn_of_read_only() -> None:
    """Called by output code. torch warns of an array that is read only, once in a process."""
    torch.from_numpy(np.broadcast_to(np.zeros(()), (1,)))


_C.never_trace(_warn_of_read_only.__code__)


@models.of_plain_tensors(torch.from_numpy)
def _from_numpy(tx: Tracer, array: Value) -> Value:
    if not isinstance(array, NdarrayVariable):
        unsupported("unsupported-builtin", function="torch.from_numpy")
    return shared_tensor(tx, array)


def tensor_of(
    tx: Tracer, array: NdarrayVariable, copies: bool, dtype: Value = NONE, device: Value = NONE, **kwargs: Value
) -> Value:
    """`torch.tensor(array)` or, where it need not copy, `torch.as_tensor(array)`."""
    if kwargs:
        unsupported("unsupported-builtin", function=f"torch.tensor of an array with {', '.join(kwargs)}")
    if copies or array.is_scalar:
        tensor = array.tensor.call_method(tx, "clone", [], {})
    else:
        tensor = shared_tensor(tx, array)
    for asked in (dtype, device):
        if not asked.is_none():
            tensor = tensor.call_method(tx, "to", [asked], {})
    return tensor
