"""Reading objects without running user code: what `check_fn` calls, what generated code calls, and what `get` calls.

Each function raises (TypeError, KeyError, IndexError, AttributeError, ValueError) where there is nothing to read; in a
guard that is a miss. `sources.steps` says which step each is for.
"""

from __future__ import annotations

import collections
import gc
import itertools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tracer._C import instance_dict as instance_dict
from tracer._C import raw_attr as raw_attr

type_dict = type.__dict__["__dict__"].__get__  # class -> its own namespace, whatever its metaclass defines
type_mro = type.__dict__["__mro__"].__get__
_type_flags = type.__dict__["__flags__"].__get__

_Function = types.FunctionType.__dict__
function_closure = _Function["__closure__"].__get__
function_defaults = _Function["__defaults__"].__get__
function_kwdefaults = _Function["__kwdefaults__"].__get__
function_globals = _Function["__globals__"].__get__
function_code = _Function["__code__"].__get__
cell_contents = types.CellType.__dict__["cell_contents"].__get__
method_self = types.MethodType.__dict__["__self__"].__get__
method_func = types.MethodType.__dict__["__func__"].__get__
_tensor_grad = torch._C.TensorBase.__dict__["grad"].__get__
_FieldDescriptor: Any = type(vars(collections.namedtuple("_Plain", "field"))["field"])


def is_heap_type(cls: type) -> bool:
    """Whether a class was made while the program ran, by a class statement as a rule (Py_TPFLAGS_HEAPTYPE). Those that modules
    in C make at import (`deque`, from Python 3.12 on) do not count: they are fixed, too (Py_TPFLAGS_IMMUTABLETYPE)."""
    flags: int = _type_flags(cls)
    return flags & (1 << 9 | 1 << 8) == 1 << 9


def can_be_instantiated(cls: type) -> bool:
    """Whether a class can make instances when it is called (Py_TPFLAGS_DISALLOW_INSTANTIATION): `re.Match` cannot."""
    flags: int = _type_flags(cls)
    return not flags & 1 << 7


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of the functions and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], index: int, name: str) -> Any:
    """The argument at an index of *args, or else that of a name in **kwargs."""
    if len(args) <= index and name not in kwargs:
        raise KeyError(f"the call passes no {name!r}")
    return args[index] if len(args) > index else kwargs[name]


def type_item(cls: type, name: str) -> Any:
    """What stands under a name in the class's own namespace."""
    return type_dict(cls)[name]


def type_lookup(cls: type, name: str) -> Any:
    """The attribute as the type's own MRO has it, unbound: descriptors are not called."""
    for klass in type_mro(cls):
        namespace = type_dict(klass)
        if name in namespace:
            return namespace[name]
    raise AttributeError(name)


def is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    """isinstance() by the real type of a value. The builtin also reads `__class__`, which may run user code."""
    return issubclass(type(value), kind)


def field_index(static: Any) -> int | None:
    """The index of the item that a class attribute of a named tuple reads; None if the value is no such attribute."""
    return static.__reduce__()[1][0] if type(static) is _FieldDescriptor else None


def item(container: Any, key: Any) -> Any:
    """`container[key]` as list, tuple, dict, deque or mappingproxy define it, also for subclasses that override it."""
    container = unproxied(container)
    cls = type(container)
    for kind in (tuple, list, dict, collections.deque):
        if issubclass(cls, kind):
            return kind.__getitem__(container, key)
    raise TypeError(f"{cls.__name__} is not a container that can be read without running its code")


def dict_behind(shown: Any) -> Any:
    """The dict that a mappingproxy or a view of a dict shows. The `mapping` of a view would be a new proxy."""
    return gc.get_referents(shown)[0]


def unproxied(container: Any) -> Any:
    """The mapping behind a mappingproxy (which would ask that mapping's own methods); anything else as it is."""
    return dict_behind(container) if type(container) is types.MappingProxyType else container


def size(container: Any) -> int:
    """`len` as the builtin containers define it, also for subclasses that override it."""
    container = unproxied(container)
    cls = type(container)
    for kind in (tuple, list, dict, str, bytes, set, frozenset, collections.deque, bytearray, range):
        if issubclass(cls, kind):
            return kind.__len__(container)
    raise TypeError(f"{cls.__name__} is not a container whose size can be read without running its code")


def dict_key(mapping: dict[Any, Any], index: int) -> Any:
    """The i-th key, in order of insertion."""
    return _nth(dict.keys(unproxied(mapping)), index)


def dict_value(mapping: dict[Any, Any], index: int) -> Any:
    """The value of the i-th key; no key is hashed."""
    return _nth(dict.values(unproxied(mapping)), index)


def _nth(view: Any, index: int) -> Any:
    for found in itertools.islice(view, index, None):
        return found
    raise IndexError(index)


def weak_target(reference: weakref.ref[Any]) -> Any:
    """What a weak reference refers to, which a guard has found alive."""
    target = weakref.ref.__call__(reference)
    if target is None:
        raise ReferenceError("what the reference refers to has died meanwhile")
    return target


# Under a torch-function mode, and for subclasses with __torch_function__, even t.grad would run their code.


def tensor_grad(tensor: torch.Tensor) -> torch.Tensor | None:
    with torch._C.DisableTorchFunction():
        return _tensor_grad(tensor)


def tensor_of_array(array: Any) -> torch.Tensor:
    """The tensor that shares an array's memory; of a NumPy scalar, a tensor without dims that holds its value."""
    cls = type(array)
    if cls is not np.ndarray and not cls.__module__ == "numpy":
        raise TypeError(f"{cls.__name__} is neither an array nor a scalar of NumPy")
    if cls is not np.ndarray:
        return torch.from_numpy(np.array(array))
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Unprotected(array)))


def number_of_scalar(scalar: Any) -> Any:
    """The Python number of a scalar of NumPy."""
    cls = type(scalar)
    if not issubclass(cls, np.number) or cls.__module__ != "numpy":
        raise TypeError(f"{cls.__name__} is no number of NumPy")
    return scalar.item()


class _Unprotected:
    """The memory of a read-only array, of which torch makes a tensor without a warning. The trace knows that it is read-only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self._array.__array_interface__
        return {**interface, "data": (interface["data"][0], False)}


def tensor_of_number(number: float) -> torch.Tensor:
    """A tensor without dims that holds a float or an int."""
    return torch.from_numpy(np.array(number, np.float64 if type(number) is float else np.int64))


def tensor_of_drawn(drawn: Any) -> torch.Tensor:
    """A random number, of Python or NumPy, as a tensor without dims; an array of them as the tensor in its memory; a tensor
    itself."""
    if isinstance(drawn, torch.Tensor):
        return drawn
    if type(drawn) is list:
        return torch.tensor(drawn, dtype=torch.float64 if type(drawn[0]) is float else torch.int64)
    return torch.from_numpy(np.asarray(drawn)) if isinstance(drawn, (np.ndarray, np.generic)) else tensor_of_number(drawn)
