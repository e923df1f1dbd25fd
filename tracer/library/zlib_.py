"""zlib: what is compressed of known bytes, and decompressed, at once or piece by piece."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from tracer.protocol.models import foldable, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.objects.made_objects import Recipe, make_object
from tracer.variables.text import plain_form

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

foldable(zlib.crc32, zlib.adler32, zlib.compress, zlib.decompress)

_READ = frozenset(("unused_data", "unconsumed_tail", "eof"))
_CHANGING = frozenset(("compress", "decompress", "flush"))


def _model_of(function: Any) -> Any:
    def model(tx: Tracer, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        given = tuple(plain_form(tx, arg) for arg in args)
        named = {name: plain_form(tx, value) for name, value in kwargs.items()}
        return make_object(tx, Recipe(function, given, named, _READ, frozenset(), _CHANGING))

    return model


models(zlib.compressobj)(_model_of(zlib.compressobj))
models(zlib.decompressobj)(_model_of(zlib.decompressobj))
