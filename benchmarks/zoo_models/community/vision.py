"""Images: vision transformers, filters, geometry."""

from __future__ import annotations

import torch

from benchmarks.zoo_models.registry import Inputs, community, without_init


def images(size: int = 16, channels: int = 3, name: str = "img") -> Inputs:
    """(n, channels, size, size)."""
    return lambda n: {name: torch.rand(n, channels, size, size)}


VIT = {"image_size": 16, "patch_size": 4, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}


@community("vit-pytorch")
def vit_pytorch():
    without_init("vit_pytorch")
    from vit_pytorch.vit import ViT

    return ViT(**VIT), images()


@community("vit-pytorch")
def simple_vit():
    without_init("vit_pytorch")
    from vit_pytorch.simple_vit import SimpleViT

    return SimpleViT(**VIT), images()


@community("vit-pytorch")
def deep_vit():
    without_init("vit_pytorch")
    from vit_pytorch.deepvit import DeepViT

    return DeepViT(**VIT), images()


@community("vit-pytorch")
def cait():
    without_init("vit_pytorch")
    from vit_pytorch.cait import CaiT

    sizes = {**VIT, "cls_depth": 1}
    return CaiT(**sizes), images()


@community("vit-pytorch")
def token_to_token_vit():
    without_init("vit_pytorch")
    from vit_pytorch.t2t import T2TViT

    return T2TViT(dim=32, image_size=16, depth=1, heads=2, mlp_dim=48, num_classes=5, t2t_layers=((3, 2), (3, 2))), images()


@community("vit-pytorch")
def compact_transformer():
    without_init("vit_pytorch")
    from vit_pytorch.cct import CCT

    model = CCT(
        img_size=16, embedding_dim=32, n_conv_layers=1, kernel_size=3, stride=2, padding=1, pooling_kernel_size=3,
        pooling_stride=2, pooling_padding=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=5,
    )  # fmt: skip
    return model, images(name="x")


@community("vit-pytorch")
def cross_vit():
    without_init("vit_pytorch")
    from vit_pytorch.cross_vit import CrossViT

    model = CrossViT(
        image_size=16, num_classes=5, depth=1, sm_dim=16, sm_patch_size=4, sm_enc_depth=1, sm_enc_heads=2, sm_enc_mlp_dim=24,
        lg_dim=24,
        lg_patch_size=8, lg_enc_depth=1, lg_enc_heads=2, lg_enc_mlp_dim=32, cross_attn_depth=1, cross_attn_heads=2,
    )  # fmt: skip
    return model, images()


@community("vit-pytorch")
def pooling_vit():
    without_init("vit_pytorch")
    from vit_pytorch.pit import PiT

    return PiT(image_size=16, patch_size=4, dim=16, num_classes=5, depth=(1, 1), heads=2, mlp_dim=24), images()


@community("vit-pytorch")
def levit():
    without_init("vit_pytorch")
    from vit_pytorch.levit import LeViT

    model = LeViT(image_size=32, num_classes=5, stages=2, dim=(16, 24), depth=1, heads=(2, 2), mlp_mult=2)
    return model, images(32)


@community("vit-pytorch")
def convolutional_vit():
    without_init("vit_pytorch")
    from vit_pytorch.cvt import CvT

    model = CvT(
        num_classes=5, s1_emb_dim=8, s1_depth=1, s2_emb_dim=16, s2_heads=2, s2_depth=1, s3_emb_dim=24, s3_heads=2, s3_depth=1
    )
    return model, images(32, name="x")


@community("vit-pytorch")
def twins_svt():
    without_init("vit_pytorch")
    from vit_pytorch.twins_svt import TwinsSVT

    model = TwinsSVT(
        num_classes=5, s1_emb_dim=8, s1_patch_size=2, s1_local_patch_size=4, s1_global_k=4, s1_depth=1, s2_emb_dim=16,
        s2_patch_size=2,
        s2_local_patch_size=2, s2_global_k=2, s2_depth=1, s3_emb_dim=16, s3_patch_size=2, s3_local_patch_size=2, s3_global_k=2,
        s3_depth=1, s4_emb_dim=16, s4_patch_size=2, s4_local_patch_size=1, s4_global_k=2, s4_depth=1,
    )  # fmt: skip
    return model, images(32, name="x")


@community("vit-pytorch")
def cross_former():
    without_init("vit_pytorch")
    from vit_pytorch.crossformer import CrossFormer

    model = CrossFormer(
        num_classes=5, dim=32, depth=1, global_window_size=(4, 2, 2, 1), local_window_size=(4, 2, 2, 1),
        cross_embed_kernel_sizes=((4, 8), (2, 4), (2, 4), (2, 4)),
    )  # fmt: skip
    return model, images(32, name="x")


@community("vit-pytorch")
def max_vit():
    without_init("vit_pytorch")
    from vit_pytorch.max_vit import MaxViT

    model = MaxViT(num_classes=5, dim_conv_stem=8, dim=8, dim_head=8, depth=(1, 1), window_size=2, mbconv_expansion_rate=2)
    return model, images(16, name="x")


@community("vit-pytorch")
def nested_vit():
    without_init("vit_pytorch")
    from vit_pytorch.nest import NesT

    return NesT(image_size=16, patch_size=4, dim=16, heads=2, num_hierarchies=2, block_repeats=(1, 1), num_classes=5), images()


@community("vit-pytorch")
def region_vit():
    without_init("vit_pytorch")
    from vit_pytorch.regionvit import RegionViT

    return RegionViT(dim=8, depth=1, window_size=2, num_classes=5), images(64, name="x")


@community("vit-pytorch")
def scalable_vit():
    without_init("vit_pytorch")
    from vit_pytorch.scalable_vit import ScalableViT

    model = ScalableViT(
        num_classes=5, dim=8, heads=(2, 2), depth=(1, 1), ssa_dim_key=(8, 8), reduction_factor=(2, 1), window_size=(4, None)
    )
    return model, images(32)


@community("vit-pytorch")
def separable_vit():
    without_init("vit_pytorch")
    from vit_pytorch.sep_vit import SepViT

    return SepViT(num_classes=5, dim=8, dim_head=8, heads=(1, 2), depth=(1, 1)), images(56, name="x")  # windows of 7


@community("vit-pytorch")
def small_dataset_vit():
    without_init("vit_pytorch")
    from vit_pytorch.vit_for_small_dataset import ViT

    return ViT(**VIT), images()


@community("vit-pytorch")
def native_resolution_vit():
    without_init("vit_pytorch")
    from vit_pytorch.na_vit import NaViT

    model = NaViT(image_size=16, patch_size=4, num_classes=5, dim=32, depth=1, heads=2, mlp_dim=48, token_dropout_prob=None)

    def classified(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return model([[a, b]])

    model.eval()
    return classified, lambda n: {"a": torch.rand(3, 4, 4 * n if n < 5 else 16), "b": torch.rand(3, 8, 8)}


def _encoder() -> torch.nn.Module:
    """A vision transformer whose positions have the dim for a batch that those who mask its patches expect."""
    from vit_pytorch.vit import ViT

    encoder = ViT(**VIT)
    encoder.pos_embedding = torch.nn.Parameter(encoder.pos_embedding.detach()[None])
    return encoder


@community("vit-pytorch", trains=True)
def masked_autoencoder():
    without_init("vit_pytorch")
    from vit_pytorch.mae import MAE

    return MAE(
        encoder=_encoder(), masking_ratio=0.75, decoder_dim=16, decoder_depth=1, decoder_heads=2, decoder_dim_head=8
    ), images()


@community("vit-pytorch", trains=True)
def simple_masked_modelling():
    without_init("vit_pytorch")
    from vit_pytorch.simmim import SimMIM

    return SimMIM(encoder=_encoder(), masking_ratio=0.5), images()


@community("vit-pytorch")
def vivit():
    without_init("vit_pytorch")
    from vit_pytorch.vivit import ViViT

    model = ViViT(
        image_size=16, image_patch_size=4, frames=4, frame_patch_size=2, num_classes=5, dim=32, spatial_depth=1, temporal_depth=1,
        heads=2,
        mlp_dim=48,
    )  # fmt: skip
    return model, lambda n: {"video": torch.rand(n, 3, 4, 16, 16)}


@community("mlp-mixer-pytorch")
def mlp_mixer():
    from mlp_mixer_pytorch import MLPMixer

    return MLPMixer(image_size=16, channels=3, patch_size=4, dim=32, depth=2, num_classes=5), images(name="input")


@community("g-mlp-pytorch")
def gated_mlp_vision():
    from g_mlp_pytorch import gMLPVision

    return gMLPVision(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2), images(name="x")


@community("g-mlp-pytorch")
def gated_mlp_language():
    from g_mlp_pytorch import gMLP

    from benchmarks.zoo_models.community.attention import words

    return gMLP(num_tokens=97, dim=32, depth=2, seq_len=16, causal=True), words()


@community("lambda-networks")
def lambda_layer():
    from lambda_networks import LambdaLayer

    return LambdaLayer(dim=16, dim_out=16, r=5, dim_k=8, heads=2), images(8, 16, "x")


@community("slot-attention")
def slot_attention():
    from slot_attention import SlotAttention

    return SlotAttention(num_slots=3, dim=16, iters=2), lambda n: {"inputs": torch.randn(n, 12, 16)}


# -- kornia ---------------------------------------------------------------------------------------------------------


@community("kornia")
def edges():
    import kornia

    def program(img: torch.Tensor) -> torch.Tensor:
        magnitude, found = kornia.filters.canny(img)
        return kornia.filters.sobel(magnitude) + found

    return program, images()


@community("kornia")
def blurred():
    import kornia

    def program(img: torch.Tensor) -> torch.Tensor:
        img = kornia.filters.gaussian_blur2d(img, (5, 5), (1.5, 1.5))
        img = kornia.filters.unsharp_mask(img, (3, 3), (1.0, 1.0))
        return kornia.filters.bilateral_blur(img, (3, 3), 0.1, (1.5, 1.5))

    return program, images()


@community("kornia")
def colours():
    import kornia

    def program(img: torch.Tensor) -> torch.Tensor:
        lab = kornia.color.rgb_to_lab(img)
        hsv = kornia.color.rgb_to_hsv(img)
        return kornia.color.lab_to_rgb(lab) + kornia.color.hsv_to_rgb(hsv) + kornia.color.rgb_to_ycbcr(img)

    return program, images()


@community("kornia")
def augmentations():
    import kornia.augmentation as K

    augment = torch.nn.Sequential(
        K.RandomHorizontalFlip(p=0.5), K.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0), K.RandomAffine(10.0, p=0.5)
    )
    return augment, images(name="input")


@community("kornia")
def warped():
    import kornia

    def program(img: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        turned = kornia.geometry.transform.rotate(img, angle)
        return kornia.geometry.transform.resize(turned, (12, 12), antialias=True)

    return program, lambda n: {"img": torch.rand(n, 3, 16, 16), "angle": torch.rand(n) * 90}


@community("kornia")
def homography():
    import kornia

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return kornia.geometry.homography.find_homography_dlt(a, b)

    return program, lambda n: {"a": torch.rand(n, 6, 2), "b": torch.rand(n, 6, 2)}


@community("kornia")
def rotations():
    import kornia

    def program(v: torch.Tensor) -> torch.Tensor:
        matrix = kornia.geometry.conversions.axis_angle_to_rotation_matrix(v)
        quaternion = kornia.geometry.conversions.rotation_matrix_to_quaternion(matrix)
        return kornia.geometry.conversions.quaternion_to_axis_angle(quaternion)

    return program, lambda n: {"v": torch.randn(n, 3)}


@community("kornia")
def lie_group():
    from kornia.geometry.liegroup import Se3

    def program(v: torch.Tensor) -> torch.Tensor:
        return Se3.exp(v).log()

    return program, lambda n: {"v": torch.randn(n, 6) * 0.3}


@community("kornia")
def structural_similarity():
    import kornia

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return kornia.losses.ssim_loss(a, b, 5) + kornia.losses.total_variation(a).mean() + kornia.metrics.psnr(a, b, 1.0)

    return program, lambda n: {"a": torch.rand(n, 3, 16, 16), "b": torch.rand(n, 3, 16, 16)}


@community("kornia")
def corners():
    import kornia

    return (lambda img: kornia.feature.gftt_response(img) + kornia.feature.harris_response(img, 0.04)), images(16, 1)


@community("kornia")
def descriptors():
    import kornia

    return kornia.feature.SIFTDescriptor(16, rootsift=True), images(16, 1, "input")


# -- whole images ---------------------------------------------------------------------------------------------------


@community("efficientnet-pytorch")
def efficientnet():
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name("efficientnet-b0", num_classes=5), images(32, name="inputs")


@community("pytorch-msssim")
def multi_scale_similarity():
    from pytorch_msssim import ms_ssim, ssim

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ssim(a, b, data_range=1.0, win_size=5) + ms_ssim(a, b, data_range=1.0, win_size=3, size_average=False)

    return program, lambda n: {"a": torch.rand(n, 3, 48, 48), "b": torch.rand(n, 3, 48, 48)}


@community("pytorch-wavelets")
def wavelets():
    from pytorch_wavelets import DWTForward, DWTInverse

    forward, inverse = DWTForward(J=2, wave="db2", mode="zero"), DWTInverse(wave="db2", mode="zero")

    def program(img: torch.Tensor) -> torch.Tensor:
        low, high = forward(img)
        return inverse((low, [band * 0.5 for band in high]))

    return program, images()


@community("kymatio")
def scattering():
    from kymatio.torch import Scattering2D

    return Scattering2D(J=2, shape=(16, 16), L=4), images(16, 1, "x")
