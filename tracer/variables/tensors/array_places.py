"""Where an array has elements that are not zero. NumPy and torch find the same places, in arrays that lie otherwise in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tracer.variables.containers.lists import TupleVariable
from tracer.variables.tensors.arrays import VIEWS, NdarrayVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker


def _table(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> TensorVariable | None:
    """A row for each place, if there is one array, which has dims, among the arguments."""
    if len(args) != 1 or kwargs or not isinstance(args[0], NdarrayVariable) or args[0].known(tx) is not None:
        return None
    array = args[0].operand(tx)
    if not array.tensor.fake.dim():
        return None
    table = array.tensor.call_method(tx, "nonzero", [], {})
    assert isinstance(table, TensorVariable)
    return table


def _places(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker | None:
    """np.nonzero(array), np.where(array): an array for each dim, all of which are columns of one table that lies row by row."""
    table = _table(tx, args, kwargs)
    if table is None:
        return None
    rows = table.call_method(tx, "clone", [], {"memory_format": ConstantVariable(torch.contiguous_format)})
    columns = rows.call_method(tx, "unbind", [ConstantVariable(1)], {}).unpack(tx)
    return TupleVariable([NdarrayVariable(column) for column in columns if isinstance(column, TensorVariable)])


def _rows(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker | None:
    """np.argwhere(array), which lies column by column, as torch's does."""
    table = _table(tx, args, kwargs)
    return None if table is None else NdarrayVariable(table)


VIEWS.update({"function:nonzero": _places, "method:nonzero": _places, "function:where": _places, "function:argwhere": _rows})
