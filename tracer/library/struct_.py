"""Models of `struct`: what is packed of constants, and unpacked of constant bytes, is known while tracing."""

from __future__ import annotations

import struct

from tracer.protocol.models import foldable

foldable(struct.pack, struct.unpack, struct.unpack_from, struct.calcsize)
