"""Models of importlib: they return modules that are imported already, and say whether a module can be imported. Installed
packages are assumed not to change while the process runs."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictContains
from tracer.protocol.models import models, named_models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.roots import ModuleGlobalsSource, ModuleSource, ObjectSource
from tracer.variables.objects.untraceable import OpaqueVariable
from tracer.variables.values.constant import NONE, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _name(value: Value, function: str) -> str:
    if not (value.is_constant() and type(value.constant()) is str) or value.constant().startswith("."):
        unsupported("unsupported-builtin", function=f"importlib.{function} of {value.describe()}")
    return str(value.constant())


# -- what cannot be imported -------------------------------------------------------------------------------------------


def raise_if_missing(tx: Tracer, path: str) -> None:
    """Raises what CPython raises where neither the module nor one of the packages around it can be found."""
    missing = _missing(path)
    if missing is not None:
        tx.guard(DictContains(ModuleGlobalsSource("sys", "modules"), missing, present=False))
        raise_import_error(tx, f"import {path}")


def lacks(module: Any, name: str) -> bool:
    """Whether a module has neither an attribute nor a submodule of this name, and computes none."""
    if type(module) is not types.ModuleType or hasattr(module, "__getattr__") or hasattr(module, name):
        return False
    return sys.modules.get(module.__name__) is module and _missing(f"{module.__name__}.{name}") is not None


def raise_import_error(tx: Tracer, statement: str) -> NoReturn:
    """Raises the error of an import statement that fails without loading anything."""
    try:
        exec(statement, {})
    except ImportError as error:
        made = tx.new_exception(type(error), *map(tx.literal, error.args))
        for field in ("name", "path"):
            made.set_field(tx, field, tx.literal(getattr(error, field)))
        tx.raise_value(made)
    unsupported("import-effect", module=statement)


def _missing(path: str) -> str | None:
    """The outermost module of a dotted path that cannot be found; None where CPython would load one instead, or has all."""
    names = path.split(".")
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        if name not in sys.modules:
            try:
                return name if importlib.util.find_spec(name) is None else None
            except ModuleNotFoundError:  # the module around it is no package
                return name
            except (ImportError, ValueError):
                return None
    return None


@models(importlib.import_module)
def _import_module(tx: Tracer, name: Value, package: Value = NONE) -> Value:
    path = _name(name, "import_module")
    raise_if_missing(tx, path)
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
