"""What the standard library computes of bytes, in C: checksums, encodings, packed numbers."""
from __future__ import annotations

import binascii
import struct
import zlib

from tracer.library.registry import foldable

foldable(zlib.crc32, zlib.adler32, struct.pack, struct.unpack, struct.calcsize)
foldable(*(function for name, function in vars(binascii).items() if callable(function) and not isinstance(function, type)))
