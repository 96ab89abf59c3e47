"""Networks for images, small: few layers, few channels, random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from _exports.detection import DETECTION
from _exports.network import Built, Network, classified
from _exports.pyramids import PYRAMIDS


def _of_timm(name: str, *, dynamic: bool = False, size: int = 64, **options: Any) -> Built:
    import timm

    return classified(timm.create_model(name, pretrained=False, **options), size, dynamic=dynamic)


def _resnet() -> Built:
    from torchvision.models.resnet import BasicBlock, ResNet

    return classified(ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10), dynamic=True)


def _bottlenecks() -> Built:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[2, 2], return_dict=False)
    return classified(ResNetForImageClassification(config))


def _mobilenet_2() -> Built:
    from torchvision.models import MobileNetV2

    return classified(MobileNetV2(num_classes=10, width_mult=0.25), dynamic=True)


def _mobilenet_3() -> Built:
    from torchvision.models import mobilenet_v3_small

    return classified(mobilenet_v3_small(num_classes=10, width_mult=0.25))


def _efficientnet_2() -> Built:
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig

    stages = [FusedMBConvConfig(1, 3, 1, 8, 8, 1), FusedMBConvConfig(4, 3, 2, 8, 16, 1)]
    stages.append(MBConvConfig(4, 3, 2, 16, 24, 1))
    return classified(EfficientNet(stages, dropout=0.1, last_channel=48, num_classes=10), dynamic=True)


def _vit() -> Built:
    from torchvision.models import VisionTransformer

    module = VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10)
    return classified(module, 32)


def _vit_of_transformers() -> Built:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(**SMALL, image_size=32, patch_size=8, return_dict=False)
    return classified(ViTModel(config), 32, dynamic=True)


SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}


def _swin() -> Built:
    from torchvision.models.swin_transformer import SwinTransformer

    module = SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0)
    return classified(module)


def _swin_2() -> Built:
    from transformers import Swinv2Config, Swinv2Model

    config = Swinv2Config(
        image_size=32, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, patch_size=2, return_dict=False
    )
    return classified(Swinv2Model(config), 32, dynamic=True)


def _maxvit() -> Built:
    from torchvision.models import MaxVit

    module = MaxVit(
        (32, 32), stem_channels=8, partition_size=2, block_channels=[16, 32], block_layers=[1, 1], head_dim=8,
        stochastic_depth_prob=0.0, num_classes=10,
    )  # fmt: skip
    return classified(module, 32)


def _densenet() -> Built:
    from torchvision.models import DenseNet

    return classified(DenseNet(8, (2, 2), 16, num_classes=10), dynamic=True)


def _shufflenet() -> Built:
    from torchvision.models import ShuffleNetV2

    return classified(ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 128], num_classes=10), dynamic=True)


class Clip(nn.Module):
    """Text and images in one space."""

    def __init__(self) -> None:
        from transformers import CLIPConfig, CLIPModel

        super().__init__()
        text = {**SMALL, "vocab_size": 99, "max_position_embeddings": 16, "eos_token_id": 98, "bos_token_id": 97}
        vision = {**SMALL, "image_size": 32, "patch_size": 8}
        self.inner = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))

    def forward(self, input_ids: torch.Tensor, pixel_values: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """Return how alike they are, and both embeddings."""
        found = self.inner(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return found.logits_per_image, found.text_embeds, found.image_embeds


def _clip() -> Built:
    tokens = torch.randint(0, 98, (2, 7))
    tokens[:, -1] = 98
    mask = torch.ones_like(tokens)
    return Built(Clip(), {"input_ids": tokens, "pixel_values": torch.randn(2, 3, 32, 32), "attention_mask": mask})


VISION = (
    Network("resnet_basic", "ResNet", _resnet),
    Network("resnet_bottleneck", "ResNet", _bottlenecks),
    Network("mobilenet_v2", "MobileNet", _mobilenet_2),
    Network("mobilenet_v3", "MobileNet", _mobilenet_3),
    Network("efficientnet", "EfficientNet", lambda: _of_timm("test_efficientnet")),
    Network("efficientnet_v2", "EfficientNet", _efficientnet_2),
    Network("vit_torchvision", "ViT", _vit),
    Network("vit_timm", "ViT", lambda: _of_timm("test_vit", size=160)),
    Network("vit_transformers", "ViT", _vit_of_transformers),
    Network("swin", "Swin", _swin),
    Network("swin_v2", "Swin", _swin_2),
    Network("maxvit", "MaxViT", _maxvit),
    Network("convnext", "ConvNeXt", lambda: _of_timm("test_convnext", dynamic=True)),
    Network("densenet", "DenseNet", _densenet),
    Network("shufflenet", "ShuffleNet", _shufflenet),
    Network("clip", "CLIP", _clip),
    *PYRAMIDS,
    *DETECTION,
)
