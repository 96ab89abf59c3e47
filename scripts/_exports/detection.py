"""Detectors: a YOLO-like one, and SSD with the suppression of overlapping boxes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from _exports.network import BATCH, Built, Network, image


class Unit(nn.Module):
    """Convolution, normalisation, SiLU."""

    def __init__(self, before: int, after: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(after)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return functional.silu(self.norm(self.conv(data)))


class Halves(nn.Module):
    """Half of the channels goes through one more unit (C2f)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.inner = Unit(channels, channels, 1), Unit(channels // 2, channels // 2)
        self.after = Unit(channels * 3 // 2, channels, 1)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Run it."""
        first, second = self.before(data).chunk(2, 1)
        return self.after(torch.cat([first, second, second + self.inner(second)], 1))


class Pools(nn.Module):
    """Poolings in a row (SPPF)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.after = Unit(channels * 3, channels, 1)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Run it."""
        once = functional.max_pool2d(data, 5, 1, 2)
        return self.after(torch.cat([data, once, functional.max_pool2d(once, 5, 1, 2)], 1))


class Yolo(nn.Module):
    """Two levels, boxes as distributions of distances."""

    bins = 4
    classes = 3

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Unit(3, 8, stride=2), Unit(8, 16, stride=2), Halves(16))
        self.deep = nn.Sequential(Unit(16, 32, stride=2), Halves(32), Pools(32))
        self.merged = nn.Sequential(Unit(48, 16, 1), Halves(16))
        self.heads = nn.ModuleList(nn.Conv2d(size, 4 * self.bins + self.classes, 1) for size in (16, 32))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Return corners and scores for every cell."""
        stem = self.stem(data)
        deep = self.deep(stem)
        merged = self.merged(torch.cat([functional.interpolate(deep, scale_factor=2.0), stem], 1))
        return torch.cat([self._boxes(head(level), stride) for head, level, stride in zip(
            self.heads, (merged, deep), (4, 8), strict=True)], 2)  # fmt: skip

    def _boxes(self, level: torch.Tensor, stride: int) -> torch.Tensor:
        height, width = level.shape[-2:]
        distances, scores = level.flatten(2).split([4 * self.bins, self.classes], 1)
        weights = distances.view(level.shape[0], 4, self.bins, height * width).transpose(1, 2).softmax(1)
        sides = (weights * torch.arange(self.bins, dtype=torch.float32).view(1, -1, 1, 1)).sum(1)
        down, right = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        centres = torch.stack([right.reshape(-1), down.reshape(-1)])
        before, after = sides.chunk(2, 1)
        return torch.cat([(centres - before) * stride, (centres + after) * stride, scores.sigmoid()], 1)


def _yolo(*, dynamic: bool) -> Built:
    return Built(Yolo(), {"data": image()}, {"data": BATCH} if dynamic else {})


class Ssd(nn.Module):
    """SSD of one image; the sizes of what it finds are only known when it runs."""

    def __init__(self) -> None:
        from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
        from torchvision.models.detection.ssd import SSD

        super().__init__()
        backbone = nn.Sequential(Unit(3, 8, stride=4), Unit(8, 16, stride=4))
        backbone.out_channels = [16]
        boxes = DefaultBoxGenerator([[2]], min_ratio=20, max_ratio=90)
        self.inner = SSD(backbone, boxes, (64, 64), 4, score_thresh=0.1, topk_candidates=20, detections_per_img=10)

    def forward(self, data: torch.Tensor) -> Any:
        """Return boxes, scores and labels."""
        (found,) = self.inner([data])
        return found["boxes"], found["scores"], found["labels"]


class SsdHeads(nn.Module):
    """What SSD computes before boxes are chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Ssd().inner

    def forward(self, data: torch.Tensor) -> Any:
        """Return the regression and the scores."""
        found = self.inner.head([self.inner.backbone(data)])
        return found["bbox_regression"], found["cls_logits"].softmax(-1)


DETECTION = (
    Network("yolo", "YOLO", lambda: _yolo(dynamic=False)),
    Network("yolo_open_batch", "YOLO", lambda: _yolo(dynamic=True)),
    Network("ssd", "SSD", lambda: Built(Ssd(), {"data": torch.rand(3, 64, 64)})),
    Network("ssd_heads", "SSD", lambda: Built(SsdHeads(), {"data": image()}, {"data": BATCH})),
)
