"""The names and the docstring of a class, which can be assigned without the class getting a new version."""

from __future__ import annotations

import pytest
import torch

from tests.soundness.watching import noticed

X = torch.ones(3)


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__", "__doc__"])
def test_a_name_of_a_class_is_assigned(name):
    class Named:
        """Before."""

    value = Named()
    noticed(lambda x: (x + 1, getattr(type(value), name)), (X,), lambda: setattr(Named, name, "after"))


@pytest.mark.parametrize("name", ["__qualname__", "__module__"])
def test_the_text_of_a_class_whose_name_is_assigned(name):
    class Named:
        pass

    noticed(lambda x: (x + 1, f"{Named}"), (X,), lambda: setattr(Named, name, "after"))


def test_the_name_that_a_module_gives_of_itself():
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x + 1, self._get_name()

    noticed(Layer(), (X,), lambda: setattr(Layer, "__name__", "Other"))
