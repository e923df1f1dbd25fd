"""Importing every module of a package, for those whose modules register what they define: a new file is not named anywhere."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def import_modules(package: ModuleType) -> list[ModuleType]:
    """Imports the modules of a package and of the packages inside it, in alphabetical order, and returns them.

    What they register must not depend on that order: two registrations of one thing are an error of the registry.
    """
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(name) for name in sorted(module.name for module in found)]
