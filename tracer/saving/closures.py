"""Functions around compiled graphs, as data.

What a backend returns is wrapped in functions of the tracer, nested ones that hold values in their cells. Such a function is
written as the place of its code in the tracer's sources, which the head of a file has a digest of, and the values of its cells.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator
from typing import Any

from tracer import _C
from tracer.saving.fingerprints import Refused

Place = tuple[str, str, tuple[int, ...], tuple[Any, ...]]  # module, outermost function, indices of constants, values of cells


def is_compiled_graph(function: types.FunctionType) -> bool:
    """Whether AOTAutograd has returned it, or `compiled_graphs.loaded`."""
    return "serialize" in function.__dict__


def is_own_closure(function: types.FunctionType) -> bool:
    module: Any = function.__module__  # None where its globals have no name
    return isinstance(module, str) and module.partition(".")[0] == "tracer" and "<locals>" in function.__qualname__


def place_of_closure(function: types.FunctionType) -> Place:
    """The arguments with which `own_closure` makes the function again. Raises Refused if its code is not found."""
    name = function.__qualname__.partition(".<locals>")[0]
    for code, path in nested_code(_outermost(function.__module__, name)):
        if code is function.__code__ and not function.__defaults__ and not function.__kwdefaults__:
            return function.__module__, name, path, tuple([cell.cell_contents for cell in function.__closure__ or ()])
    raise Refused(f"the code of {function.__qualname__} is not found in {function.__module__}")


def own_closure(module: str, name: str, path: tuple[int, ...], values: tuple[Any, ...]) -> types.FunctionType:
    code = _outermost(module, name)
    for index in path:
        code = code.co_consts[index]
    _C.never_trace(code)
    cells = tuple(map(types.CellType, values))
    return types.FunctionType(code, vars(importlib.import_module(module)), code.co_name, None, cells)


def data_of_graph(compiled: types.FunctionType) -> bytes:
    """The argument with which `compiled_graph` makes a compiled graph again. Raises Refused."""
    from tracer.saving import compiled_graphs  # late: torch's compilers

    return compiled_graphs.data_of(compiled)


def compiled_graph(data: bytes) -> Callable[..., Any]:
    from tracer.saving import compiled_graphs  # late: torch's compilers

    return compiled_graphs.loaded(data)


def writes_itself(compiled: Any) -> bool:
    """Whether the class of what a backend returned has the methods `serialize_compile_artifacts(compiled) -> bytes` and
    `deserialize_compile_artifacts(bytes) -> compiled`."""
    return hasattr(type(compiled), "serialize_compile_artifacts") and hasattr(type(compiled), "deserialize_compile_artifacts")


def own_data_of(compiled: Any) -> tuple[type, bytes]:
    """The arguments with which `of_own_data` makes such an object again."""
    return type(compiled), type(compiled).serialize_compile_artifacts(compiled)


def of_own_data(cls: Any, data: bytes) -> Any:
    return cls.deserialize_compile_artifacts(data)


class UnreadData:
    """What stands for such an object where its data is not read. Nobody calls it."""

    def __init__(self, cls: Any, data: bytes) -> None:
        self.cls, self.data = cls, data

    def __call__(self, *args: Any) -> Any:
        raise RuntimeError(f"the {self.cls.__qualname__} was not read")


def nested_code(code: types.CodeType, path: tuple[int, ...] = ()) -> Iterator[tuple[types.CodeType, tuple[int, ...]]]:
    """The code of all functions inside of a function, each with the indices of constants that lead to it."""
    for index, const in enumerate(code.co_consts):
        if isinstance(const, types.CodeType):
            yield const, (*path, index)
            yield from nested_code(const, (*path, index))


def _outermost(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.__code__
