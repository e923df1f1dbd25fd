"""Raises a clear ImportError for a version of Python or torch that the tracer does not support."""

from __future__ import annotations

import sys

SUPPORTED_PYTHON = (3, 11)
SUPPORTED_TORCH = (2, 13)


def python_problem(implementation: str, version: tuple[int, ...]) -> str | None:
    """What is wrong with this interpreter, and what to do; None if nothing."""
    wanted = ".".join(map(str, SUPPORTED_PYTHON))
    if implementation != "cpython":
        return f"shapetracer needs CPython {wanted} (it uses its frame evaluation hook); this is {implementation}."
    if tuple(version[:2]) != SUPPORTED_PYTHON:
        seen = ".".join(map(str, version[:3]))
        return f"shapetracer needs CPython {wanted}; this is {seen}. Make an environment with python{wanted}."
    return None


def torch_problem(version: str) -> str | None:
    """What is wrong with this torch, and what to do; None if nothing."""
    wanted = ".".join(map(str, SUPPORTED_TORCH))
    if tuple(version.split("+")[0].split(".")[:2]) != tuple(map(str, SUPPORTED_TORCH)):
        return f"shapetracer needs torch {wanted}; this is torch {version}. Install: pip install 'torch=={wanted}.*'"
    return None


def require_supported_platform() -> None:
    """Raises ImportError where this version cannot work; imports torch only once Python itself is right."""
    problem = python_problem(sys.implementation.name, sys.version_info[:3])
    if problem is None:
        try:
            import torch  # only now, since a torch for another Python fails with a less clear message
        except ModuleNotFoundError as error:
            raise ImportError("shapetracer needs torch: pip install 'torch==2.13.*'") from error
        problem = torch_problem(torch.__version__)
    if problem is not None:
        raise ImportError(problem)
    try:
        import tracer._C  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"the extension tracer._C cannot be loaded ({error}). In a checkout run `make`; otherwise reinstall with"
            " `pip install --force-reinstall --no-build-isolation .` in the environment that holds the torch you use."
        ) from error


require_supported_platform()
