"""Networks in training form: branches that are one convolution once they are folded."""

from __future__ import annotations

import onnx

from _models.net import Net


def repvgg_a0(size: int = 224) -> onnx.ModelProto:
    """Build RepVGG-A0: 22 blocks of a 3×3 and a 1×1 convolution and, if shapes allow, the input, all normalised."""
    net = Net("repvgg_a0", 17)
    x = net.input([1, 3, size, size])
    for channels, blocks in ((48, 1), (48, 2), (96, 4), (192, 14), (1280, 1)):
        for index in range(blocks):
            x = _repvgg_block(net, x, channels, 2 if index == 0 else 1)
    return _classified(net, x)


def _repvgg_block(net: Net, x: str, channels: int, stride: int) -> str:
    total = net.op("Add", *(net.bn(net.conv(x, channels, kernel, stride=stride)) for kernel in (3, 1)))
    if stride == 1 and net.channels[x] == channels:
        total = net.op("Add", total, net.bn(x))
    return net.relu(total)


def mobileone_s0(size: int = 224) -> onnx.ModelProto:
    """Build MobileOne-S0: 43 blocks of up to six branches, depthwise and pointwise in turn."""
    net = Net("mobileone_s0", 17)
    x = _mobileone_block(net, net.input([1, 3, size, size]), 48, 3, stride=2, convs=1)
    for channels, blocks in ((48, 2), (128, 8), (256, 10), (1024, 1)):
        for index in range(blocks):
            x = _mobileone_block(net, x, net.channels[x], 3, stride=2 if index == 0 else 1, depthwise=True)
            x = _mobileone_block(net, x, channels, 1)
    return _classified(net, x)


def _mobileone_block(
    net: Net, x: str, channels: int, kernel: int, *, stride: int = 1, convs: int = 4, depthwise: bool = False
) -> str:
    group = channels if depthwise else 1
    branches = [net.bn(net.conv(x, channels, 1, stride=stride, group=group))] if kernel > 1 else []
    branches += [net.bn(x)] if stride == 1 and net.channels[x] == channels else []
    branches += [net.bn(net.conv(x, channels, kernel, stride=stride, group=group)) for _ in range(convs)]
    total = branches[0]
    for branch in branches[1:]:
        total = net.op("Add", total, branch)
    return net.relu(total)


def _classified(net: Net, x: str) -> onnx.ModelProto:
    y = net.dense(net.op("Flatten", net.op("GlobalAveragePool", x)), 1000)
    net.output(y, [1, 1000])
    return net.model()


TRAINING_FORMS = {"RepVGG-A0": (repvgg_a0, 22), "MobileOne-S0": (mobileone_s0, 43)}
"""The network and its blocks."""
