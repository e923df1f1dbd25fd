"""The modules of torch that an install changes. Only this module imports torch._dynamo, and only `install` loads it
(docs/decisions/drop_in.md)."""

from __future__ import annotations

import torch._dynamo as dynamo
from torch._dynamo import config, convert_frame, decorators, eval_frame, exc, package, symbolic_convert, trace_rules, utils
from torch._dynamo.backends import debugging, registry
from torch._dynamo.variables import functions
from torch._logging import _internal as logging
from torch.fx import _symbolic_trace as symbolic_tracing
from torch.fx.experimental import _config as sizes
from torch.fx.experimental import dynamic_spec
from torch.jit import _recursive as recursive_scripting
from torch.jit import _script as scripting
from torch.utils._sympy.printers import PythonPrinter

__all__ = [
    "PythonPrinter",
    "config",
    "convert_frame",
    "debugging",
    "decorators",
    "dynamic_spec",
    "dynamo",
    "eval_frame",
    "exc",
    "functions",
    "logging",
    "package",
    "recursive_scripting",
    "registry",
    "scripting",
    "sizes",
    "symbolic_convert",
    "symbolic_tracing",
    "trace_rules",
    "utils",
]
