"""Functions of the math module on floats, as SymPy functions. Only applications to constants are evaluated."""

from __future__ import annotations

import math

from shapes.python_function import FloatFunction, Form


def _math_function(name: str) -> type[FloatFunction]:
    members = {
        "__doc__": f"math.{name}(a)",
        "nargs": (1,),
        "python": staticmethod(getattr(math, name)),
        "form": Form(f"math.{name}"),
    }
    return type(f"Math{name.capitalize()}", (FloatFunction,), members)


NAMES = ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
MATH_FUNCTIONS: dict[str, type[FloatFunction]] = {name: _math_function(name) for name in NAMES}
