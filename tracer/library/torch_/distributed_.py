"""Models of `torch.distributed`: functional collectives are operations of the graph; process groups are known by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from tracer.graph_breaks import unsupported
from tracer.guards.state import AnswerMatch
from tracer.protocol.models import models, named_models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker


class DefaultGroupVariable(VariableTracker):
    """torch.distributed.group.WORLD, whose name is guarded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def python_type(self) -> type:
        found: type = dist.ProcessGroup
        return found

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "group_name":
            return ConstantVariable(self.name)
        return super().get_attr(tx, name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_default_group)


def _default_group() -> Any:
    return dist.group.WORLD


def _default_group_name() -> str | None:
    group: Any = dist.group.WORLD
    return None if group is None else group.group_name


def _world(tx: Tracer, cls: Value) -> Value:
    name = _default_group_name()
    tx.guard(AnswerMatch(_default_group_name, name))
    return NONE if name is None else DefaultGroupVariable(name)


def _model_of_query(question: Any) -> Any:
    """The model of a query about the default process group: asked while tracing, with a guard on the answer."""

    def model(tx: Tracer, group: Value = NONE) -> Value:
        if not (group.is_none() or isinstance(group, DefaultGroupVariable)):
            unsupported("distributed", name=question.__name__)
        answer = tx.run_now(question)
        tx.guard(AnswerMatch(question, answer))
        return ConstantVariable(answer)

    return model


def _size_of_group(tx: Tracer, name: Value) -> Value:
    if isinstance(name, DefaultGroupVariable):
        name = ConstantVariable(name.name)
    return ConstantVariable(dist.distributed_c10d._get_group_size_by_name(name.constant()))  # a name stands for one group


@named_models.of_plain_tensors("torch.distributed._functional_collectives._are_we_tracing")
def _are_we_tracing(tx: Tracer) -> Value:
    return boolean(True)


if dist.is_available():
    models.of_plain_tensors(type(dist.group).WORLD.fget)(_world)
    models.of_plain_tensors(dist.distributed_c10d._get_group_size_by_name)(_size_of_group)
    for _question in (dist.get_rank, dist.get_world_size):
        models.of_plain_tensors(_question)(_model_of_query(_question))
