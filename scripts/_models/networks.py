"""Small networks with the architectures that BatchNormalization lives in."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from _models.net import Net


def resnet_opset6() -> onnx.ModelProto:
    """A residual network (9 convolutions, 9 BatchNormalizations) at opset 6, IR 3: the model of `scripts/demo`."""
    net = Net("resnet_opset6", 6)
    y = _residual_body(net, net.input([1, 3, 32, 40], "data"), [(12, 1), (24, 2), (40, 2)])
    y = net.op("GlobalAveragePool", y)
    y = net.dense(net.op("Flatten", y), 10)
    net.output(net.op("Softmax", y, outputs=["prob"]), [1, 10])
    return net.model()


def _residual_body(net: Net, x: str, stages: list[tuple[int, int]]) -> str:
    """A stem and one residual block a stage; a strided stage has a projection on its shortcut."""
    y = net.relu(net.bn(net.conv(x, stages[0][0], 5, stride=2)))
    for channels, stride in stages:
        shortcut = y if stride == 1 else net.bn(net.conv(y, channels, 1, stride=stride))
        branch = net.relu(net.bn(net.conv(y, channels, stride=stride)))
        branch = net.bn(net.conv(branch, channels))
        y = net.relu(net.op("Add", branch, shortcut))
    return y


def depthwise() -> onnx.ModelProto:
    """Inverted residuals in the manner of MobileNetV2 at opset 11: depthwise convolutions, Clip bounds as inputs."""
    net = Net("depthwise", 11)
    bounds = [net.constant("zero", np.array(0, np.float32)), net.constant("six", np.array(6, np.float32))]
    y = net.input(["N", 3, 30, 26])
    y = net.op("Clip", net.bn(net.conv(y, 8, stride=2)), *bounds)
    for channels, stride, residual in [(12, 1, False), (12, 1, True), (20, 2, False)]:
        wide = net.op("Clip", net.bn(net.conv(y, 24, 1)), *bounds)
        wide = net.op("Clip", net.bn(net.conv(wide, 24, stride=stride, group=24)), *bounds)
        narrow = net.bn(net.conv(wide, channels, 1))
        y = net.op("Add", narrow, y) if residual else narrow
    net.output(y, ["N", 20, 8, 7])
    return net.model()


def generator() -> onnx.ModelProto:
    """A generator in the manner of DCGAN at opset 9: transposed convolutions, two of them grouped."""
    net = Net("generator", 9)
    y = net.input(["N", 18, 1, 1], "latent")
    y = net.relu(net.bn(net.conv_transpose(y, 24, stride=1, pad=0)))
    y = net.relu(net.bn(net.conv_transpose(y, 12, group=3)))
    y = net.relu(net.bn(net.conv_transpose(y, 8, group=4)))
    y = net.op("Tanh", net.bn(net.conv_transpose(y, 3)))
    net.output(y, ["N", 3, 32, 32])
    return net.model()


def dense() -> onnx.ModelProto:
    """Pre-activation and Concat in the manner of DenseNet at opset 12: BatchNormalization before its convolution."""
    net = Net("dense", 12)
    y = net.conv(net.input(["N", 3, 22, 18]), 10)
    channels = 10
    for growth in (6, 8, 7):
        new = net.conv(net.relu(net.bn(y)), 16, 1)
        new = net.conv(net.relu(net.bn(new)), growth)
        channels += growth
        y = net.op("Concat", y, new, axis=1)
        net.channels[y] = channels
    y = net.conv(net.relu(net.bn(y)), 12, 1)
    y = net.op("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("GlobalAveragePool", net.relu(net.bn(y)))
    net.output(net.dense(net.op("Flatten", y), 7), ["N", 7])
    return net.model()


def mlp() -> onnx.ModelProto:
    """Fully connected layers at opset 8: Gemm → BatchNormalization, and MatMul → Add → BatchNormalization → Gemm."""
    net = Net("mlp", 8)
    y = net.relu(net.bn(net.dense(net.input(["N", 11]), 17)))
    y = net.op("MatMul", y, net.parameter("matmul_W", 17, 13))
    y = net.op("Add", y, net.parameter("add_B", 13))
    net.channels[y] = 13
    net.output(net.dense(net.bn(y), 5), ["N", 5])
    return net.model()


def constant_nodes() -> onnx.ModelProto:
    """Every weight in a Constant node, as PaddlePaddle exports them; opset 10, no initializers."""
    net = Net("constant_nodes", 10)
    y = net.relu(net.bn(net.conv(net.input(["N", 3, 12, 15]), 8)))
    net.output(net.relu(net.bn(net.conv(y, 6, bias=True))), ["N", 6, 12, 15])
    net.freeze()
    return net.model()


def float16() -> onnx.ModelProto:
    """A residual block in float16 at opset 13, parameters included."""
    net = Net("float16", 13, TensorProto.FLOAT16)
    y = _residual_body(net, net.input(["N", 3, 20, 28]), [(8, 1), (12, 2)])
    net.output(y, ["N", 12, 5, 7])
    return net.model()


def external() -> onnx.ModelProto:
    """Weights beside the model, in `external.onnx.data`; opset 17."""
    net = Net("external", 17)
    y = _residual_body(net, net.input(["N", 3, 20, 28]), [(16, 1), (24, 2)])
    net.output(y, ["N", 24, 5, 7])
    return net.model()


MODELS = [resnet_opset6, depthwise, generator, dense, mlp, constant_nodes, float16, external]
