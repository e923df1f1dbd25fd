"""Attention and language models of packages with one idea each."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.registry import VOCABULARY, Inputs, community, ids


def sequence(length: int = 16, width: int = 32, name: str = "x") -> Inputs:
    """Vectors, (n, length, width)."""
    return lambda n: {name: torch.randn(n, length, width)}


def words(length: int = 16, name: str = "x") -> Inputs:
    """Tokens, (n, length)."""
    return lambda n: {name: ids(n, length)}


# -- efficient attention -------------------------------------------------------------------------------------------


@community("performer-pytorch")
def performer_language_model():
    from performer_pytorch import PerformerLM

    model = PerformerLM(num_tokens=VOCABULARY, max_seq_len=32, dim=32, depth=2, heads=2, causal=False, nb_features=16)
    return model, words()


@community("performer-pytorch")
def performer_self_attention():
    from performer_pytorch import SelfAttention

    return SelfAttention(dim=32, heads=2, causal=False, nb_features=16), sequence()


@community("reformer-pytorch")
def reformer():
    from reformer_pytorch import Reformer

    return Reformer(dim=32, depth=2, heads=2, bucket_size=8, causal=True, n_hashes=2), sequence(32)


@community("reformer-pytorch")
def reformer_language_model():
    from reformer_pytorch import ReformerLM

    return ReformerLM(num_tokens=VOCABULARY, dim=32, depth=1, heads=2, max_seq_len=32, bucket_size=8, causal=True), words(32)


@community("linformer")
def linformer():
    from linformer import Linformer

    return Linformer(dim=32, seq_len=16, depth=2, heads=2, k=8), sequence()


@community("linformer")
def linformer_language_model():
    from linformer import LinformerLM

    return LinformerLM(num_tokens=VOCABULARY, dim=32, seq_len=16, depth=2, heads=2, k=8), words()


@community("linear-attention-transformer")
def linear_attention_transformer():
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(
        num_tokens=VOCABULARY, dim=32, heads=2, depth=2, max_seq_len=32, causal=True, blindspot_size=4, n_local_attn_heads=1,
        local_attn_window_size=8,
    )  # fmt: skip
    return model, words(32)


@community("routing-transformer")
def routing_transformer():
    from routing_transformer import RoutingTransformerLM

    model = RoutingTransformerLM(num_tokens=VOCABULARY, dim=32, heads=2, depth=1, max_seq_len=32, causal=True, window_size=8)
    return (lambda x: model.eval()(x)[0]), words(32)


@community("axial-attention")
def axial_attention():
    from axial_attention import AxialAttention

    return AxialAttention(dim=16, dim_index=1, heads=2, num_dimensions=2), lambda n: {"x": torch.randn(n, 16, 6, 6)}


@community("axial-attention")
def axial_image_transformer():
    from axial_attention import AxialImageTransformer

    return AxialImageTransformer(dim=16, depth=2, heads=2, reversible=False), lambda n: {"x": torch.randn(n, 16, 6, 6)}


@community("local-attention")
def local_attention():
    from local_attention import LocalAttention

    attention = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, look_forward=0, autopad=True)
    return attention, lambda n: {name: torch.randn(n, 2, 14, 8) for name in "qkv"}


@community("local-attention")
def local_transformer():
    from local_attention import LocalTransformer

    return LocalTransformer(
        num_tokens=VOCABULARY, dim=32, depth=2, max_seq_len=32, causal=True, local_attn_window_size=8, heads=2, dim_head=8
    ), words(20)


@community("sinkhorn-transformer")
def sinkhorn_transformer():
    from sinkhorn_transformer import SinkhornTransformer

    return SinkhornTransformer(dim=32, heads=2, depth=1, bucket_size=8, max_seq_len=32), sequence(32)


@community("nystrom-attention")
def nystromformer():
    from nystrom_attention import Nystromformer

    return Nystromformer(dim=32, dim_head=8, heads=2, depth=2, num_landmarks=4, pinv_iterations=3), sequence()


@community("colt5-attention")
def conditional_feedforward():
    from colt5_attention import ConditionalRoutedFeedForward

    return ConditionalRoutedFeedForward(32, light_ff_mult=0.5, heavy_ff_mult=2, num_heavy_tokens=4), sequence()


@community("h-transformer-1d")
def h_transformer():
    from h_transformer_1d import HTransformer1D

    return HTransformer1D(
        num_tokens=VOCABULARY, dim=32, depth=1, causal=False, max_seq_len=32, heads=2, dim_head=8, block_size=8
    ), words(32)


@community("omninet-pytorch")
def omninet():
    from omninet_pytorch import Omninet

    model = Omninet(dim=32, depth=2, dim_head=8, heads=2, pool_layer_tokens_every=2)
    return model, sequence()


@community("block-recurrent-transformer-pytorch")
def block_recurrent_transformer():
    from block_recurrent_transformer_pytorch import BlockRecurrentTransformer

    model = BlockRecurrentTransformer(
        num_tokens=VOCABULARY, dim=32, depth=2, dim_head=8, heads=2, max_seq_len=16, block_width=8, num_state_vectors=8,
        recurrent_layers=(2,), use_compressed_mem=False,
    )  # fmt: skip
    return model, words()


@community("simple-hierarchical-transformer")
def hierarchical_transformer():
    from simple_hierarchical_transformer import HierarchicalTransformer

    model = HierarchicalTransformer(
        num_tokens=VOCABULARY, dim=32, depth=2, dim_head=8, heads=2, seq_len=16, hierarchies=(1, 2), window_sizes=(8, None)
    )
    return model, words(name="ids")


@community("taylor-series-linear-attention")
def taylor_series_attention():
    from taylor_series_linear_attention import TaylorSeriesLinearAttn

    return TaylorSeriesLinearAttn(dim=32, dim_head=8, heads=2), sequence()


@community("bidirectional-cross-attention")
def bidirectional_cross_attention():
    from bidirectional_cross_attention import BidirectionalCrossAttention

    model = BidirectionalCrossAttention(dim=32, heads=2, dim_head=8, context_dim=24)
    return model, lambda n: {"x": torch.randn(n, 9, 32), "context": torch.randn(n, 7, 24)}


@community("ring-attention-pytorch")
def ring_attention():
    from ring_attention_pytorch import RingAttention

    return RingAttention(
        dim=32, dim_head=8, heads=2, causal=True, auto_shard_seq=False, ring_attn=False, use_cuda_kernel=False
    ), sequence()


@community("gateloop-transformer")
def gateloop_transformer():
    from gateloop_transformer import Transformer

    return Transformer(num_tokens=VOCABULARY, dim=32, depth=2, use_gate_looped_attn=True), words()


@community("feedback-transformer-pytorch")
def feedback_transformer():
    from feedback_transformer_pytorch import FeedbackTransformer

    return FeedbackTransformer(num_tokens=VOCABULARY, dim=32, depth=2, seq_len=2, mem_len=8, dim_head=8, heads=2), words(6)


@community("perceiver-pytorch")
def perceiver():
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=3, max_freq=10.0, depth=2, num_latents=8, latent_dim=16, cross_heads=1,
        latent_heads=2, cross_dim_head=8, latent_dim_head=8, num_classes=5,
    )  # fmt: skip
    return model, lambda n: {"data": torch.randn(n, 8, 8, 3)}


@community("perceiver-pytorch")
def perceiver_io():
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        dim=16, queries_dim=16, logits_dim=5, depth=2, num_latents=8, latent_dim=16, cross_heads=1, latent_heads=2,
        cross_dim_head=8, latent_dim_head=8,
    )  # fmt: skip
    return model, lambda n: {"data": torch.randn(n, 12, 16), "queries": torch.randn(6, 16)}


# -- mixtures, memories, embeddings --------------------------------------------------------------------------------


@community("mixture-of-experts")
def mixture_of_experts():
    from mixture_of_experts import MoE

    return MoE(dim=32, num_experts=4, hidden_dim=48), lambda n: {"inputs": torch.randn(n, 16, 32)}


@community("soft-moe-pytorch")
def soft_mixture_of_experts():
    from soft_moe_pytorch import SoftMoE

    return SoftMoE(dim=32, seq_len=16, num_experts=4), sequence()


@community("soft-moe-pytorch")
def dynamic_slots_mixture():
    from soft_moe_pytorch import DynamicSlotsSoftMoE

    return DynamicSlotsSoftMoE(dim=32, num_experts=4), sequence()


@community("st-moe-pytorch")
def stable_mixture_of_experts():
    from st_moe_pytorch import MoE

    return MoE(dim=32, num_experts=4, gating_top_n=2, threshold_train=0.2, threshold_eval=0.2), sequence()


@community("product-key-memory")
def product_key_memory():
    from product_key_memory import PKM

    return PKM(dim=32, heads=2, dim_head=16, num_keys=8, topk=4), sequence()


@community("rotary-embedding-torch")
def rotary_embedding():
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=8)

    def turned(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        q, k = rotary.rotate_queries_or_keys(q), rotary.rotate_queries_or_keys(k)
        return torch.einsum("b h i d, b h j d -> b h i j", q, k)

    return turned, lambda n: {"q": torch.randn(n, 2, 10, 8), "k": torch.randn(n, 2, 10, 8)}


@community("rotary-embedding-torch")
def axial_rotary_embedding():
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    rotary = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16)
    return (lambda t: apply_rotary_emb(rotary.get_axial_freqs(6, 6), t)), lambda n: {"t": torch.randn(n, 6, 6, 32)}


@community("positional-encodings")
def positional_encodings():
    from positional_encodings.torch_encodings import PositionalEncoding1D, PositionalEncoding2D, Summer

    one, two = Summer(PositionalEncoding1D(8)), PositionalEncoding2D(8)
    return (lambda x, y: (one(x), two(y))), lambda n: {"x": torch.randn(n, 6, 8), "y": torch.randn(n, 4, 5, 8)}


@community("hyper-connections")
def hyper_connections():
    from hyper_connections import HyperConnections

    init, expand, reduce = HyperConnections.get_init_and_expand_reduce_stream_functions(2)
    branches = torch.nn.ModuleList([init(dim=32, branch=torch.nn.Linear(32, 32)) for _ in range(2)])

    def stream(x: torch.Tensor) -> torch.Tensor:
        x = expand(x)
        for branch in branches:
            x = branch(x)
        return reduce(x)

    return stream, sequence()


@community("x-transformers")
def x_continuous():
    from x_transformers import ContinuousTransformerWrapper, Encoder

    layers = Encoder(dim=32, depth=2, heads=2, attn_dim_head=8, attn_qk_norm=True, rel_pos_bias=True)
    return ContinuousTransformerWrapper(dim_in=8, dim_out=4, max_seq_len=32, attn_layers=layers), sequence(width=8)


@community("x-transformers", trains=True)
def x_autoregressive():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=8, dynamic_pos_bias=True, ff_swish=True, attn_pre_talking_heads=True)
    return AutoregressiveWrapper(TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=32, attn_layers=layers)), words()


@community("x-transformers")
def x_encoder_decoder():
    from x_transformers import XTransformer

    model = XTransformer(
        dim=32, enc_num_tokens=VOCABULARY, enc_depth=1, enc_heads=2, enc_max_seq_len=32, dec_num_tokens=VOCABULARY, dec_depth=1,
        dec_heads=2, dec_max_seq_len=32,
    )  # fmt: skip
    return model, lambda n: {"src": ids(n, 9), "tgt": ids(n, 7)}


@community("einx")
def einx_program():
    import einx

    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = einx.dot("b s [c], [c] d -> b s d", x, w)
        y = einx.softmax("b [s] d", y)
        return einx.id("b (s p) d -> b s (p d)", y, p=2), einx.mean("b [s] d", y)

    return program, lambda n: {"x": torch.randn(n, 6, 8), "w": torch.randn(8, 5)}


@community("einops")
def einops_layers():
    from einops import pack, rearrange, reduce, repeat, unpack
    from einops.layers.torch import EinMix, Rearrange, Reduce

    mix = EinMix("b s c -> b s d", weight_shape="c d", bias_shape="d", c=8, d=6)
    layers = torch.nn.Sequential(mix, Rearrange("b (s p) d -> b s (p d)", p=2), Reduce("b s d -> b d", "max"))

    def program(x: torch.Tensor) -> Any:
        packed, shapes = pack([x, x[:, 0]], "b * c")
        a, b = unpack(packed * 2, shapes, "b * c")
        c = rearrange(x, "(a k) s c -> a k s c", a=x.shape[0])
        return layers(x), a, b, reduce(c, "a k s c -> a c", "mean"), repeat(b, "b c -> b r c", r=3)

    return program, sequence(6, 8)
