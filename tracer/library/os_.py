"""Models of `os`. Paths are text, and os.path is traced through."""

from __future__ import annotations

import os

from tracer.protocol.models import foldable

foldable(os.fspath)
