"""The models of the zoo: how each is built, with random weights, small width and full depth, and inputs for a batch of n.

To add one: in a module of this package, a function decorated with `zoo(family)` that returns a module and a function
from n to its keyword arguments.
"""

from benchmarks.zoo_models import language, media, packages  # noqa: F401  (they register their models)
from benchmarks.zoo_models.registry import ZOO as ZOO
from benchmarks.zoo_models.registry import Model as Model
