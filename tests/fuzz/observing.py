"""What can be seen of values, as lines of text: types, values to the bit, order, and who is whose alias.

Two runs of one program in two modules are compared line by line, so objects are named by the order in which they are
met and classes by their qualified names. Nothing is changed by looking: iterators are shown by type alone.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import logging
import random
import types
from typing import Any

import torch

from tests.fuzz import FILE

_ATOMS = (int, bool, str, bytes, type(None), type(...), torch.dtype, range, slice, torch.device)
_NAMES = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,  # which keeps the overloads that it was asked for
)
_DEPTH = 40
_OF_TORCH = "_dynamo_"  # begins the names of the marks that AOTAutograd puts on its results


_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-7, torch.bfloat16: 3e-2, torch.float16: 5e-3}


@dataclasses.dataclass(frozen=True, eq=False)
class Nearly:
    """The line of a tensor whose values need not be equal to the bit: relative and absolute tolerance go by its dtype."""

    path: str
    values: torch.Tensor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nearly) or self.path != other.path or self.values.dtype != other.values.dtype:
            return False
        near = _TOLERANCE.get(self.values.dtype, 0.0)
        with torch._C.DisableTorchFunctionSubclass():
            return self.values.shape == other.values.shape and torch.allclose(
                self.values, other.values, rtol=near, atol=near, equal_nan=True
            )

    def __str__(self) -> str:
        return f"{self.path}: {self.values.flatten()[:6].tolist()}"


class Observation:
    """The lines seen so far, and the objects met. Where it is not `exact`, values of tensors may differ a little. Where programs
    are `compiled`, the texts of exceptions and the lines that raised them are not looked at: operations are ordered anew."""

    def __init__(self, exact: bool = True, compiled: bool = False) -> None:
        self.exact, self.compiled = exact, compiled
        self.lines: list[str | Nearly] = []
        self.met: dict[int, str] = {}
        self.storages: dict[int, str] = {}
        self.alive: list[Any] = []

    def note(self, path: str, text: str) -> None:
        self.lines.append(f"{path}: {text}")

    def see(self, path: str, value: Any, depth: int = 0) -> None:
        cls = type(value)
        if cls in _ATOMS:
            self.note(path, f"{cls.__name__} {value!r}")
        elif cls is float and not self.exact:  # as a rule, of `item` of a tensor of this dtype
            self.lines.append(Nearly(path, torch.tensor(value, dtype=torch.float32)))
        elif cls in (float, complex):
            self.note(path, repr(value))
        elif cls is logging.Manager:
            self.note(path, "all loggers of the process, those of the tracer too")
        elif _is(value, _NAMES) and not _is_inner(value):
            self.note(path, f"{cls.__name__} {value.__qualname__ if hasattr(value, '__qualname__') else value.__name__}")
        elif id(value) in self.met:
            self.note(path, f"the same as {self.met[id(value)]}")
        elif depth > _DEPTH:
            self.note(path, f"{cls.__qualname__}, too deep")
        else:
            self.alive.append(value)
            if not (cls in (tuple, frozenset) and _may_be_shared(value)):
                self.met[id(value)] = path
            self.parts(path, value, depth + 1)

    def parts(self, path: str, value: Any, depth: int) -> None:
        cls = type(value)
        self.note(path, cls.__qualname__)
        if _is(value, torch.Tensor):
            self._tensor(path, value, depth)
        elif _is(value, dict):
            self._items(path, list(dict.items(value)) if not _is(value, collections.OrderedDict) else list(value.items()), depth)
        elif _is(value, (list, tuple, collections.deque)):
            self.note(path, f"{len(value)} items {getattr(value, 'maxlen', '')}")
            for index, item in enumerate(value):
                self.see(f"{path}[{index}]", item, depth)
        elif _is(value, (set, frozenset)):
            self._set(path, value, depth)
        elif _is(value, BaseException):
            self.exception(path, value, depth)
        elif _is(value, (types.FunctionType, types.MethodType, functools.partial)):
            self._callable(path, value, depth)
        elif _is(value, (int, str, float, bytes)):
            self.note(path, cls.__mro__[-2].__repr__(value))
        self._attributes(path, value, depth)

    def _items(self, path: str, items: list[Any], depth: int) -> None:
        self.note(path, f"{len(items)} items")
        for index, (key, value) in enumerate(items):
            self.see(f"{path}.key{index}", key, depth)
            label = repr(key) if _is(key, (str, int)) else f"key{index}"
            self.see(f"{path}[{label}]", value, depth)

    def _set(self, path: str, value: Any, depth: int) -> None:
        plain = all(type(item) in (int, bool) for item in value)
        self.note(path, repr(list(value)) if plain else f"{len(value)} items {sorted(map(repr, value))}")

    def _tensor(self, path: str, value: torch.Tensor, depth: int) -> None:
        if hasattr(type(value), "__tensor_flatten__"):
            return  # its parts are attributes, which an __init__ under way has not set yet
        shown = value.detach()
        is_leaf = _is_leaf(value)
        self.note(
            path, f"{value.dtype} {tuple(value.shape)} strides {self._strides(value)} grad {value.requires_grad} leaf {is_leaf}"
        )
        if self.exact:
            self.note(path, f"{_bits(shown)} {shown.flatten()[:6].tolist()}")
        else:
            self.lines.append(Nearly(path, shown.clone()))
        if value.numel():
            self.alive.append(value.untyped_storage())
            storage = self.storages.setdefault(value.untyped_storage().data_ptr(), path)
            self.note(path, f"memory of {storage} at {value.storage_offset()}")
        if is_leaf is True and value.grad is not None:
            self.see(f"{path}.grad", value.grad, depth)

    def _strides(self, value: torch.Tensor) -> tuple[int, ...]:
        """Compilers choose the stride of a dim of one element, which leads nowhere."""
        return tuple([0 if self.compiled and size == 1 else stride for size, stride in zip(value.shape, value.stride())])

    def _callable(self, path: str, value: Any, depth: int) -> None:
        if _is(value, functools.partial):
            for name in ("func", "args", "keywords"):
                self.see(f"{path}.{name}", getattr(value, name), depth)
        elif _is(value, types.MethodType):
            self.see(f"{path}.__func__", value.__func__, depth)
            self.see(f"{path}.__self__", value.__self__, depth)
        else:
            self.note(path, f"{value.__qualname__} {value.__code__.co_firstlineno}")
            self.see(f"{path}.__defaults__", value.__defaults__, depth)
            self.see(f"{path}.__kwdefaults__", value.__kwdefaults__, depth)
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
                self.see(f"{path}.<{name}>", cell, depth)
                self.see(f"{path}.{name}", _contents(cell), depth)

    def exception(self, path: str, error: BaseException, depth: int) -> None:
        self.note(path, type(error).__qualname__)
        if not self.compiled:
            self.note(path, str(error))
            self.see(f"{path}.args", error.args, depth)
        self.see(f"{path}.__notes__", getattr(error, "__notes__", None), depth)
        self.note(path, f"suppresses its context: {error.__suppress_context__}")
        if not self.compiled:
            self.note(path, f"raised at {_raised_at(error)}")
        for name in ("__cause__", "__context__"):
            self.see(f"{path}.{name}", getattr(error, name), depth)
        if _is(error, BaseExceptionGroup):
            self.see(f"{path}.exceptions", list(error.exceptions), depth)

    def _attributes(self, path: str, value: Any, depth: int) -> None:
        if _is(value, (torch.nn.Parameter, types.FunctionType, types.MethodType, torch.nn.Module)) and not _is(
            value, torch.nn.Module
        ):
            return
        inside = [
            (key, item) for key, item in _instance_dict(value).items() if key != "__notes__" and not key.startswith(_OF_TORCH)
        ]
        if inside:
            self._items(f"{path}.__dict__", inside, depth)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ()) if base.__module__ not in ("builtins", "torch") else ()
            for name in (slots,) if _is(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    self.see(f"{path}.{name}", getattr(value, name, "unset"), depth)
        if _is(value, collections.defaultdict):
            self.see(f"{path}.default_factory", value.default_factory, depth)

    def namespace(self, path: str, names: dict[str, Any]) -> None:
        """The globals of a program: what is data, and the data of its classes."""
        for name in sorted(names):
            value = names[name]
            if name.startswith("__") or _is(value, types.ModuleType) or name in ("main", "opaque", "noted", "calls", "arguments"):
                continue
            if _is(value, type):
                for key, part in list(vars(value).items()):
                    if (
                        type(part) in (int, str, list, dict, float)
                        and not key.startswith("__")
                        and key not in ("_member_names_",)
                    ):
                        self.see(f"{path}{name}.{key}", part)
            else:
                self.see(f"{path}{name}", value)

    def random_state(self) -> None:
        self.note("torch's random state", hashlib.sha1(torch.get_rng_state().numpy().tobytes()).hexdigest()[:8])
        self.note("Python's random state", hashlib.sha1(repr(random.getstate()).encode()).hexdigest()[:8])


def _is_leaf(value: torch.Tensor) -> bool | str:
    """Whether a tensor is a leaf; autograd's refusal to say so, of a view made without gradients whose base was written to."""
    try:
        return value.is_leaf
    except RuntimeError as error:
        return str(error)


def _bits(values: torch.Tensor) -> str:
    """A digest of the values, in the order of their indices."""
    if not values.numel():
        return ""
    packed = values.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8)
    return hashlib.sha1(packed.numpy().tobytes()).hexdigest()[:8]


def _is(value: Any, classes: Any) -> bool:
    """isinstance() by the type alone: reading `__class__` may run a `__getattribute__` of the program."""
    return issubclass(type(value), classes)


def _is_inner(value: Any) -> bool:
    """A function made while the program ran, or a method of a container: looked into."""
    return (
        _is(value, types.FunctionType)
        and value.__code__.co_filename == FILE
        or (_is(value, types.BuiltinFunctionType) and _is(value.__self__, (list, dict, set)))
    )


def _may_be_shared(value: Any) -> bool:
    """CPython shares constants, so the identity of a tuple of constants says nothing."""
    return all(
        type(item) in (int, str, float, bool, type(None), bytes) or (type(item) in (tuple, frozenset) and _may_be_shared(item))
        for item in value
    )


def _instance_dict(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if _is(found, dict) else {}


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing"


def _raised_at(error: BaseException) -> str:
    """The last line of the program that the traceback names."""
    line, tb = None, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == FILE:
            line = tb.tb_lineno
        tb = tb.tb_next
    return f"line {line}"
