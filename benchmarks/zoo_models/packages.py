"""Models of packages other than transformers, and of torch alone."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.registry import (
    VOCABULARY,
    ids,
    tokens,
    zoo,
)

# -- other packages ------------------------------------------------------------------------------------------------


@zoo("decoder", needs="x-transformers")
def x_transformer():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=12, heads=4, attn_dim_head=8, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=64, attn_layers=layers), lambda n: {"x": ids(n)}


@zoo("encoder", needs="x-transformers")
def x_encoder():
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(dim=32, depth=6, heads=4, attn_dim_head=8, use_rmsnorm=True, ff_glu=True, alibi_pos_bias=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=64, attn_layers=layers), lambda n: {"x": ids(n)}


def _graph(n: int) -> dict[str, Any]:
    """n rings of six nodes each."""
    nodes = torch.arange(6 * n)
    following = nodes - nodes % 6 + (nodes + 1) % 6
    edges = torch.stack((torch.cat((nodes, following)), torch.cat((following, nodes))))
    return {"x": torch.randn(6 * n, 16), "edge_index": edges}


@zoo("graph network", needs="torch-geometric")
def graph_convolution():
    from torch_geometric.nn import GCN

    return GCN(16, 32, num_layers=6, out_channels=4), _graph


@zoo("graph network", needs="torch-geometric")
def graph_attention():
    from torch_geometric.nn import GAT

    return GAT(16, 32, num_layers=6, out_channels=4, heads=2), _graph


@zoo("graph network", needs="torch-geometric")
def graph_sage():
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(16, 32, num_layers=6, out_channels=4), _graph


# -- torch's own ---------------------------------------------------------------------------------------------------


@zoo("torch.nn")
def transformer():
    model = torch.nn.Transformer(32, 4, 6, 6, 48, batch_first=True)
    return model, lambda n: {"src": torch.randn(n, 9, 32), "tgt": torch.randn(n, 7, 32)}


class Tagger(torch.nn.Module):
    """Words to tags by a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, 16)
        self.lstm = torch.nn.LSTM(16, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = torch.nn.Linear(32, 9)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.words(input_ids))
        return self.tags(states).log_softmax(-1)


@zoo("torch.nn")
def lstm_tagger():
    return Tagger(), tokens


class Mlp(torch.nn.Module):
    """Twelve layers with batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        layers = [(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1)) for _ in range(12)]
        self.layers = nn.Sequential(*(module for layer in layers for module in layer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@zoo("torch.nn")
def mlp():
    return Mlp(), lambda n: {"x": torch.randn(n, 32)}
