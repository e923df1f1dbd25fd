"""Structural comparison of what two runs of one program left behind: values, types, aliasing, tensors to the bit."""

from __future__ import annotations

import collections
import copy
import functools
import types
from collections.abc import Iterable
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np
import torch

_ITERATORS = (
    type(iter([])), type(iter(())), type(iter({})), type(iter({}.values())), type(iter({}.items())), type(iter("")),
    type(iter(range(0))), type(iter(set())), type(reversed([])), type(iter(int, 1)), enumerate, zip, map, filter,
    types.GeneratorType,
)  # fmt: skip
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_ATOMS = (
    int, float, complex, bool, str, bytes, type(None), type(...), type, types.ModuleType, torch.dtype, torch.device,
    types.BuiltinFunctionType, torch.layout, torch.memory_format, range, slice, types.CodeType, types.UnionType,
)  # fmt: skip
_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_FUNCTION_FIELDS = (
    "__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__",
)  # fmt: skip
MOST_ITEMS = 1000
_ROOT = Path(__file__).parents[2]
_OTHER_FILES = (_ROOT / "tracer", _ROOT / "shapes", Path(__file__).parent, Path(torch.__file__).parent)


class Comparison:
    """Compares pairs of values; what was one object on one side must be one object on the other."""

    def __init__(self) -> None:
        self.theirs: dict[int, int] = {}
        self.mine: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.storages_back: dict[int, int] = {}
        self.alive: list[Any] = []  # so that no id is used twice

    def same(self, expected: Any, seen: Any, path: str) -> None:
        if type(expected) is not type(seen):
            alike = is_made(type(expected)) and is_made(type(seen))
            assert alike, f"{path}: {expected!r} of {type(expected)}, but {seen!r} of {type(seen)}"
            self.same(type(expected), type(seen), f"type({path})")
        if is_made(expected) and is_made(seen):
            self._made_class(expected, seen, path)
            return
        if isinstance(expected, np.generic):
            self._array(expected, seen, path)
            return
        if isinstance(expected, _ATOMS):
            self._atom(expected, seen, path)
            return
        if not (type(expected) in (tuple, frozenset) and not expected):
            known = self.theirs.setdefault(id(expected), id(seen))
            back = self.mine.setdefault(id(seen), id(expected))
            assert known == id(seen) and back == id(expected), f"{path}: aliasing differs"
        if any(kept is expected for kept in self.alive):
            return
        self.alive += [expected, seen]
        self._parts(expected, seen, path)

    def _made_class(self, expected: Any, seen: Any, path: str) -> None:
        """Classes that the two runs made: each has its own."""
        if self.theirs.setdefault(id(expected), id(seen)) == id(expected):  # a class of neither run
            return
        assert self.theirs[id(expected)] == id(seen), f"{path}: another class"
        assert self.mine.setdefault(id(seen), id(expected)) == id(expected), f"{path}: another class"
        if any(kept is expected for kept in self.alive):
            return
        self.alive += [expected, seen]
        self.sequence([type(expected), *expected.__bases__], [type(seen), *seen.__bases__], f"{path}.__bases__")
        ours, theirs = vars(expected), vars(seen)
        assert list(ours) == list(theirs), f"{path}: expected {list(ours)}, saw {list(theirs)}"
        for name in ours:
            if name == "__static_attributes__":  # Python 3.13; equal constants of a class body are one object in CPython alone
                assert ours[name] == theirs[name], f"{path}.{name}: expected {ours[name]}, saw {theirs[name]}"
            elif not isinstance(ours[name], _SLOTS) and name != "_backward_cls":
                self._class_attribute(ours[name], theirs[name], f"{path}.{name}")

    def _class_attribute(self, expected: Any, seen: Any, path: str) -> None:
        if type(expected) is type(seen) and isinstance(expected, (staticmethod, classmethod)):
            self.same(expected.__func__, seen.__func__, path)
        elif type(expected) is property is type(seen):
            for part in ("fget", "fset", "fdel"):
                self.same(getattr(expected, part), getattr(seen, part), f"{path}.{part}")
        else:
            self.same(expected, seen, path)

    def _array(self, expected: Any, seen: Any, path: str) -> None:
        """Arrays and scalars of NumPy: torch's operators give their values to tolerance."""
        assert (expected.dtype, expected.shape) == (seen.dtype, seen.shape), f"{path}: dtype or shape differ"
        assert expected.flags.writeable is seen.flags.writeable, f"{path}: one of the two is read only"
        np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-12, err_msg=path)

    def _atom(self, expected: Any, seen: Any, path: str) -> None:
        if isinstance(expected, (type, types.ModuleType, types.BuiltinFunctionType)) and not isinstance(
            getattr(expected, "__self__", None), (list, dict, set)
        ):
            same = expected is seen or getattr(expected, "__qualname__", 0) == getattr(seen, "__qualname__", 1)
        elif isinstance(expected, (float, complex)):
            same = repr(expected) == repr(seen)
        else:
            same = expected == seen
        assert same, f"{path}: expected {expected!r}, saw {seen!r}"

    def _parts(self, expected: Any, seen: Any, path: str) -> None:
        if isinstance(expected, np.ndarray):
            self._array(expected, seen, path)
            return
        if isinstance(expected, torch.Tensor):
            self._tensor(expected, seen, path)
            if type(expected) is torch.Tensor or type(expected) is torch.nn.Parameter:
                return
        elif isinstance(expected, dict):
            cls = collections.OrderedDict if isinstance(expected, collections.OrderedDict) else dict
            self.sequence(list(cls.items(expected)), list(cls.items(seen)), f"{path}.items()")
        elif isinstance(expected, (list, tuple, collections.deque)):
            self.sequence(list(expected), list(seen), path)
        elif isinstance(expected, (set, frozenset)):
            self._set(expected, seen, path)
        elif isinstance(expected, _VIEWS) or isinstance(expected, _ITERATORS) or _is_iterator(expected):
            self.sequence(take(expected), take(seen), f"{path}...")
        elif isinstance(expected, BaseException):
            self.exception(expected, seen, path)
        elif isinstance(expected, types.FunctionType):
            self._function(expected, seen, path)
        elif isinstance(expected, types.MethodType):
            self.same(expected.__func__, seen.__func__, f"{path}.__func__")
            self.same(expected.__self__, seen.__self__, f"{path}.__self__")
        elif isinstance(expected, functools.partial):
            for name in ("func", "args", "keywords"):
                self.same(getattr(expected, name), getattr(seen, name), f"{path}.{name}")
        self._attributes(expected, seen, path)

    def sequence(self, expected: list[Any], seen: list[Any], path: str) -> None:
        assert len(expected) == len(seen), f"{path}: expected {expected!r}, saw {seen!r}"
        for index, (left, right) in enumerate(zip(expected, seen)):
            if type(left) is tuple is type(right) and path.endswith((".items()", "...")):
                self.sequence(list(left), list(right), f"{path}[{index}]")  # fresh tuples: no aliasing to compare
            else:
                self.same(left, right, f"{path}[{index}]")

    def _set(self, expected: Any, seen: Any, path: str) -> None:
        if all(isinstance(item, (int, str, float, tuple, frozenset, bytes, type(None))) for item in expected):
            assert expected == seen, f"{path}: expected {expected!r}, saw {seen!r}"
            if all(isinstance(item, int) for item in expected):
                assert list(expected) == list(seen), f"{path}: the order differs: {list(expected)}, {list(seen)}"
        else:
            assert len(expected) == len(seen), path

    def _function(self, expected: Any, seen: Any, path: str) -> None:
        assert expected.__code__ is seen.__code__ or expected.__code__ == seen.__code__, f"{path}: other code"
        for name in _FUNCTION_FIELDS:
            self.same(getattr(expected, name), getattr(seen, name), f"{path}.{name}")
        made = expected.__globals__.get("__name__", "").startswith("namedtuple_")  # a module of its own for each class
        assert made or expected.__globals__ is seen.__globals__, f"{path}: other globals"
        cells = zip(expected.__code__.co_freevars, expected.__closure__ or (), seen.__closure__ or (), strict=True)
        for index, (name, left, right) in enumerate(cells):
            if name == "__classdict__":  # the namespace of a class; emptied where that has died (a dataclass with slots has two)
                continue
            self.same(_contents(left), _contents(right), f"{path}.__closure__[{index}]")

    def _attributes(self, expected: Any, seen: Any, path: str) -> None:
        ours, theirs = getattr(expected, "__dict__", None), getattr(seen, "__dict__", None)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            self.sequence(list(ours.items()), list(theirs.items()), f"{path}.__dict__.items()")
        for name in _slots(type(expected)):
            assert hasattr(expected, name) == hasattr(seen, name), f"{path}.{name}"
            if hasattr(expected, name):
                self.same(getattr(expected, name), getattr(seen, name), f"{path}.{name}")
        if getattr(expected, "default_factory", None) is not None:
            self.same(expected.default_factory, seen.default_factory, f"{path}.default_factory")

    def exception(self, expected: BaseException, seen: BaseException, path: str) -> None:
        assert str(expected) == str(seen), f"{path}: expected {expected!r}, saw {seen!r}"
        lines, seen_lines = user_lines(expected.__traceback__), user_lines(seen.__traceback__)
        assert lines == seen_lines, f"{path}: expected the traceback {lines}, saw {seen_lines}"
        self.sequence(list(expected.args), list(seen.args), f"{path}.args")
        for name in ("__cause__", "__context__", "__suppress_context__"):
            self.same(getattr(expected, name), getattr(seen, name), f"{path}.{name}")

    def _tensor(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        for what in ("dtype", "shape", "device", "requires_grad", "layout", "is_leaf"):
            left, right = getattr(expected, what), getattr(seen, what)
            assert left == right, f"{path}.{what}: expected {left}, saw {right}"
        if expected.layout is not torch.strided:
            self._sparse(expected, seen, path)
            return
        if expected.is_quantized or seen.is_quantized:
            self._quantised(expected, seen, path)
            return
        assert expected.stride() == seen.stride(), f"{path}: strides {expected.stride()}, {seen.stride()}"
        same = torch.equal(_bits(expected), _bits(seen)) or torch.equal(expected, seen)
        assert same, f"{path}: expected {expected}, saw {seen}"
        mine, theirs = expected.untyped_storage().data_ptr(), seen.untyped_storage().data_ptr()
        if expected.numel():
            known, back = self.storages.setdefault(mine, theirs), self.storages_back.setdefault(theirs, mine)
            assert known == theirs and back == mine, f"{path}: shared memory differs"
        if (expected.grad is None) != (seen.grad is None):
            raise AssertionError(f"{path}.grad: expected {expected.grad}, saw {seen.grad}")
        if expected.grad is not None:
            self.same(expected.grad, seen.grad, f"{path}.grad")

    def _quantised(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        """torch crashes where the bytes of such a tensor are viewed."""
        assert (expected.is_quantized, expected.qscheme()) == (seen.is_quantized, seen.qscheme()), path
        axis = expected.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams)
        for name in (
            ("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis") if axis else ("q_scale", "q_zero_point")
        ):
            self.same(getattr(expected, name)(), getattr(seen, name)(), f"{path}.{name}()")
        self.same(expected.int_repr(), seen.int_repr(), f"{path}.int_repr()")

    def _sparse(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        assert torch.equal(_bits(expected.to_dense()), _bits(seen.to_dense())), f"{path}: expected {expected}, saw {seen}"


def user_lines(traceback: types.TracebackType | None) -> list[tuple[str, str, int]]:
    """File, function and line of each frame of the program in a traceback. A resume function is named for what it resumes."""
    lines = []
    for frame, line in walk_tb(traceback):
        path = Path(frame.f_code.co_filename)
        if not any(path.is_relative_to(other) for other in _OTHER_FILES):
            lines.append((path.name, frame.f_code.co_name, line))
    return lines


def is_made(value: Any) -> bool:
    """Whether a class is one of those that a function makes at each call."""
    return isinstance(value, type) and "<locals>" in value.__qualname__


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "an empty cell"


def _slots(cls: type) -> Iterable[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield name


def _is_iterator(value: Any) -> bool:
    return hasattr(value, "__next__") and not type(value).__flags__ & (1 << 9)


def take(iterable: Any) -> list[Any]:
    """The first items of an iterable, and how it ended."""
    items: list[Any] = []
    iterator = iter(iterable)
    try:
        while len(items) < MOST_ITEMS:
            items.append(next(iterator))
    except StopIteration:
        pass
    except Exception as error:
        items.append(error)
    return items


def deep_copied(value: Any) -> Any:
    """A copy that keeps aliasing between the parts, with views of one tensor still views of one."""
    memo: dict[int, Any] = {}
    return copy.deepcopy(value, memo)
