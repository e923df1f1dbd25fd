"""Modules of the standard library without their accelerators: many have their C functions in Python as well, in the same file."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


def in_python(module: ModuleType, accelerator: str) -> ModuleType:
    """A copy of the module, imported as if its C accelerator were missing."""
    name = f"{__name__.rpartition('.')[0]}.{module.__name__}_in_python"
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(name, module.__file__)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    modules: dict[str, Any] = sys.modules
    in_c = modules[accelerator]
    modules[accelerator] = None  # so that it cannot be imported
    try:
        spec.loader.exec_module(made)
    finally:
        sys.modules[accelerator] = in_c
    sys.modules[name] = made
    return made
