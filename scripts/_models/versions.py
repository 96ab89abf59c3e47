"""One small network for every form that BatchNormalization and InstanceNormalization ever had."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from _models.net import Net

_HEIGHT, _WIDTH = 7, 9


def _conv_bn(name: str, opset: int, dtype: int = TensorProto.FLOAT, **attributes: Any) -> onnx.ModelProto:
    """Append Conv → BatchNormalization → Relu, pairwise different dims."""
    net = Net(name, opset, dtype)
    x = net.input(["N", 3, _HEIGHT, _WIDTH])
    y = net.relu(net.bn(net.conv(x, 5, bias=opset % 2 == 1), **attributes))
    net.output(y, ["N", 5, _HEIGHT, _WIDTH])
    return net.model()


def bn1() -> onnx.ModelProto:
    """BatchNormalization-1 as Caffe2 and CNTK wrote it: `is_test=1`, `consumed_inputs`, behind a Conv-1."""
    return _conv_bn("bn1", 1)


def bn1_bare() -> onnx.ModelProto:
    """BatchNormalization-1 without `is_test` and without the `consumed_inputs` that its schema requires."""
    return _conv_bn("bn1_bare", 1, is_test=None, consumed_inputs=None)


def bn6() -> onnx.ModelProto:
    """BatchNormalization-6 with every attribute written out (`is_test=1`, `spatial=1`)."""
    return _conv_bn("bn6", 6, spatial=1)


def bn6_no_is_test() -> onnx.ModelProto:
    """BatchNormalization-6 without `is_test`: its default says training, its single output says inference."""
    return _conv_bn("bn6_no_is_test", 6, is_test=None)


def bn6_per_activation() -> onnx.ModelProto:
    """BatchNormalization-6 with `spatial=0`: parameters of shape (C, H, W), one affine an element."""
    return _conv_bn("bn6_per_activation", 6, spatial=0, shape=(5, _HEIGHT, _WIDTH))


def bn7() -> onnx.ModelProto:
    """BatchNormalization-7, the first without `is_test`."""
    return _conv_bn("bn7", 7)


def bn7_per_activation() -> onnx.ModelProto:
    """BatchNormalization-7 with `spatial=0` on a graph input of rank 3: parameters of shape (C, D), no neighbour."""
    net = Net("bn7_per_activation", 7)
    x = net.input(["N", 4, 6])
    y = net.relu(net.bn(x, shape=(4, 6), spatial=0))
    net.output(y, ["N", 4, 6])
    return net.model()


def bn7_mxnet() -> onnx.ModelProto:
    """BatchNormalization-7 with `spatial=0` but parameters of shape (C): the ArcFace exporter's slip."""
    return _conv_bn("bn7_mxnet", 7, spatial=0)


def bn9() -> onnx.ModelProto:
    """BatchNormalization-9 in inference form."""
    return _conv_bn("bn9", 9)


def bn9_training() -> onnx.ModelProto:
    """BatchNormalization-9 in training form: five outputs, the running statistics among the graph's outputs."""
    return _training("bn9_training", 9, ["y", "mean", "var", "saved_mean", "saved_var"])


def bn14() -> onnx.ModelProto:
    """BatchNormalization-14 in inference form (`training_mode` absent)."""
    return _conv_bn("bn14", 14)


def bn15() -> onnx.ModelProto:
    """BatchNormalization-15 with `training_mode=0` written out."""
    return _conv_bn("bn15", 15, training_mode=0)


def bn15_training() -> onnx.ModelProto:
    """BatchNormalization-15 in training form: `training_mode=1`, three outputs."""
    return _training("bn15_training", 15, ["y", "mean", "var"], training_mode=1)


def bn15_mixed() -> onnx.ModelProto:
    """BatchNormalization-15 with float16 data and float32 parameters, as mixed-precision training leaves it."""
    model = _conv_bn("bn15_mixed", 15, TensorProto.FLOAT16)
    for tensor in model.graph.initializer:
        if tensor.name.startswith("bn"):
            wide = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
    return model


def in1() -> onnx.ModelProto:
    """InstanceNormalization-1 with `consumed_inputs`, behind a Conv-1, as style-transfer networks used it."""
    net = Net("in1", 1)
    x = net.input(["N", 3, _HEIGHT, _WIDTH])
    y = net.conv(x, 5)
    scale, shift = net.parameter("in_scale", 5), net.parameter("in_B", 5)
    y = net.relu(net.op("InstanceNormalization", y, scale, shift, epsilon=1e-5, consumed_inputs=[0, 0, 0]))
    net.output(y, ["N", 5, _HEIGHT, _WIDTH])
    return net.model()


def _training(name: str, opset: int, outputs: list[str], **attributes: Any) -> onnx.ModelProto:
    net = Net(name, opset)
    x = net.input(["N", 3, _HEIGHT, _WIDTH])
    net.bn(net.conv(x, 5), outputs=outputs, **attributes)
    net.output("y", ["N", 5, _HEIGHT, _WIDTH])
    for statistic in outputs[1:3]:
        net.output(statistic, [5])
    return net.model()


MODELS = [
    bn1, bn1_bare, bn6, bn6_no_is_test, bn6_per_activation, bn7, bn7_per_activation, bn7_mxnet, bn9, bn9_training, bn14,
    bn15, bn15_training, bn15_mixed, in1,
]  # fmt: skip
