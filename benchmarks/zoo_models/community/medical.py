"""Networks for medical images."""

from __future__ import annotations

import torch

from benchmarks.zoo_models.community.vision import images
from benchmarks.zoo_models.registry import community


@community("monai")
def monai_unet():
    from monai.networks.nets import UNet

    return UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1), images(
        16, 1, "x"
    )


@community("monai")
def monai_basic_unet_plus_plus():
    from monai.networks.nets import BasicUNetPlusPlus

    return BasicUNetPlusPlus(spatial_dims=2, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 8, 4)), images(32, 1, "x")


@community("monai")
def monai_attention_unet():
    from monai.networks.nets import AttentionUnet

    return AttentionUnet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,)), images(16, 1, "x")


@community("monai")
def monai_unetr():
    from monai.networks.nets import UNETR

    model = UNETR(
        in_channels=1, out_channels=2, img_size=32, feature_size=4, hidden_size=32, mlp_dim=48, num_heads=2, spatial_dims=2
    )
    return model, images(32, 1, "x_in")


@community("monai")
def monai_swin_unetr():
    from monai.networks.nets import SwinUNETR

    model = SwinUNETR(in_channels=1, out_channels=2, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2), spatial_dims=2)
    return model, images(32, 1, "x_in")


@community("monai")
def monai_segresnet():
    from monai.networks.nets import SegResNet

    return SegResNet(spatial_dims=2, init_filters=8, in_channels=1, out_channels=2, blocks_down=(1, 1), blocks_up=(1,)), images(
        16, 1, "x"
    )


@community("monai")
def monai_vnet():
    from monai.networks.nets import VNet

    return VNet(spatial_dims=2, in_channels=1, out_channels=2), images(32, 1, "x")


@community("monai")
def monai_dynunet():
    from monai.networks.nets import DynUNet

    model = DynUNet(
        spatial_dims=2,
        in_channels=1,
        out_channels=2,
        kernel_size=(3, 3, 3),
        strides=(1, 2, 2),
        upsample_kernel_size=(2, 2),
        filters=(4, 8, 8),
    )
    return model, images(16, 1, "x")


@community("monai")
def monai_densenet():
    from monai.networks.nets import DenseNet

    return DenseNet(spatial_dims=2, in_channels=1, out_channels=3, init_features=8, growth_rate=4, block_config=(2, 2)), images(
        32, 1, "x"
    )


@community("monai", trains=True)
def monai_dice_loss():
    from monai.losses import DiceCELoss

    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    return loss, lambda n: {"input": torch.randn(n, 3, 8, 8, requires_grad=True), "target": torch.randint(0, 3, (n, 1, 8, 8))}


@community("monai")
def monai_autoencoder():
    from monai.networks.nets import AutoencoderKL

    model = AutoencoderKL(
        spatial_dims=2, in_channels=1, out_channels=1, num_res_blocks=(1, 1), channels=(8, 8), attention_levels=(False, True),
        latent_channels=4, norm_num_groups=4,
    )  # fmt: skip
    return model, images(16, 1, "x")
