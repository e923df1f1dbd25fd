"""hashlib: hashes of bytes that are known while tracing."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker
_NAMES = "md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512".split()
_READ = ("name", "digest_size", "block_size")


class HashVariable(VariableTracker):
    """A hash object that the trace made, kept as its constructor (`function`) and all the data that was fed to it."""

    def __init__(self, function: Any, options: dict[str, Any], data: bytes) -> None:
        self.function = function
        self.options = options
        self.data = data

    def real(self) -> Any:
        return self.function(self.data, **self.options)

    def python_type(self) -> type:
        return type(self.real())

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in _READ:
            return ConstantVariable(getattr(self.real(), name))
        if hasattr(self.python_type(), name):
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not kwargs and name == "update" and len(args) == 1:
            data = _constant_bytes(args[0])
            tx.effects.mutate(self)
            self.data += data
            return NONE
        if not args and not kwargs and name in ("digest", "hexdigest"):
            return ConstantVariable(getattr(self.real(), name)())
        if not args and not kwargs and name == "copy":
            return HashVariable(self.function, self.options, self.data)
        unsupported("unsupported-method", value=self.describe(), name=name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        options = {name: lambda value=value: cg.load_const(value) for name, value in self.options.items()}
        cg.call_object(self.function, lambda: cg.load_const(self.data), **options)


def _constant_bytes(value: Value) -> bytes:
    """The bytes to be hashed; breaks the graph if they are no constant."""
    if not value.is_constant() or type(value.constant()) is not bytes:
        unsupported("unsupported-builtin", function=f"a hash of {value.describe()}")
    found: bytes = value.constant()
    return found


def _model_of(function: Any) -> Any:
    def model(tx: Tracer, string: Value | None = None, *, usedforsecurity: Value | None = None) -> Value:
        options = {} if usedforsecurity is None else {"usedforsecurity": usedforsecurity.constant()}
        made = HashVariable(function, options, b"" if string is None else _constant_bytes(string))
        try:
            made.real()
        except ValueError:  # this machine forbids the algorithm
            unsupported("unsupported-builtin", function=f"hashlib.{function.__name__}")
        return made

    return model


for _name in _NAMES:
    models(getattr(hashlib, _name))(_model_of(getattr(hashlib, _name)))
