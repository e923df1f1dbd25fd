"""A part of a graph that a backend compiles wrongly, as a program that can be run alone."""

from __future__ import annotations

import hashlib
import re
import types
from pathlib import Path
from typing import Any

import torch

from tracer.backends.calling import Backend
from tracer.backends.registry import list_backends
from tracer.backends.smallest_difference import Part

_PROGRAM = """# What backend {name} computes otherwise than eager:
{difference}

import pathlib

{imports}
import tracer


{code}


inputs = torch.load(pathlib.Path(__file__).with_suffix(".pt"), weights_only=True)
backend = tracer.compare_with_eager({backend}, folder=pathlib.Path(__file__).parent)
tracer.compile(lambda *args: forward(None, *args), backend=backend, dynamic={dynamic})(*inputs)
print("no difference")
"""


def write_program(part: Part, backend: Backend, dynamic: bool, folder: Path) -> Path:
    """Writes a program that raises while the difference is there, and its inputs beside it. Returns its path.

    A graph that calls graphs of its own is written as well, but cannot be run without them.
    """
    source = part.gm.graph.python_code("self")
    used = {alias: value for alias, value in source.globals.items() if re.search(rf"\b{alias}\b", source.src)}
    imports = ["import torch", *(_definition(alias, value) for alias, value in used.items())]
    name = repr(backend.name)
    if backend.name not in list_backends():
        name = getattr(backend.compiler_fn, "__name__", "backend")
        imports.append(f"from {getattr(backend.compiler_fn, '__module__', '__main__')} import {name}")
    options = "".join(f", {key}={value!r}" for key, value in backend.options.items())
    program = _PROGRAM.format(
        name=backend.name,
        difference="\n".join(f"# {line}".rstrip() for line in part.difference.strip().splitlines()),
        imports="\n".join(filter(None, dict.fromkeys(imports))),
        code=source.src.strip(),
        backend=name + options,
        dynamic=dynamic,
    )
    path = folder / f"difference_{hashlib.sha256(program.encode()).hexdigest()[:12]}.py"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(part.inputs, path.with_suffix(".pt"))
    path.write_text(program)
    return path


def _definition(alias: str, value: Any) -> str:
    """The line that gives a name of FX's source its value; "" for what has no name of its own."""
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {alias}" if value.__name__ != alias else f"import {alias}"
    if isinstance(value, float):
        return f"{alias} = float({str(value)!r})"  # inf and nan have no literal
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or not name.isidentifier():
        return ""
    return f"from {module} import {name} as {alias}" if name != alias else f"from {module} import {name}"
