"""Functions of the standard library, written in C, that compute on bytes, text and complex numbers: folded on constants."""

from __future__ import annotations

import binascii
import cmath
import types
import unicodedata
import zlib

from tracer.protocol.models import foldable

foldable(zlib.crc32, zlib.adler32, zlib.compress, zlib.decompress)
for _module in (binascii, cmath, unicodedata):
    foldable(*(function for function in vars(_module).values() if isinstance(function, types.BuiltinFunctionType)))
