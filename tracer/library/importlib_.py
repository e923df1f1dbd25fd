"""Models of importlib: they return modules that are imported already, and say whether a module can be imported. Installed
packages are assumed not to change while the process runs."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models, named_models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.roots import ModuleSource, ObjectSource
from tracer.variables.objects.untraceable import OpaqueVariable
from tracer.variables.values.constant import NONE, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _name(value: Value, function: str) -> str:
    if not (value.is_constant() and type(value.constant()) is str) or value.constant().startswith("."):
        unsupported("unsupported-builtin", function=f"importlib.{function} of {value.describe()}")
    return str(value.constant())


@models(importlib.import_module)
def _import_module(tx: Tracer, name: Value, package: Value = NONE) -> Value:
    path = _name(name, "import_module")
    module = sys.modules.get(path)
    if module is None:
        unsupported("import-effect", module=path)
    return tx.wrap(module, ModuleSource(path))


@models(importlib.util.find_spec)
def _find_spec(tx: Tracer, name: Value, package: Value = NONE) -> Value:
    path = _name(name, "find_spec")
    module = sys.modules.get(path)
    if module is not None:
        if getattr(module, "__spec__", None) is None:
            tx.raise_error(ValueError, f"{path}.__spec__ is None")
        return tx.wrap(module.__spec__, GenericAttrSource(ModuleSource(path), "__spec__"))
    parent = path.rpartition(".")[0]
    if parent and parent not in sys.modules:  # find_spec would import it
        unsupported("import-effect", module=parent)
    spec = importlib.util.find_spec(path)
    return NONE if spec is None else OpaqueVariable(importlib.machinery.ModuleSpec, ObjectSource(spec, f"find_spec({path!r})"))


@named_models("importlib.metadata.version")
def _version(tx: Tracer, distribution_name: Value) -> Value:
    name = _name(distribution_name, "metadata.version")
    return fold(tx, sys.modules["importlib.metadata"].version, name)
