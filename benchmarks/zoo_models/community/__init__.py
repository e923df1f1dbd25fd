"""Models and programs of packages that are installed for the community zoo alone, a file a domain.

To add one: in a module of this package, a function decorated with `community(package)` that returns a callable and a
function from n to its keyword arguments; and the package, with what it imports, in requirements.txt beside this file.
"""

from benchmarks.zoo_models.community import attention, medical, science, vision  # noqa: F401  (they register)
from benchmarks.zoo_models.registry import COMMUNITY as COMMUNITY
