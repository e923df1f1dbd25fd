"""Probability, differential equations, geometry, graphs, tables, sound and quantised weights."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.registry import Inputs, community, ids


def rows(width: int = 8, name: str = "x") -> Inputs:
    """Rows of a table, (n, width)."""
    return lambda n: {name: torch.randn(n, width)}


# -- probability ----------------------------------------------------------------------------------------------------


@community("gpytorch")
def gaussian_kernels():
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=8)) + gpytorch.kernels.MaternKernel(nu=2.5)
    return (lambda x: kernel(x).to_dense()), rows()


@community("gpytorch", trains=True)
def gaussian_process_likelihood():
    import gpytorch

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.RBFKernel()

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    def program(x: torch.Tensor) -> torch.Tensor:
        return gpytorch.distributions.MultivariateNormal(model.mean(x), model.kernel(x).add_jitter(0.1)).log_prob(x[:, 0])

    model = Exact(torch.randn(5, 3), torch.randn(5), gpytorch.likelihoods.GaussianLikelihood())
    return program, rows(3)


@community("pyro-ppl")
def pyro_log_density():
    import pyro.distributions as dist

    def program(x: torch.Tensor) -> torch.Tensor:
        mixture = dist.Normal(x, 1.0).log_prob(x + 1) + dist.Gamma(2.0, 3.0).log_prob(x.exp())
        return mixture + dist.MultivariateNormal(x, torch.eye(8)).log_prob(x.cos())[:, None]

    return program, rows()


@community("pyro-ppl")
def pyro_transforms():
    from pyro.distributions.transforms import Planar, affine_coupling, spline

    coupling, bend, plane = affine_coupling(8, [16]), spline(8), Planar(8)
    return (lambda x: plane(bend(coupling(x)))), rows()


@community("normflows")
def normalizing_flow():
    import normflows as nf

    layers = [
        nf.flows.MaskedAffineFlow(torch.tensor([0.0, 1.0] * 4), nf.nets.MLP([8, 16, 8]), nf.nets.MLP([8, 16, 8]))
        for _ in range(2)
    ]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(8), layers)
    return model.log_prob, rows()


@community("zuko")
def neural_spline_flow():
    import zuko

    flow = zuko.flows.NSF(features=4, transforms=2, hidden_features=(16,))
    return (lambda x: flow().log_prob(x)), rows(4)


# -- equations and operators -------------------------------------------------------------------------------------------


@community("torchdiffeq")
def neural_equation():
    from torchdiffeq import odeint

    field = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
    return (lambda x: odeint(lambda t, y: field(y), x, torch.linspace(0, 1, 4), method="rk4")), rows()


@community("torchsde")
def stochastic_equation():
    import torchsde

    class Field(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return -y

        def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return 0.1 * y.cos()

    field = Field()
    return (lambda x: torchsde.sdeint(field, x, torch.linspace(0, 1, 3), dt=0.5, method="euler")), rows()


@community("neuraloperator")
def fourier_operator():
    from neuralop.models import FNO

    return FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2), lambda n: {
        "x": torch.randn(n, 1, 8, 8)
    }


# -- geometry and graphs -----------------------------------------------------------------------------------------------


@community("e3nn")
def spherical_harmonics():
    from e3nn import o3

    return o3.SphericalHarmonics([0, 1, 2], normalize=True), rows(3)


@community("e3nn")
def equivariant_product():
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", "4x0e + 2x1o")
    return product, lambda n: {"x": torch.randn(n, 10), "y": torch.randn(n, 4)}


@community("e3nn")
def equivariant_gate():
    from e3nn.nn import Gate

    gate = Gate("4x0e", [torch.relu], "2x0e", [torch.sigmoid], "2x1o")
    return gate, rows(12, "features")


@community("egnn-pytorch")
def equivariant_graph_network():
    from egnn_pytorch import EGNN

    layer = EGNN(dim=16, m_dim=8)
    return layer, lambda n: {"feats": torch.randn(n, 6, 16), "coors": torch.randn(n, 6, 3)}


@community("invariant-point-attention")
def invariant_point_attention():
    from invariant_point_attention import InvariantPointAttention

    model = InvariantPointAttention(dim=16, heads=2, scalar_key_dim=4, scalar_value_dim=4, point_key_dim=2, point_value_dim=2)
    return model, lambda n: {
        "single_repr": torch.randn(n, 6, 16),
        "pairwise_repr": torch.randn(n, 6, 6, 16),
        "rotations": torch.eye(3).expand(n, 6, 3, 3),
        "translations": torch.randn(n, 6, 3),
    }


@community("torch-geometric")
def graph_isomorphism_network():
    from torch_geometric.nn import GIN

    def ring(n: int) -> dict[str, Any]:
        nodes = torch.arange(6 * n)
        return {"x": torch.randn(6 * n, 8), "edge_index": torch.stack((nodes, nodes - nodes % 6 + (nodes + 1) % 6))}

    return GIN(8, 16, num_layers=2, out_channels=4), ring


# -- tables ------------------------------------------------------------------------------------------------------------


@community("pytorch-tabnet")
def tabnet():
    from pytorch_tabnet.tab_network import TabNetNoEmbeddings

    model = TabNetNoEmbeddings(8, 3, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(8))
    return model, rows()


@community("rtdl-num-embeddings")
def periodic_embeddings():
    from rtdl_num_embeddings import PeriodicEmbeddings

    return PeriodicEmbeddings(8, 8, lite=False), rows()


@community("entmax")
def sparse_softmax():
    from entmax import entmax15, sparsemax

    return (lambda x: entmax15(x, dim=-1) + sparsemax(x, dim=-1)), rows()


@community("pytorch-metric-learning", trains=True)
def triplet_loss():
    from pytorch_metric_learning.losses import ContrastiveLoss

    loss = ContrastiveLoss()
    return loss, lambda n: {"embeddings": torch.randn(2 * n, 8, requires_grad=True), "labels": torch.arange(2 * n) % n}


# -- sound and time ------------------------------------------------------------------------------------------------------


@community("conformer")
def conformer_block():
    from conformer import ConformerBlock

    return ConformerBlock(dim=32, dim_head=8, heads=2), lambda n: {"x": torch.randn(n, 12, 32)}


@community("julius")
def filters():
    import julius

    low = julius.LowPassFilter(0.1)
    bands = julius.SplitBands(8000, n_bands=3)
    return (lambda x: (bands(low(x)), julius.resample_frac(x, 4, 5))), lambda n: {"x": torch.randn(n, 400)}


@community("asteroid-filterbanks")
def analysis_filterbank():
    from asteroid_filterbanks import Encoder, FreeFB

    return Encoder(FreeFB(16, 8, stride=4)), lambda n: {"waveform": torch.randn(n, 1, 100)}


@community("torch-dct")
def cosine_transform():
    import torch_dct

    return (lambda x: torch_dct.idct(torch_dct.dct(x) * 0.5)), rows()


@community("itransformer")
def inverted_transformer():
    from iTransformer import iTransformer

    model = iTransformer(num_variates=4, lookback_len=16, dim=16, depth=1, heads=2, dim_head=8, pred_length=4)
    return model, lambda n: {"x": torch.randn(n, 16, 4)}


@community("mambapy")
def mamba_blocks():
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=2)), lambda n: {"x": torch.randn(n, 8, 16)}


# -- parts of networks ------------------------------------------------------------------------------------------------------


@community("vector-quantize-pytorch")
def vector_quantizer():
    from vector_quantize_pytorch import VectorQuantize

    return VectorQuantize(dim=16, codebook_size=32), lambda n: {"x": torch.randn(n, 10, 16)}


@community("vector-quantize-pytorch")
def residual_quantizer():
    from vector_quantize_pytorch import ResidualVQ

    return ResidualVQ(dim=16, codebook_size=16, num_quantizers=2), lambda n: {"x": torch.randn(n, 10, 16)}


@community("vector-quantize-pytorch")
def finite_scalar_quantizer():
    from vector_quantize_pytorch import FSQ

    return FSQ(levels=[5, 4, 3]), lambda n: {"z": torch.randn(n, 10, 3)}


@community("vector-quantize-pytorch")
def lookup_free_quantizer():
    from vector_quantize_pytorch import LFQ

    return LFQ(codebook_size=16, dim=4), lambda n: {"x": torch.randn(n, 10, 4)}


@community("siren-pytorch")
def siren():
    from siren_pytorch import SirenNet

    return SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3), rows(2)


@community("geotorch")
def orthogonal_layer():
    import geotorch

    layer = torch.nn.Linear(8, 8)
    geotorch.orthogonal(layer, "weight")
    return layer, rows(8, "input")


@community("snntorch")
def spiking_network():
    import snntorch as snn

    layer, spike = torch.nn.Linear(8, 8), snn.Leaky(beta=0.9)

    def program(x: torch.Tensor) -> torch.Tensor:
        state, found = spike.init_leaky(), []
        for _ in range(3):
            out, state = spike(layer(x), state)
            found.append(out)
        return torch.stack(found)

    return program, rows()


@community("tensordict")
def tensor_dict_program():
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    first = TensorDictModule(torch.nn.Linear(8, 4), in_keys=["a"], out_keys=["b"])
    second = TensorDictModule(torch.nn.Tanh(), in_keys=["b"], out_keys=["c"])
    both = TensorDictSequential(first, second)

    def program(a: torch.Tensor) -> Any:
        found = both(TensorDict({"a": a}, batch_size=[a.shape[0]]))
        return found["c"], found.batch_size[0]

    return program, rows(8, "a")


@community("torchao")
def int8_weights():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    quantize_(model, Int8WeightOnlyConfig())
    return model, rows(32, "input")


@community("peft")
def low_rank_adapter():
    from peft import LoraConfig, get_peft_model

    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return get_peft_model(model, LoraConfig(target_modules=["0", "2"], r=4)), rows(16, "input")


@community("torchmetrics")
def classification_metrics():
    from torchmetrics.functional import accuracy, f1_score, mean_squared_error

    def program(scores: torch.Tensor, target: torch.Tensor) -> Any:
        found = accuracy(scores, target, task="multiclass", num_classes=4)
        return found, f1_score(scores, target, task="multiclass", num_classes=4), mean_squared_error(scores[:, 0], target.float())

    return program, lambda n: {"scores": torch.randn(n, 4), "target": torch.randint(0, 4, (n,))}


@community("denoising-diffusion-pytorch")
def diffusion_unet():
    from denoising_diffusion_pytorch.denoising_diffusion_pytorch_1d import Unet1D

    return Unet1D(dim=8, dim_mults=(1, 2), channels=3), lambda n: {
        "x": torch.randn(n, 3, 16),
        "time": torch.randint(0, 9, (n,)).float(),
    }


@community("chronos-forecasting")
def patch_forecaster():
    import transformers
    from chronos.chronos_bolt import ChronosBoltModelForForecasting

    config = transformers.T5Config(d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, vocab_size=4, feed_forward_proj="relu")
    config.chronos_config = {
        "context_length": 16, "prediction_length": 4, "input_patch_size": 4, "input_patch_stride": 4,
        "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True,
    }  # fmt: skip
    model = ChronosBoltModelForForecasting(config)
    return (lambda x: model.eval()(x).quantile_preds), rows(16)


@community("sentence-transformers")
def sentence_pooling():
    from sentence_transformers.models import Normalize, Pooling

    pool, unit = Pooling(16, pooling_mode="mean"), Normalize()

    def program(token_embeddings: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return unit(pool({"token_embeddings": token_embeddings, "attention_mask": attention_mask}))["sentence_embedding"]

    return program, lambda n: {"token_embeddings": torch.randn(n, 6, 16), "attention_mask": torch.ones(n, 6, dtype=torch.long)}


@community("torchfm")
def factorization_machine():
    from torchfm.model.fm import FactorizationMachineModel

    return FactorizationMachineModel([97, 97], 8), lambda n: {"x": ids(n, 2)}
