"""Imports every module of models, which registers them."""

from tracer.library import (  # noqa: F401
    builtin_numbers_,
    builtin_objects_,
    builtins_,
    collections_,
    inspect_,
)
from tracer.library.torch_ import all_models  # noqa: F401
