"""Small networks of the well-known families, with drawn statistics: half of the scales are negative.

Needs torch; a test module calls ``pytest.importorskip("torch")`` before it imports this.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any

import onnx
import torch
from torch import nn

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.InstanceNorm2d)


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, wide: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(wide, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Sequential(nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        deep = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(deep + self.short(x))


class ResNet(nn.Module):
    """A stem, two blocks, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 6, 5, 2, 2, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.blocks = nn.Sequential(Block(6, 8, 1), Block(8, 10, 2))
        self.head = nn.Linear(10, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Inverted(nn.Module):
    """MobileNet's inverted residual."""

    def __init__(self, wide: int, out: int, stride: int) -> None:
        super().__init__()
        mid = wide * 3
        self.layers = nn.Sequential(
            nn.Conv2d(wide, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU6(),
            nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False), nn.BatchNorm2d(mid), nn.ReLU6(),
            nn.Conv2d(mid, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.residual = wide == out and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNet(nn.Module):
    """Normalised input, three inverted residuals, a head of BatchNorm1d."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(3)
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, bias=False), nn.BatchNorm2d(6), nn.Hardswish())
        self.blocks = nn.Sequential(Inverted(6, 6, 1), Inverted(6, 10, 2), Inverted(10, 10, 1))
        self.head = nn.Sequential(nn.Linear(10, 9), nn.BatchNorm1d(9), nn.Dropout(0.2), nn.Linear(9, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(self.first(x))).mean((2, 3)))


class Dense(nn.Module):
    """DenseNet's layer: normalised first, its output beside its input."""

    def __init__(self, wide: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(wide), nn.Conv2d(wide, 2 * growth, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(2 * growth), nn.Conv2d(2 * growth, growth, 3, 1, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fresh = self.conv2(torch.relu(self.bn2(self.conv1(torch.relu(self.bn1(x))))))
        return torch.cat([x, fresh], 1)


class DenseNet(nn.Module):
    """Stem, two layers, a transition, a layer, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.dense1 = nn.Sequential(Dense(6, 4), Dense(10, 4))
        self.transition = nn.Sequential(nn.BatchNorm2d(14), nn.ReLU(), nn.Conv2d(14, 8, 1, bias=False), nn.AvgPool2d(2))
        self.dense2 = Dense(8, 3)
        self.last = nn.BatchNorm2d(11)
        self.head = nn.Linear(11, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dense2(self.transition(self.dense1(self.stem(x))))
        return self.head(torch.relu(self.last(x)).mean((2, 3)))


def double_conv(wide: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(wide, out, 3, 1, 1), nn.BatchNorm2d(out), nn.ReLU(),
        nn.Conv2d(out, out, 3, 1, 1), nn.BatchNorm2d(out), nn.LeakyReLU(0.1),
    )  # fmt: skip


class UNet(nn.Module):
    """Two levels; transposed convolutions with BatchNorm, skips by concatenation, BatchNorm on the concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = double_conv(3, 5), double_conv(5, 8), double_conv(8, 10)
        self.up2 = nn.Sequential(nn.ConvTranspose2d(10, 8, 2, 2, groups=2), nn.BatchNorm2d(8))
        self.joined2 = nn.BatchNorm2d(16)
        self.right2 = double_conv(16, 6)
        self.up1 = nn.Sequential(nn.ConvTranspose2d(6, 4, 2, 2, bias=False), nn.BatchNorm2d(4))
        self.right1 = double_conv(9, 5)
        self.head = nn.Conv2d(5, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one = self.down1(x)
        two = self.down2(nn.functional.max_pool2d(one, 2))
        bottom = self.bottom(nn.functional.max_pool2d(two, 2))
        x = self.right2(self.joined2(torch.cat([self.up2(bottom), two], 1)))
        x = self.right1(torch.cat([self.up1(x), one], 1))
        return self.head(x), bottom.mean((2, 3))


class Generator(nn.Module):
    """DCGAN's generator: a projection, then transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(11, 12 * 9, bias=False)
        self.layers = nn.Sequential(
            nn.BatchNorm2d(12), nn.ReLU(),
            nn.ConvTranspose2d(12, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.ConvTranspose2d(8, 6, 3, 2, 1, output_padding=1, groups=2), nn.BatchNorm2d(6), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(6, 3, 1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.layers(self.project(z).reshape(-1, 12, 3, 3))


class Stylist(nn.Module):
    """A style transfer generator: InstanceNorm with affine parameters beside BatchNorm, which one of them absorbs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(2), nn.Conv2d(3, 6, 5), nn.InstanceNorm2d(6, affine=True), nn.BatchNorm2d(6), nn.ReLU(),
            nn.Conv2d(6, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="nearest"), nn.ConvTranspose2d(8, 4, 3, 1, 1),
            nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


IMAGE = (2, 3, 16, 24)
INPUTS: Mapping[type[nn.Module], tuple[int, ...]] = {
    ResNet: IMAGE, MobileNet: IMAGE, DenseNet: IMAGE, UNet: IMAGE, Generator: (3, 11), Stylist: IMAGE,
}  # fmt: skip


def drawn(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in evaluation mode, drawn anew: weights, statistics and scales, every other scale negative."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        with torch.no_grad():
            fan_in = parameter[0].numel() if parameter.ndim > 1 else 100
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / fan_in**0.5)
    for layer in module.modules():
        if not isinstance(layer, NORMS):
            continue
        size = layer.num_features
        with torch.no_grad():
            if layer.weight is not None:
                layer.weight.copy_(torch.rand(size, generator=generator) + 0.5)
                layer.weight[::2] *= -1
                layer.bias.copy_(torch.randn(size, generator=generator) * 0.3)
            if layer.running_mean is not None:
                layer.running_mean.copy_(torch.randn(size, generator=generator) * 0.4)
                layer.running_var.copy_(torch.rand(size, generator=generator) + 0.3)
    return module.eval().requires_grad_(False)


def example(family: type[nn.Module], seed: int = 1) -> torch.Tensor:
    """A batch that the family takes."""
    return torch.randn(INPUTS[family], generator=torch.Generator().manual_seed(seed))


def exported(module: nn.Module, *args: Any, **options: Any) -> Any:
    """The ONNXProgram that the exporter makes; its warnings are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(module, args, dynamo=True, verbose=False, **options)


def plainly_exported(module: nn.Module, *args: Any, **options: Any) -> Any:
    """The same with nothing fused yet: only constants were computed, every BatchNormalization is still there."""
    import onnxscript.optimizer

    program = exported(module, *args, optimize=False, **options)
    onnxscript.optimizer.fold_constants(program.model)
    onnxscript.optimizer.remove_unused_nodes(program.model)
    return program


def scripted(module: nn.Module, *args: Any, **options: Any) -> bytes:
    """What the older exporter (``dynamo=False``) writes."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, args, buffer, dynamo=False, **options)
    return buffer.getvalue()


def count(model: Any, op_type: str = "BatchNormalization") -> int:
    """How many nodes of an operator a program's model, or a ModelProto, has in its main graph."""
    nodes = model.graph.node if isinstance(model, onnx.ModelProto) else model.graph
    return sum(node.op_type == op_type for node in nodes)
