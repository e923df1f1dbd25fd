"""Models of functions that ask about tensors and dtypes, and of torch's small value types: answered while tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.library.class_checks import is_of
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import SizeVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable, boolean, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

_OF_A_TENSOR = (
    "is_floating_point is_complex is_signed is_conj is_neg is_inference numel get_device is_same_size is_nonzero equal allclose"
).split()
_FOLDED: tuple[Any, ...] = (
    torch.promote_types,
    torch.can_cast,
    torch.finfo,
    torch.iinfo,
    torch.device,
    torch._C._get_accelerator,
    torch.typename,
)


def _method(name: str) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        tensor = kwargs.pop("input", None) if not args else args[0]
        if not isinstance(tensor, TensorVariable):
            unsupported("unsupported-builtin", function=f"torch.{name}")
        return tensor.call_method(tx, name, list(args[1:]), kwargs)

    return model


def _model_that_folds(function: Any) -> Any:
    """The model of a pure function of constants: it is called while tracing."""

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        return fold(tx, function, *(a.constant() for a in args), **{k: v.constant() for k, v in kwargs.items()})

    return model


def _of_wrapping(question: Any) -> Any:
    """The model of a question about the transforms that a tensor is wrapped by: its fake is wrapped by the same."""

    def model(tx: Tracer, tensor: Value) -> Value:
        if not isinstance(tensor, TensorVariable):
            unsupported("unsupported-builtin", function=f"torch.{question.__name__}")
        return tx.literal(question(tensor.fake))

    return model


_ABOUT_WRAPPING = "is_batchedtensor is_gradtrackingtensor is_functorch_wrapped_tensor is_legacy_batchedtensor maybe_get_level"
for _name in _ABOUT_WRAPPING.split():
    models.of_plain_tensors(getattr(torch._C._functorch, _name))(_of_wrapping(getattr(torch._C._functorch, _name)))
for _name in _OF_A_TENSOR:
    models(getattr(torch, _name))(_method(_name))
for _function in _FOLDED:
    models(_function)(_model_that_folds(_function))


@models(torch.is_tensor)
def _is_tensor(tx: Tracer, obj: Value) -> Value:
    return boolean(is_of(obj, torch.Tensor))


@models(torch.is_storage)
def _is_storage(tx: Tracer, obj: Value) -> Value:
    return boolean(issubclass(obj.python_type(), (torch.UntypedStorage, torch.TypedStorage)))


@models(torch.result_type)
def _result_type(tx: Tracer, left: Value, right: Value) -> Value:
    examples = [side.fake if isinstance(side, TensorVariable) else getattr(side, "example", None) for side in (left, right)]
    args = [side.constant() if example is None else example for side, example in zip((left, right), examples)]
    return ConstantVariable(tx.output.run_fake(torch.result_type, args, {}, "result_type"))


@models(torch.Size)
def _torch_size(tx: Tracer, sizes: Value = ConstantVariable(())) -> Value:
    return SizeVariable(sizes.unpack(tx))


@models(torch.broadcast_shapes)
def _broadcast_shapes(tx: Tracer, *shapes: Value) -> Value:
    if all(shape.is_constant() for shape in shapes):
        return fold(tx, torch.broadcast_shapes, *(shape.constant() for shape in shapes))
    return tx.call_in_graph(torch.broadcast_shapes, list(shapes), {})
