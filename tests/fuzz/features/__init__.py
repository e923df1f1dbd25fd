"""Features by topic; importing this fills the table."""

from tests.fuzz.features import (  # noqa: F401
    classes,
    containers,
    control,
    effects,
    exceptions,
    functions,
    generators,
    libraries,
    newer_syntax,
    numbers,
    standard_library,
    tensors,
    text,
)
