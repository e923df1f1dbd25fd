"""Everything a variable or a library model may ask of the running frame (`variables.protocol.Tracer`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.interpreter.calls import Calls
from tracer.interpreter.class_making import ClassMaking
from tracer.interpreter.object_model import ObjectModel
from tracer.interpreter.operators import Operators
from tracer.interpreter.overriding import Overriding


class Operations(Operators, ObjectModel, ClassMaking, Calls, Overriding):
    if TYPE_CHECKING:  # what the protocol promises beyond its named methods

        def __getattr__(self, name: str) -> Any: ...
