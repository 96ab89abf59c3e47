"""Scan 8 → 9: version 8 scans every sequence of a batch, each up to a length of its own; version 9 has no batch.

Downwards, the shapes that a body makes are stated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import INT64_MAX, NodeConversion
from bnfold.converting.registry import up


@up("Scan", 9)
def unbatched(conversion: NodeConversion) -> None:
    """Make a Scan over the batch, and in its body the old one over a single sequence."""
    node = conversion.node
    lengths, operands, count = node.input(0), node.inputs[1:], node.attr("num_scan_inputs", 0)
    bodies = node.subgraphs.get("body")
    if not bodies or None in operands or len(operands) != len(bodies[0].inputs) or not 0 < count <= len(operands):
        raise Inexpressible("does not have the inputs that its body takes")
    states = len(operands) - count
    conversion.graph.model.sync()
    step = _Step(conversion, bodies[0])
    step.inner = onnx.helper.make_node(
        "Scan",
        step.inputs,
        step.outputs,
        conversion.node_name("one"),
        body=bodies[0].proto,
        num_scan_inputs=count,
    )
    if (directions := conversion.take("directions")) is not None:
        step.inner.attribute.append(onnx.helper.make_attribute("scan_input_directions", directions))
    if lengths is not None:
        operands = [*operands, conversion.reshape(lengths, [-1, 1], "lengths")]
        step.cut(states, [conversion.dtype(end) for end in bodies[0].outputs[states:]])
    node.set_attr("body", step.graph())
    node.set_attr("num_scan_inputs", len(operands))
    node.set_inputs(operands)
    ir.index_subgraphs(node)
    conversion.touched = True


_FOLLOWS_SIZES_SINCE = 13


def state_results(node: ir.Node, target: int, types: Types) -> None:
    """State the shapes of what a body makes: onnxruntime needs them, and follows no computed sizes before opset 13."""
    for body in node.bodies if target < _FOLLOWS_SIZES_SINCE else ():
        for info, end in zip(body.proto.output, body.outputs, strict=False):
            dtype, shape = types.dtype(end), types.shape(end)
            if dtype is not None and shape is not None and not info.type.tensor_type.HasField("shape"):
                dims = [size if isinstance(size, int) and size else None for size in shape]
                info.type.CopyFrom(onnx.helper.make_tensor_type_proto(dtype, dims))


class _Step:
    """What is done with one sequence: the nodes around the Scan over it."""

    def __init__(self, conversion: NodeConversion, body: ir.Graph) -> None:
        self._site = conversion
        self.inputs = [self._fresh(value.name) for value in body.inputs]
        self.outputs = [self._fresh(value.name) for value in body.outputs]
        self._parameters, self._results = list(self.inputs), list(self.outputs)
        self._before: list[onnx.NodeProto] = []
        self._after: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.inner = onnx.NodeProto()

    def cut(self, states: int, dtypes: list[int]) -> None:
        """Read the sequences up to a length, and fill what is scanned with zeros behind it."""
        if self._site.target < 10:
            raise Inexpressible("sequences of lengths of their own need a Slice of opset 10")
        length, first, one, last = self._fresh("length"), *(self._ints(value) for value in (0, 1, INT64_MAX))
        whole = self._add(self._before, "Shape", [self.inputs[-1]])
        whole = self._add(self._before, "Slice", [whole, first, one])
        rest = self._add(self._before, "Sub", [whole, length])
        self._parameters.append(length)
        for slot in range(states, len(self.inputs)):
            self.inner.input[slot] = self._add(self._before, "Slice", [self.inputs[slot], first, length, first])
        for slot, dtype in enumerate(dtypes, states):
            dims = self._add(self._after, "Slice", [self._add(self._after, "Shape", [self.outputs[slot]]), one, last])
            dims = self._add(self._after, "Concat", [rest, dims], axis=0)
            zero = onnx.numpy_helper.from_array(np.zeros(1, numeric_type(dtype)))
            zeros = self._add(self._after, "ConstantOfShape", [dims], value=zero)
            self._results[slot] = self._add(self._after, "Concat", [self.outputs[slot], zeros], axis=0)

    def graph(self) -> onnx.GraphProto:
        """Return the body of the Scan over the batch."""
        return onnx.GraphProto(
            name=self._fresh("sequence"),
            node=[*self._before, self.inner, *self._after],
            input=[onnx.ValueInfoProto(name=name) for name in self._parameters],
            output=[onnx.ValueInfoProto(name=name) for name in self._results],
            initializer=self._constants,
        )

    def _add(self, nodes: list[onnx.NodeProto], op_type: str, inputs: list[str], **attrs: Any) -> str:
        made = self._fresh(op_type)
        name = self._site.node_name(op_type.lower())
        nodes.append(onnx.helper.make_node(op_type, inputs, [made], name, **attrs))
        return made

    def _ints(self, value: int) -> str:
        self._constants.append(onnx.numpy_helper.from_array(np.array([value], np.int64), self._fresh(f"at_{value}")))
        return self._constants[-1].name

    def _fresh(self, hint: str) -> str:
        return self._site.graph.model.fresh_name(f"{self._site.node.label}_{hint}")
