"""Models of `torch.distributions`: the object that reading a lazy property through its class gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributions.utils import _lazy_property_and_property

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.objects.objects import UserObjectVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class LazyPropertyVariable(UserObjectVariable):
    """A lazy property that was read through its class. Only its type is known."""

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", value=self.describe())


@models.of_plain_tensors(_lazy_property_and_property)
def _lazy_property(tx: Tracer, wrapped: VariableTracker) -> VariableTracker:
    return LazyPropertyVariable(_lazy_property_and_property)
