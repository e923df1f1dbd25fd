"""Imports every module of models, which registers them."""

from tracer.library import (  # noqa: F401
    builtin_numbers_,
    builtin_objects_,
    builtins_,
    bytes_,
    caches,
    class_checks,
    collections_,
    copy_,
    dataclasses_,
    datetime_,
    functools_,
    hashlib_,
    importlib_,
    inspect_,
    itertools_,
    json_,
    logging_,
    made_caches,
    making_classes_,
    math_,
    nested_functions_,
    numpy_,
    operator_,
    os_,
    random_,
    re_,
    sys_,
    threading_,
    time_,
    typing_,
    weakref_,
)
from tracer.library.polyfills import collections_ as _collections  # noqa: F401
from tracer.library.polyfills import functools_ as _functools  # noqa: F401
from tracer.library.polyfills import heapq_ as _heapq  # noqa: F401
from tracer.library.polyfills import inspect_ as _inspect  # noqa: F401
from tracer.library.torch_ import all_models  # noqa: F401
