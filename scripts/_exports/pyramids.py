"""Networks that bring an image down and up again: U-Nets, segmentation, depth, super-resolution."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from _exports.network import BATCH, Built, Network, classified, image


def _block(before: int, after: int, norm: str, act: type[nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        kinds = {"batch": nn.BatchNorm2d(after), "group": nn.GroupNorm(4, after), "instance": nn.InstanceNorm2d(after)}
        layers += [nn.Conv2d(channels, after, 3, padding=1, bias=norm != "batch"), kinds[norm], act()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Two levels; ``up`` is the mode of interpolation, or a transposed convolution."""

    def __init__(self, up: str, norm: str, act: type[nn.Module]) -> None:
        super().__init__()
        self.up = up
        self.first, self.second = _block(3, 8, norm, act), _block(8, 16, norm, act)
        self.third = _block(16, 16, norm, act)
        self.lift = nn.ConvTranspose2d(16, 16, 2, 2) if up == "transposed" else None
        self.fourth, self.fifth = _block(32, 8, norm, act), _block(16, 8, norm, act)
        self.lift_last = nn.ConvTranspose2d(8, 8, 2, 2) if up == "transposed" else None
        self.head = nn.Conv2d(8, 2, 1)

    def _raised(self, data: torch.Tensor, like: torch.Tensor, lift: nn.Module | None) -> torch.Tensor:
        if lift is not None:
            return lift(data)
        if self.up == "nearest":
            return functional.interpolate(data, scale_factor=2, mode="nearest")
        return functional.interpolate(data, size=like.shape[-2:], mode="bilinear", align_corners=self.up == "corners")

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Return a score for every pixel."""
        first = self.first(data)
        second = self.second(functional.max_pool2d(first, 2))
        third = self.third(functional.max_pool2d(second, 2))
        fourth = self.fourth(torch.cat([self._raised(third, second, self.lift), second], 1))
        return self.head(self.fifth(torch.cat([self._raised(fourth, first, self.lift_last), first], 1)))


def _unet(up: str, norm: str, act: type[nn.Module], *, dynamic: bool = False) -> Built:
    return classified(UNet(up, norm, act), 32, dynamic=dynamic)


class SuperResolution(nn.Module):
    """Sub-pixel convolutions; with ``add``, what they make is added to the interpolated image."""

    def __init__(self, *, add: bool) -> None:
        super().__init__()
        self.add = add
        self.body = nn.Sequential(nn.Conv2d(3, 8, 5, padding=2), nn.PReLU(), nn.Conv2d(8, 12, 3, padding=1))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Return an image twice as large."""
        made = functional.pixel_shuffle(self.body(data), 2)
        if not self.add:
            return made
        return made + functional.interpolate(data, scale_factor=2, mode="bicubic", align_corners=False)


def _super_resolution(*, add: bool) -> Built:
    sizes = {0: "batch", 2: "height", 3: "width"}
    return Built(SuperResolution(add=add), {"data": image(24)}, {"data": BATCH if add else sizes})


def _segformer() -> Built:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], sr_ratios=[4, 2, 2, 1],
        decoder_hidden_size=16, mlp_ratios=[2, 2, 2, 2], num_labels=4,
    )  # fmt: skip
    return classified(SegformerForSemanticSegmentation(config))


def _dpt() -> Built:
    from transformers import DPTConfig, DPTForDepthEstimation

    config = DPTConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48, image_size=32, patch_size=8,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
    )  # fmt: skip
    return classified(DPTForDepthEstimation(config), 32)


def _deeplab() -> Built:
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    module = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
    return classified(module, 64)


PYRAMIDS = (
    Network("unet_nearest", "U-Net", lambda: _unet("nearest", "batch", nn.ReLU, dynamic=True)),
    Network("unet_transposed", "U-Net", lambda: _unet("transposed", "group", nn.SiLU)),
    Network("unet_bilinear", "U-Net", lambda: _unet("bilinear", "batch", nn.Mish, dynamic=True)),
    Network("unet_corners", "U-Net", lambda: _unet("corners", "instance", nn.LeakyReLU)),
    Network("super_resolution", "Super-resolution", lambda: _super_resolution(add=False)),
    Network("super_resolution_add", "Super-resolution", lambda: _super_resolution(add=True)),
    Network("segformer", "SegFormer", _segformer),
    Network("dpt", "DPT", _dpt),
    Network("lraspp", "LR-ASPP", _deeplab),
)
