"""Profiles show what the tracer does under the names that torch gives the same parts of its own tracer, while it stands in that
one's place: tools that read profiles look for them."""

from __future__ import annotations

from tracer import profile_labels
from tracer.profile_labels import OWN, Labels

TORCHS = Labels(
    lookup="TorchDynamo Cache Lookup",
    run="Torch-Compiled Region",
    trace="_compile.compile_inner (dynamo_timed)",
    compile="OutputGraph.call_user_compiler (dynamo_timed)",
)


class LabelsAsTorchs:
    """The labels, while installed."""

    def __init__(self) -> None:
        profile_labels.set_labels(TORCHS)

    def take_back(self) -> None:
        profile_labels.set_labels(OWN)
