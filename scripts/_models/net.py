"""A network under construction: nodes first, weights at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from _models.weights import Draw, fill

Dims = Sequence[int | str]

# The IR version that onnx shipped with the opset: an exporter of that time wrote it.
_IR_VERSIONS = {9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}


class Net:
    """Collects nodes; parameters are named and shaped at once and get their values in `model`.

    A subgraph is a network with an `outer` one. Its own name is a prefix of its names, since shadowing is not allowed.
    With `capture` its parameters are the outer network's.
    """

    def __init__(
        self, name: str, opset: int, dtype: int = TensorProto.FLOAT, *, outer: Net | None = None, capture: bool = False
    ) -> None:
        self.name = name
        self.opset = opset
        self.dtype = dtype
        self.draw = Draw(name)
        self.nodes: list[onnx.NodeProto] = []
        self.given: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.channels: dict[str, int] = {}
        self._count = 0
        self._prefix = f"{name}_" if outer else ""
        self._owner = outer if outer and capture else self

    def input(self, dims: Dims, name: str = "x") -> str:
        """Add a graph input whose axis 1 is the channel."""
        self._inputs.append(helper.make_tensor_value_info(name, self.dtype, list(dims)))
        if len(dims) > 1 and isinstance(dims[1], int):
            self.channels[name] = dims[1]
        return name

    def output(self, value: str, dims: Dims) -> None:
        """Make `value` a graph output."""
        self._outputs.append(helper.make_tensor_value_info(value, self.dtype, list(dims)))

    def parameter(self, name: str, *shape: int) -> str:
        """Add a weight to be drawn."""
        self._owner.shapes[self._prefix + name] = shape
        return self._prefix + name

    def constant(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """Add a weight of a known value."""
        self.given[name] = numpy_helper.from_array(array, name)
        return name

    def op(self, op_type: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """Append a node; return its first output's name."""
        self._count += 1
        outputs = outputs or [f"{self._prefix}{op_type.lower()}{self._count}"]
        name = f"{self._prefix}node{self._count}"
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        self.channels[outputs[0]] = self.channels.get(inputs[0], 0) if inputs else 0
        return outputs[0]

    def relu(self, x: str) -> str:
        """Append a Relu."""
        legacy: dict[str, Any] = {"consumed_inputs": [0]} if self.opset < 6 else {}
        return self.op("Relu", x, **legacy)

    def conv(
        self, x: str, channels: int, kernel: int = 3, *, stride: int = 1, group: int = 1, bias: bool = False
    ) -> str:
        """Append a 2-D convolution that keeps the size (for stride 1 and odd kernels)."""
        weight = self.parameter(f"conv{self._count}_W", channels, self.channels[x] // group, kernel, kernel)
        inputs = [x, weight, *([self.parameter(f"conv{self._count}_B", channels)] if bias else [])]
        attributes: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        y = self.op("Conv", *inputs, group=group, **attributes)
        self.channels[y] = channels
        return y

    def conv_transpose(
        self, x: str, channels: int, kernel: int = 4, *, stride: int = 2, pad: int = 1, group: int = 1
    ) -> str:
        """Append a 2-D transposed convolution that doubles the size (for the default kernel and stride)."""
        weight = self.parameter(f"deconv{self._count}_W", self.channels[x], channels // group, kernel, kernel)
        attributes: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        y = self.op("ConvTranspose", x, weight, group=group, **attributes)
        self.channels[y] = channels
        return y

    def dense(self, x: str, channels: int) -> str:
        """Append a Gemm with bias."""
        weight = self.parameter(f"fc{self._count}_W", channels, self.channels[x])
        bias = self.parameter(f"fc{self._count}_B", channels)
        legacy: dict[str, Any] = {"broadcast": 1} if self.opset < 7 else {}
        y = self.op("Gemm", x, weight, bias, transB=1, **legacy)
        self.channels[y] = channels
        return y

    def bn(self, x: str, shape: tuple[int, ...] = (), outputs: Sequence[str] = (), **attributes: Any) -> str:
        """Append a BatchNormalization as an exporter of this opset wrote it; None drops an attribute."""
        names = [f"bn{self._count}_{part}" for part in ("scale", "B", "mean", "var")]
        weights = [self.parameter(name, *(shape or (self.channels[x],))) for name in names]
        defaults: dict[str, Any] = {"epsilon": 1e-5, "momentum": 0.9}
        if self.opset < 7:
            defaults["is_test"] = 1
        if self.opset < 6:
            defaults["consumed_inputs"] = [0, 0, 0, 1, 1]
        attributes = {key: value for key, value in (defaults | attributes).items() if value is not None}
        return self.op("BatchNormalization", x, *weights, outputs=outputs, **attributes)

    def initializers(self) -> list[onnx.TensorProto]:
        """Return every weight of this network as a tensor of its type."""
        dtype = helper.tensor_dtype_to_np_dtype(self.dtype)
        weights = fill(self.nodes, self.shapes, self.draw)
        return [*(numpy_helper.from_array(w.astype(dtype), name) for name, w in weights.items()), *self.given.values()]

    def graph(self) -> onnx.GraphProto:
        """Return the graph by itself, for an attribute."""
        return helper.make_graph(self.nodes, self.name, self._inputs, self._outputs, self.initializers())

    def freeze(self) -> None:
        """Turn every weight of this network into a Constant node."""
        constants = [
            helper.make_node("Constant", [], [tensor.name], name=f"constant_{tensor.name}", value=tensor)
            for tensor in self.initializers()
        ]
        self.nodes = [*constants, *self.nodes]
        self.shapes, self.given = {}, {}

    def model(self) -> onnx.ModelProto:
        """Return the model in the form of its opset's exporters (IR 3 lists its initializers as inputs)."""
        ir_version = _IR_VERSIONS.get(self.opset, 3)
        graph = self.graph()
        if ir_version < 4:
            infos = (helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in graph.initializer)
            graph.input.extend(infos)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, producer_name="make_models", ir_version=ir_version, opset_imports=opsets)
