"""How a Python function is registered as the polyfill of a function of the library."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.variables.functions.python_functions import as_written

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_F = TypeVar("_F", bound=Callable[..., Any])


def replaces(*functions: Any) -> Callable[[_F], _F]:
    """Registers a Python function that is traced through wherever one of `functions` is called."""

    def register(polyfill: _F) -> _F:
        assert isinstance(polyfill, types.FunctionType)
        signature = inspect.signature(polyfill)
        variable = as_written(polyfill)

        def model(tx: Tracer, *args: Any, **kwargs: Any) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                unsupported("call-arguments", error=f"{polyfill.__qualname__}: {error}")
            return tx.inline(variable, list(args), kwargs)

        models(*functions)(model)
        return polyfill

    return register
