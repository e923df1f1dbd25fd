"""Every reason for a graph break: one file for each topic, one `register` call for each reason. Importing this package registers
all of them.

An id is stable: users search for it and tests name it. The `{fields}` of a summary are filled in with the details that
`unsupported("its-id", ...)` is called with.
"""

from __future__ import annotations

import sys

from tracer.discovery import import_modules

import_modules(sys.modules[__name__])
