"""What `torch.compile` and `torch.compiler` made of functions that traced code meets."""

from __future__ import annotations

import copy
import os
import typing
import warnings

import pytest
import torch

from tests.support import breaks, captured, check

X = torch.ones(3)
layer = torch.nn.Linear(3, 3)
compiled_layer = torch.compile(layer, backend="eager")


@torch.compile(backend="eager")
def compiled_function(x, scale=2):
    return x * scale


@torch.compiler.disable
def disabled(x):
    return x * 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.inner.compile(backend="eager")

    @torch.compile(backend="eager")
    def forward(self, x):
        return self.inner(x)


model = Model()


def test_a_compiled_function_is_traced_through():
    assert captured(lambda x: compiled_function(x, scale=3) + 1, X).operations == ["mul", "add"]


def test_compiled_modules_and_methods_are_traced_through():
    assert captured(lambda x: compiled_layer(x) + model(x), X.requires_grad_(False)).operations == ["linear", "linear", "add"]


def test_a_compiled_module_with_hooks_is_left_to_torch():
    hooked = torch.compile(torch.nn.Linear(3, 3), backend="eager")
    hooked.register_forward_hook(lambda module, args, result: result * 2)
    breaks(lambda x: hooked(x) + 1, X)


def test_a_disabled_function_breaks_the_graph():
    assert breaks(lambda x: disabled(x + 1) + 1, X).break_ids == ["disabled-function"]


def _doubled(x):
    return x * 2


def _called_by_a_disabled_function(x):
    return _doubled(x) + 1


class _Disabled(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return _doubled(x) + 1


DISABLED = {
    "with what it calls": (torch.compiler.disable(_called_by_a_disabled_function), ["mul", "sub"]),
    "for itself": (torch.compiler.disable(_called_by_a_disabled_function, recursive=False), ["mul", "mul", "sub"]),
    "a method": (_Disabled(), ["mul", "sub"]),
}


@pytest.mark.parametrize("name", DISABLED)
def test_a_disabled_function_is_not_compiled_between_two_graphs(name):
    function, operations = DISABLED[name]
    checked = breaks(lambda x: function(x * 3) - 1, X)
    assert checked.operations == operations
    assert breaks(lambda x: (print(end=""), function(x))[1] - 1, X).operations[-1] == "sub"


def test_nothing_traces_for_torchscript():
    captured(
        lambda x: (
            x + 1,
            torch._C._get_tracing_state() is None,
            torch._C._is_tracing(),
            torch.jit.is_tracing(),
            torch.jit.is_scripting(),
        ),
        X,
    )


@pytest.mark.parametrize("annotation", [torch.Tensor, list[torch.Tensor], dict[str, int] | None, tuple[torch.Tensor, int]])
@pytest.mark.parametrize("value", [X, [X], [], {"a": 1}, {"a": X}, (X, 1), None], ids=repr)
def test_types_of_torchscript_are_asked_in_the_graph(annotation, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty list it says that it asks the annotation alone
        captured(lambda x, value: (x + 1, torch.jit.isinstance(value, annotation)), X, value)


def test_a_type_of_torchscript_without_arguments_is_refused_as_in_eager():
    check(lambda x: (x + 1, torch.jit.isinstance([x], list[torch.Tensor]), torch.jit.isinstance([x], typing.List)), X)


def test_modules_are_made_and_copied_inside_once_torch_compile_was_used():
    torch.compile(layer, backend="eager")(X)
    assert torch.nn.Module.__setstate__.__name__ == "patched_setstate"

    def fn(x):
        made = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        copied = copy.deepcopy(made)
        return copied(x), copied, made, copy.deepcopy(layer)

    captured(fn, X)


def test_what_torch_is_told_to_allow_is_one_operation_where_it_cannot_be_traced():
    def library_function(x, times):
        os.urandom(1)
        return x * times

    torch.compiler.allow_in_graph(library_function)
    checked = captured(lambda x: library_function(x, 3) + 1, torch.ones(2))
    assert any(node.target is library_function for node in checked.graphs[0].graph.nodes)


def test_what_torch_is_told_to_allow_is_traced_through_where_it_can_be():
    def library_function(x):
        return x.reshape(-1, x.shape[0])

    torch.compiler.allow_in_graph(library_function)
    checked = captured(lambda x: library_function(x) + 1, torch.ones(2, 3))
    assert all(node.target is not library_function for node in checked.graphs[0].graph.nodes)
