"""json: its encoder and decoder in Python, which call the program's functions: hooks, `default`."""

from __future__ import annotations

import json.encoder
import json.scanner
from typing import Any

from tracer.inside import graph_break
from tracer.library.polyfills.in_python import in_python
from tracer.library.polyfills.replacing import replaces
from tracer.protocol.inlining import transparent
from tracer.protocol.models import foldable

_encoder = in_python(json.encoder, "_json")
_scanner = in_python(json.scanner, "_json")
_in_c: Any = (json.encoder.encode_basestring_ascii, json.encoder.encode_basestring)

vars(_encoder).update(encode_basestring_ascii=_in_c[0], encode_basestring=_in_c[1])  # of constants, and fast
foldable(*_in_c)
_iterencode = _encoder.JSONEncoder.iterencode
replaces(json.scanner.make_scanner)(_scanner.make_scanner)
_traced: tuple[Any, ...] = (
    json.JSONEncoder.__init__, json.JSONEncoder.default, json.JSONEncoder.encode,
    json.JSONDecoder.__init__, json.JSONDecoder.decode, json.JSONDecoder.raw_decode, json.JSONDecodeError.__init__,
    json.decoder.JSONObject, json.decoder.JSONArray,  # type: ignore[attr-defined]  # private in json
    json.dumps, json.dump, json.loads, json.load,
)  # fmt: skip
transparent(*_traced)


@replaces(json.JSONEncoder.iterencode)
def iterencode(self: json.JSONEncoder, o: Any, _one_shot: bool = False) -> Any:
    chunks = _iterencode(self, o, _one_shot)
    if self.allow_nan or not _one_shot:
        return chunks
    try:
        return list(chunks)
    except ValueError:  # C says in other words that a float is out of range
        graph_break()
        raise


def decoded(text: str) -> Any:
    """json.loads of a text that may be wrong."""
    return json.JSONDecoder().decode(text)


def fail(text: str, document: str, position: int) -> None:
    raise json.JSONDecodeError(text, document, position)
