"""pickle: its Python code, which calls what a pickle needs of the program: `__reduce_ex__`, `__getstate__`, `__setstate__`."""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
import types
from typing import Any

from tracer.library.polyfills.in_python import in_python

_pickle: Any = in_python(pickle, "_pickle")
for _name in ("PickleError", "PicklingError", "UnpicklingError"):
    setattr(_pickle, _name, getattr(pickle, _name))


def key_of(obj: Any) -> Any:
    """A key that is equal for equal constants; None for other objects. It has a model (`library.pickle_`)."""
    raise NotImplementedError


def is_the_only_one(obj: Any) -> bool:
    """Whether equal constants of this class are one object. It has a model."""
    raise NotImplementedError


def names_of(obj: Any, name: str | None) -> tuple[str, str]:
    """The module of a class or a function, and its name there. It has a model."""
    raise NotImplementedError


def named(module: str, name: str) -> Any:
    """The class or function of that name. It has a model."""
    raise NotImplementedError


def registered() -> dict[type, Any]:
    """`copyreg.dispatch_table`. It has a model."""
    return copyreg.dispatch_table


class Framer(_pickle._Framer):
    current_frame: Any

    def commit_frame(self, force: bool = False) -> None:
        """As in pickle, with a copy of the bytes instead of a view of them."""
        if self.current_frame and (force or self.current_frame.tell() >= self._FRAME_SIZE_TARGET):
            data = self.current_frame.getvalue()
            if len(data) >= self._FRAME_SIZE_MIN:
                self.file_write(pickle.FRAME + struct.pack("<Q", len(data)))
            self.file_write(data)
            self.current_frame = io.BytesIO()


class Pickler(_pickle._Pickler):
    """A pickle refers back to an object that it has written. Equal constants are one object or two: nobody knows that while
    tracing, and with `is_ambiguous` set, the pickle may be another one than that of CPython, of the same value."""

    dispatch = {**_pickle._Pickler.dispatch}

    def __init__(self, file: Any, protocol: int | None) -> None:
        super().__init__(file, protocol)
        self.framer = Framer(file.write)
        self.write, self._write_large_bytes = self.framer.write, self.framer.write_large_bytes
        self.known: dict[Any, int] = {}  # of constants: the places in the memo
        self.is_ambiguous = False
        self.dispatch_table = registered()

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        key = key_of(obj)
        if key is None or key not in self.known:
            super().save(obj)
            return
        self.framer.commit_frame()
        self.is_ambiguous = self.is_ambiguous or not is_the_only_one(obj)
        self.write(self.get(self.known[key]))

    def memoize(self, obj: Any) -> None:
        place = len(self.memo)
        self.write(self.put(place))
        key = key_of(obj)
        if key is None:
            self.memo[id(obj)] = place, obj
        else:
            self.known[key] = place
            self.memo[place, key] = place, obj  # which no object finds

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, name = names_of(obj, name)
        self.save(module)
        self.save(name)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)

    def save_bytearray(self, obj: bytearray) -> None:
        """As in pickle, with a copy of the bytes, which are what is written."""
        head = pickle.BYTEARRAY8 + struct.pack("<Q", len(obj))
        if self.proto < 5:
            super().save_bytearray(obj)
            return
        if len(obj) >= self.framer._FRAME_SIZE_TARGET:
            self._write_large_bytes(head, bytes(obj))
        else:
            self.write(head + bytes(obj))
        self.memoize(obj)

    dispatch[types.FunctionType] = save_global
    dispatch[bytearray] = save_bytearray


class Unpickler(_pickle._Unpickler):
    dispatch = {**_pickle._Unpickler.dispatch}

    def find_class(self, module: str, name: str) -> Any:
        return named(module, name)

    def load_bytearray8(self) -> None:
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8


def dumps(obj: Any, protocol: int | None) -> tuple[bytes, bool]:
    """The pickle, and whether it may be another one than CPython's."""
    file = io.BytesIO()
    pickler = Pickler(file, protocol)
    pickler.dump(obj)
    return file.getvalue(), pickler.is_ambiguous


def load(file: Any) -> Any:
    return Unpickler(file).load()


def loads(data: bytes) -> Any:
    return load(io.BytesIO(data))
