"""What a token of `generate` costs under a seal, beside torch.compile and eager: `python -m benchmarks.generating`.

The three run in one process, with one thread of torch and the same weights, and take turns; medians of CPU time. torch.compile
has `backend="eager", dynamic=True` and has compiled for the prompt before. What it compiles for other shapes is not measured.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import torch

import tracer
from benchmarks.demo_models import build
from benchmarks.measuring import cpu_seconds

BATCH, LENGTH, TOKENS = 4, 16, 16


def generate(model: Any, batch: int = 3, length: int = 7) -> torch.Tensor:
    torch.manual_seed(0)
    ids = torch.randint(1, 100, (batch, length))
    found: torch.Tensor = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
    return found


def sealed(model: Any) -> Any:
    tracer.compile_module(model)
    calls = tracer.observe_calls(model, lambda B, S: generate(model, B, S), B=(1, BATCH), S=(1, LENGTH))
    certificate = tracer.precompile(model, calls)
    assert certificate.certified, certificate
    return tracer.seal(model)


def measured(layers: int, rounds: int) -> dict[str, float]:
    """Milliseconds per token."""
    eager = build("llama", layers, 64)
    eager.config.use_cache = eager.generation_config.use_cache = True
    eager.generation_config.eos_token_id, eager.generation_config.pad_token_id = None, 0
    own, theirs = copy.deepcopy(eager), copy.deepcopy(eager)
    theirs.forward = torch.compile(theirs.forward, backend="eager", dynamic=True)
    generate(theirs)  # first: torch.compile then replaces nn.Module.__init__, of which entries of the other ask
    sealed(own)
    models = {"eager": eager, "own": own, "torch": theirs}
    expected = generate(eager)
    for model in (own, theirs):
        assert torch.equal(generate(model), expected)
    seconds = cpu_seconds({name: lambda model=model: generate(model) for name, model in models.items()}, rounds)
    return {name: each * 1000 / TOKENS for name, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ms = measured(options.layers, options.rounds)
    print(f"Llama of {options.layers} layers, {TOKENS} tokens for a batch of 3: ms per token, medians of {options.rounds}")
    print(f"eager {ms['eager']:.2f}, sealed {ms['own']:.2f}, torch.compile {ms['torch']:.2f}")
    print(f"sealed / torch.compile {ms['own'] / ms['torch']:.2f}x, sealed / eager {ms['own'] / ms['eager']:.2f}x")


if __name__ == "__main__":
    main()
