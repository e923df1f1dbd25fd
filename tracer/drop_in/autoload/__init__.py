"""What torch loads at the end of `import torch`, as an entry point of the group `torch.backends`: with TRACER_INSTALL=1 in the
environment, torch.compile of a program that knows nothing of the tracer goes to the tracer."""

import os


def begin() -> None:
    """Installs the tracer if the environment asks for it; costs nothing otherwise."""
    if os.environ.get("TRACER_INSTALL", "0") != "0":
        import tracer  # noqa: F401  # late: installs itself, where it is asked for
