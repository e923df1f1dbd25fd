"""shapetracer: captures PyTorch programs as guarded, cached, shape-generic FX graphs. This is its public API.

Importing it loads neither SymPy nor z3 nor fake tensors: they come with the first trace.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import tracer.platform_check  # noqa: F401  (raises a clear ImportError where this version cannot work)
from tracer import config, exc
from tracer.api.disabling import disable, run
from tracer.api.entry import compile, compile_module, optimize
from tracer.api.explain import ExplainOutput, explain
from tracer.api.export import ExportResult, export
from tracer.api.marks import (
    allow_in_graph,
    assume_constant_result,
    disallow_in_graph,
    forbid_in_graph,
    mark_dynamic,
    mark_static,
    mark_static_address,
    mark_unbacked,
    maybe_mark_dynamic,
)
from tracer.api.modules import OptimizedModule
from tracer.api.settings import region_of, reset
from tracer.api.stances import set_stance
from tracer.backends.registry import list_backends, register_backend
from tracer.inside import graph_break, is_compiling
from tracer.logs import set_logs
from tracer.metrics import add_callback, counters

if TYPE_CHECKING:
    from tracer.api.comparing import compare_with_eager
    from tracer.drop_in.installing import install, uninstall
    from tracer.report.exporters.opentelemetry import report_to_opentelemetry
    from tracer.report.exporters.prometheus import report_to_prometheus
    from tracer.report.recorder import record
    from tracer.runtime.shape_spec import ShapeSpec
    from tracer.saving.files import load, save
    from tracer.serving.buckets import BucketPlan, plan_buckets
    from tracer.serving.contract import Contract, contract
    from tracer.serving.coverage import coverage, precompile
    from tracer.serving.coverage_result import Coverage
    from tracer.serving.observed import observe_calls
    from tracer.serving.pinning import compact, pin, unpin
    from tracer.serving.readiness import ready
    from tracer.serving.sealing import seal, unseal
    from tracer.serving.variants import Certificate, Variant
    from tracer.serving.why import stats, why

__version__ = "0.1.0"

_LATE = {  # name -> the module that has it, loaded when the name is first used
    "BucketPlan": "tracer.serving.buckets",
    "Contract": "tracer.serving.contract",
    "Certificate": "tracer.serving.variants",
    "Coverage": "tracer.serving.coverage_result",
    "ShapeSpec": "tracer.runtime.shape_spec",
    "Variant": "tracer.serving.variants",
    "compact": "tracer.serving.pinning",
    "compare_with_eager": "tracer.api.comparing",
    "contract": "tracer.serving.contract",
    "install": "tracer.drop_in.installing",
    "uninstall": "tracer.drop_in.installing",
    "coverage": "tracer.serving.coverage",
    "observe_calls": "tracer.serving.observed",
    "pin": "tracer.serving.pinning",
    "load": "tracer.saving.files",
    "plan_buckets": "tracer.serving.buckets",
    "precompile": "tracer.serving.coverage",
    "ready": "tracer.serving.readiness",
    "record": "tracer.report.recorder",
    "report_to_opentelemetry": "tracer.report.exporters.opentelemetry",
    "report_to_prometheus": "tracer.report.exporters.prometheus",
    "save": "tracer.saving.files",
    "seal": "tracer.serving.sealing",
    "stats": "tracer.serving.why",
    "unpin": "tracer.serving.pinning",
    "unseal": "tracer.serving.sealing",
    "why": "tracer.serving.why",
}

__all__ = [
    "BucketPlan",
    "Certificate",
    "Contract",
    "Coverage",
    "ExplainOutput",
    "ExportResult",
    "OptimizedModule",
    "ShapeSpec",
    "Variant",
    "add_callback",
    "allow_in_graph",
    "assume_constant_result",
    "compact",
    "compare_with_eager",
    "compile",
    "compile_module",
    "config",
    "contract",
    "counters",
    "coverage",
    "disable",
    "disallow_in_graph",
    "exc",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "install",
    "is_compiling",
    "list_backends",
    "load",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "observe_calls",
    "optimize",
    "pin",
    "plan_buckets",
    "precompile",
    "ready",
    "record",
    "region_of",
    "register_backend",
    "report_to_opentelemetry",
    "report_to_prometheus",
    "reset",
    "run",
    "save",
    "seal",
    "set_logs",
    "set_stance",
    "stats",
    "uninstall",
    "unpin",
    "unseal",
    "why",
]


def __getattr__(name: str) -> Any:
    home = _LATE.get(name)
    if home is None:
        raise AttributeError(f"module 'tracer' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


if os.environ.get("TRACER_REPORT"):
    __getattr__("record")(os.environ["TRACER_REPORT"])
if os.environ.get("TRACER_INSTALL", "0") != "0":
    __getattr__("install")()
