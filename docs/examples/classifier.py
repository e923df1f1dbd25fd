"""The model that the examples serve: a small BERT that classifies sequences of token ids, with random weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import transformers

VOCABULARY, MOST_TOKENS, MOST_AT_ONCE = 1000, 256, 16
SHAPES = f"input_ids: B, S; attention_mask: B, S; B in 1..{MOST_AT_ONCE}; S in 1..{MOST_TOKENS}"


def build() -> torch.nn.Module:
    """The same weights in each process."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=MOST_TOKENS,
        num_labels=3,
        return_dict=False,
    )
    return transformers.BertForSequenceClassification(config).eval()


def padded(sequences: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """One batch, as long as its longest sequence; the mask is 0 where a shorter one is padded."""
    length = max(map(len, sequences))
    ids = [[*sequence, *[0] * (length - len(sequence))] for sequence in sequences]
    mask = [[1] * len(sequence) + [0] * (length - len(sequence)) for sequence in sequences]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def example() -> dict[str, torch.Tensor]:
    return padded([[1, 2, 3, 4, 5], [6, 7], [8, 9, 10]])
