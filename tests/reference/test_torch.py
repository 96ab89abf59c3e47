"""The referee against PyTorch in double precision, on random graphs of the layers of convolutional networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import ir, reference

torch = pytest.importorskip("torch")
functional = torch.nn.functional

GRAPHS = 500


@dataclass
class Twin:
    """A graph that grows as ONNX nodes and as PyTorch tensors at the same time."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    values: list[tuple[str, Any]] = field(default_factory=list)

    def weight(self, *shape: int, positive: bool = False) -> tuple[str, Any]:
        """A float32 initializer and its exact double."""
        array = (self.rng.standard_normal(shape) * 0.5).astype(np.float32)
        array = np.abs(array) + np.float32(0.25) if positive else array
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name, torch.from_numpy(array.astype(np.float64))

    def emit(self, op: str, inputs: list[str], result: Any, **attrs: Any) -> None:
        """A node whose first output is the PyTorch tensor ``result``."""
        name = f"v{len(self.values)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        self.values.append((name, result))

    def pick(self) -> tuple[str, Any]:
        """One of the latest values."""
        return self.values[int(self.rng.integers(max(0, len(self.values) - 3), len(self.values)))]

    def small(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))


def conv(twin: Twin) -> None:
    name, x = twin.pick()
    groups = next(g for g in (3, 2, 1) if x.shape[1] % g == 0)
    kernel, stride, dilation = (
        [twin.small(1, 4), twin.small(1, 4)],
        [twin.small(1, 3), twin.small(1, 3)],
        twin.small(1, 3),
    )
    pads = [twin.small(0, 3), twin.small(0, 3)]
    w, weight = twin.weight(groups * twin.small(1, 4), x.shape[1] // groups, *kernel)
    b, bias = twin.weight(weight.shape[0])
    if any(n + 2 * p < (k - 1) * dilation + 1 for n, p, k in zip(x.shape[2:], pads, kernel, strict=True)):
        return
    y = functional.conv2d(x, weight, bias, stride, pads, dilation, groups)
    twin.emit("Conv", [name, w, b], y, strides=stride, pads=pads * 2, dilations=[dilation] * 2, group=groups)


def conv_transpose(twin: Twin) -> None:
    name, x = twin.pick()
    groups = next(g for g in (3, 2, 1) if x.shape[1] % g == 0)
    stride = [twin.small(1, 3), twin.small(1, 3)]
    extra = [twin.small(0, s) for s in stride]
    w, weight = twin.weight(x.shape[1], twin.small(1, 4), 3, 2)
    b, bias = twin.weight(weight.shape[1] * groups)
    y = functional.conv_transpose2d(x, weight, bias, stride, (1, 0), extra, groups)
    twin.emit("ConvTranspose", [name, w, b], y, strides=stride, pads=[1, 0, 1, 0], output_padding=extra, group=groups)


def batch_norm(twin: Twin) -> None:
    name, x = twin.pick()
    channels, training = x.shape[1], x.shape[2] * x.shape[3] > 3 and twin.rng.random() < 0.3
    parameters = [twin.weight(channels, positive=i == 3) for i in range(4)]
    (_, scale), (_, bias), (_, mean), (_, var) = parameters
    epsilon = float(np.float32(1e-3))
    y = functional.batch_norm(x, mean.clone(), var.clone(), scale, bias, training, 0.1, epsilon)
    attrs: dict[str, Any] = {"training_mode": 1} if training else {}
    twin.emit("BatchNormalization", [name, *(weight for weight, _ in parameters)], y, epsilon=epsilon, **attrs)


def instance_norm(twin: Twin) -> None:
    name, x = twin.pick()
    if x.shape[2] * x.shape[3] < 2:
        return
    (w, scale), (b, bias) = twin.weight(x.shape[1]), twin.weight(x.shape[1])
    epsilon = float(np.float32(1e-2))
    y = functional.instance_norm(x, None, None, scale, bias, True, 0.1, epsilon)
    twin.emit("InstanceNormalization", [name, w, b], y, epsilon=epsilon)


def pool(twin: Twin) -> None:
    name, x = twin.pick()
    kernel = [min(twin.small(1, 4), n) for n in x.shape[2:]]
    pads, stride, ceil = [k // 2 for k in kernel], [twin.small(1, 4), twin.small(1, 4)], bool(twin.small(0, 2))
    attrs: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": pads * 2, "ceil_mode": int(ceil)}
    if twin.rng.random() < 0.5:
        twin.emit("MaxPool", [name], functional.max_pool2d(x, kernel, stride, pads, 1, ceil), **attrs)
        return
    counted = bool(twin.small(0, 2))
    y = functional.avg_pool2d(x, kernel, stride, pads, ceil, counted)
    twin.emit("AveragePool", [name], y, count_include_pad=int(counted), **attrs)


ACTIVATIONS: list[tuple[str, Callable[[Any], Any], dict[str, Any]]] = [
    ("Relu", functional.relu, {}),
    ("LeakyRelu", lambda x: functional.leaky_relu(x, float(np.float32(0.2))), {"alpha": 0.2}),
    ("Elu", functional.elu, {}),
    ("Sigmoid", torch.sigmoid, {}),
    ("Tanh", torch.tanh, {}),
    ("Softplus", functional.softplus, {}),
    # PyTorch divides by 6; the schema's function body multiplies by a sixth in float32.
    ("HardSwish", lambda x: x * torch.clamp(x * float(np.float32(1 / 6)) + 0.5, 0, 1), {}),
    ("Softmax", lambda x: torch.softmax(x, 1), {"axis": 1}),
    ("LogSoftmax", lambda x: torch.log_softmax(x, 3), {"axis": -1}),
    ("Erf", torch.erf, {}),
    ("GlobalAveragePool", lambda x: x.mean((2, 3), keepdim=True), {}),
    ("Transpose", lambda x: x.permute(0, 1, 3, 2), {"perm": [0, 1, 3, 2]}),
]


def activation(twin: Twin) -> None:
    name, x = twin.pick()
    op, function, attrs = ACTIVATIONS[twin.small(0, len(ACTIVATIONS))]
    twin.emit(op, [name], function(x), **attrs)


def join(twin: Twin) -> None:
    (one, x), (other, y) = twin.pick(), twin.pick()
    if x.shape == y.shape and twin.rng.random() < 0.3:
        twin.emit("Mul", [one, other], x * y)
    elif x.shape == y.shape:
        twin.emit("Add", [one, other], x + y)
    elif x.shape[2:] == y.shape[2:]:
        twin.emit("Concat", [one, other], torch.cat([x, y], 1), axis=1)


LAYERS = (conv, conv_transpose, batch_norm, instance_norm, pool, activation, join)


def grow(seed: int) -> tuple[onnx.ModelProto, np.ndarray, Any]:
    """A random model, its input, and what PyTorch makes of it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, int(rng.integers(2, 7)), int(rng.integers(5, 10)), int(rng.integers(5, 10))))
    twin = Twin(rng, values=[("x", torch.from_numpy(x))])
    while len(twin.nodes) < 8:
        LAYERS[twin.small(0, len(LAYERS))](twin)
    name, result = twin.values[-1]
    graph = helper.make_graph(
        twin.nodes,
        "random",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [onnx.ValueInfoProto(name=name)],
        [numpy_helper.from_array(array, weight) for weight, array in twin.weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), x, result


@pytest.mark.parametrize("block", range(10))
def test_random_graphs(block: int) -> None:
    for seed in range(block * GRAPHS // 10, (block + 1) * GRAPHS // 10):
        model, x, expected = grow(seed)
        (actual,) = reference.evaluate(ir.load(model), {"x": x}).values()
        wanted = expected.numpy()
        assert actual.shape == wanted.shape, f"graph {seed}"
        error = np.abs(actual - wanted).max() / max(np.abs(wanted).max(), 1)
        assert error < 1e-12, f"graph {seed}: {[node.op_type for node in model.graph.node]}"
