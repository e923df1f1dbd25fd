"""Errors after which a graph runs as it is written: a compiler cannot compile it correctly."""

from __future__ import annotations

from torch import fx

from tracer.backends.kept_operations import DropsOperations
from tracer.backends.nested_inputs import has_nested
from tracer.backends.outlining import Unrolls
from tracer.backends.repeated_blocks import NotInPieces, keeps_from_compilers
from tracer.backends.result_gradients import is_about_inplace_changes, is_error_of_program
from tracer.backends.result_memory import is_about_shared_memory
from tracer.backends.view_strides import WrongStrides, is_about_views, tensors_of
from tracer.graph.output_graph import DATA_DEPENDENT
from tracer.operators.compiler_layouts import has_no_rule

_REFUSALS = (WrongStrides, DropsOperations, Unrolls, NotInPieces, *DATA_DEPENDENT)


def is_about_functionalization(error: Exception) -> bool:
    """Whether AOTAutograd cannot write an in-place operator without its write: `polygamma_`, `fill_diagonal_` of a view."""
    texts = ("only support functionalizing operators", "not possible to functionalize")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)


_ABOUT = (
    has_no_rule,
    is_about_views,
    is_about_shared_memory,
    is_about_inplace_changes,
    is_about_functionalization,
    is_error_of_program,
)


def is_refusal(error: Exception, graph: fx.Graph) -> bool:
    """Whether a graph is to run as written after this error of a compiler. Not so one with operations that compilers are not
    given: the tracer breaks it there, and what stands around them is compiled."""
    if keeps_from_compilers(graph):
        return False
    if isinstance(error, _REFUSALS) or any(is_known(error) for is_known in _ABOUT) or has_nested(graph):
        return True
    return isinstance(error, ZeroDivisionError) and _has_empty_tensor(graph)


def _has_empty_tensor(graph: fx.Graph) -> bool:
    """PyTorch's rules for gradients divide by the number of elements, as that of `mse_loss` does."""
    return any(type(size) is int and size == 0 for node in graph.nodes for each in tensors_of(node) for size in each.shape)
