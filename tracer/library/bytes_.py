"""Functions of the standard library, written in C, that compute on bytes, text and complex numbers: folded on constants."""

from __future__ import annotations

import binascii
import cmath
import types
import unicodedata

from tracer.protocol.models import foldable

for _module in (binascii, cmath, unicodedata):
    foldable(*(function for function in vars(_module).values() if isinstance(function, types.BuiltinFunctionType)))
