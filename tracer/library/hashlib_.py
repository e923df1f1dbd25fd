"""hashlib and hmac: hashes of bytes that are known while tracing. The classes of hmac, written in Python, are traced through."""

from __future__ import annotations

import hashlib
import hmac
import sys
import types
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import foldable, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.objects.made_objects import Recipe, make_object
from tracer.variables.text import plain_form

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_NAMES = "md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512 shake_128 shake_256 blake2b blake2s".split()
_READ = frozenset(("name", "digest_size", "block_size"))
_ASKED = frozenset(("digest", "hexdigest"))
_CHANGING = frozenset(("update",))

_openssl: Any = sys.modules.get("_hashlib")  # None where CPython is built without OpenSSL
_OF_OPENSSL = () if _openssl is None else (_openssl.new, _openssl.hmac_new)

foldable(hmac.compare_digest)
if _openssl is not None:
    foldable(_openssl.hmac_digest, hashlib.pbkdf2_hmac)
if hasattr(hashlib, "scrypt"):
    foldable(hashlib.scrypt)


def _plain(tx: Tracer, value: VariableTracker) -> Any:
    """A plain value; for one of the functions of hashlib, the name of its algorithm."""
    if isinstance(value, CallableVariable) and isinstance(value.value, types.BuiltinFunctionType):
        function: Any = value.value
        if function.__module__ == "_hashlib":
            return function.__name__.removeprefix("openssl_")
    return plain_form(tx, value)


def _model_of(function: Any) -> Any:
    def model(tx: Tracer, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        given = tuple(_plain(tx, arg) for arg in args)
        named = {name: _plain(tx, value) for name, value in kwargs.items()}
        try:
            return make_object(tx, Recipe(function, given, named, _READ, _ASKED, _CHANGING))
        except Exception:
            # This machine may forbid the algorithm, and CPython says so in words of its own.
            unsupported("unsupported-builtin", function=f"hashlib.{function.__name__}")

    return model


for _function in dict.fromkeys((*(getattr(hashlib, name) for name in _NAMES), *_OF_OPENSSL)):
    models(_function)(_model_of(_function))
