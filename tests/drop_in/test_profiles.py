"""Profiles while the tracer is installed show what torch's own tracer would."""

from __future__ import annotations

import torch

import tracer


def names_in_profile(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.name for event in profile.events()]


def test_lookups_compiles_and_runs_have_the_names_that_torch_gives_them(installed):
    def scaled(x):
        return x.sin() * 2

    compiled = torch.compile(scaled, backend="eager")
    first = names_in_profile(lambda: compiled(torch.ones(3)))
    assert first.count("OutputGraph.call_user_compiler (dynamo_timed)") == 1
    assert first.count("_compile.compile_inner (dynamo_timed)") == 1
    second = names_in_profile(lambda: compiled(torch.ones(3)))
    assert second.count("TorchDynamo Cache Lookup") == 1
    assert [name for name in second if name.startswith("Torch-Compiled Region")] == [
        f"Torch-Compiled Region: {scaled.__qualname__}"
    ]
    tracer.uninstall()
    assert "shapetracer lookup" in names_in_profile(lambda: compiled(torch.ones(3)))
