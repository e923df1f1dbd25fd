"""Models of `os`. Paths are text, and os.path is traced through, down to what it has in C."""

from __future__ import annotations

import os
import posix

from tracer.protocol.models import foldable

foldable(os.fspath, *(vars(posix)[name] for name in vars(posix) if name.startswith("_path_")))
