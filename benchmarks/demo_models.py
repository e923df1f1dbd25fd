"""The models and the requests of the demo: random weights, small width, full depth; a skewed stream of shapes."""

from __future__ import annotations

import dataclasses
import random

import torch

VOCABULARY = 1000
BATCHES, LENGTHS = (1, 32), (8, 256)


def bert(layers: int, longest: int) -> torch.nn.Module:
    """Hugging Face's BertModel."""
    from transformers import BertConfig, BertModel  # several seconds of imports

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=longest,
    )
    return BertModel(config)


def llama(layers: int, longest: int) -> torch.nn.Module:
    """Hugging Face's LlamaForCausalLM, as a scorer: without a cache of keys and values."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
        max_position_embeddings=longest,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


MODELS = {"bert": bert, "llama": llama}


def build(name: str, layers: int, longest: int = LENGTHS[1]) -> torch.nn.Module:
    """A model in inference mode, with the same weights each time; `longest`: the sequences that it has positions for."""
    torch.manual_seed(0)
    return MODELS[name](layers, longest).eval()


@dataclasses.dataclass(frozen=True)
class Request:
    """One call: how many sequences, and how long the longest is; the others are padded."""

    batch: int
    length: int
    seed: int

    def inputs(self, masked: bool = True) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        ids = torch.randint(0, VOCABULARY, (self.batch, self.length), generator=generator)
        if not masked:
            return {"input_ids": ids}
        lengths = torch.randint(1, self.length + 1, (self.batch, 1), generator=generator)
        lengths[0] = self.length
        return {"input_ids": ids, "attention_mask": (torch.arange(self.length) < lengths).long()}

    def __str__(self) -> str:
        return f"{self.batch} x {self.length}"


def stream(seed: int, count: int) -> list[Request]:
    """Requests as servers see them: mostly few and short, now and then many or long."""
    draw = random.Random(seed)
    return [
        Request(
            batch=_clipped(draw.lognormvariate(1.4, 1.0), BATCHES),
            length=_clipped(draw.lognormvariate(3.9, 0.8), LENGTHS),
            seed=seed * 1_000_003 + index,
        )
        for index in range(count)
    ]


def _clipped(value: float, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], round(value)))
