"""Mode ``upgrade``: chains of operators in the versions of old opsets, upgraded and compared.

Shapes come from running each node: old versions have no shape inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.elements import FLOATS
from fuzz.builder import Array, Builder, Drawn
from fuzz.feeding import overriding
from fuzz.legacy_operators import LARGEST, TABLE
from fuzz.operators import Draw

OPSETS = (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
TARGETS = (None, None, 13, 15, 18, 21, 25)


class NotLegal(Exception):
    """The node does not run with these sizes."""


class Legacy(Builder):
    """A builder that takes shapes from the reference evaluator."""

    def _infer(self, node: onnx.NodeProto) -> list[tuple[int, tuple[int, ...]]]:
        known = {value.name: value for value in [*self.inputs, *self.values, *self.derived]}
        infos = [
            helper.make_tensor_value_info(name, known[name].dtype, known[name].shape)
            for name in dict.fromkeys(node.input)
            if name in known
        ]
        ends = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        constants = [other for other in self.nodes if known.keys().isdisjoint(other.output)]
        graph = helper.make_graph([*constants, node], "g", infos, ends, self.weights)
        model = ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8))
        feeds = {info.name: _numbers(known[info.name]) for info in infos}
        try:
            found = reference.evaluate(model, feeds)
        except BnfoldError as error:
            raise NotLegal(str(error)) from error
        read = [known[name].dtype for name in node.input if name in known]
        floats = next((dtype for dtype in read if dtype in FLOATS), self.dtype)
        return [_described(found[name], floats) for name in node.output if name]


def _numbers(value: Drawn) -> Array:
    kind = helper.tensor_dtype_to_np_dtype(value.dtype)
    return np.ones(value.shape, kind)


def _described(array: Array, floats: int) -> tuple[int, tuple[int, ...]]:
    dtype = floats if array.dtype == np.float64 else helper.np_dtype_to_tensor_dtype(array.dtype)
    return dtype, array.shape


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw a model, its inputs, and the upgrade's target."""
    rng = np.random.default_rng(seed)
    b = Legacy(rng, opset=int(rng.choice(OPSETS)), dtype=TensorProto.FLOAT)
    sizes = rng.choice((2, 3, 4, 5, 6, 7), 5, replace=bool(rng.random() < 0.2))
    shape = tuple(int(size) for size in sizes[: int(rng.choice([1, 2, 3, 4, 4, 4, 5]))])
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, shape))
    b.values.append(b.inputs[0])
    for _ in range(int(rng.integers(1, 7))):
        grow(b, TABLE)
    model = finished(b)
    if len(model.graph.input) == len(b.inputs) and b.opset < 9 and rng.random() < 0.5:
        model.ir_version = 3  # at these IR versions every initializer was an input too
        for tensor in model.graph.initializer:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    target = TARGETS[int(rng.integers(len(TARGETS)))]
    feeds = {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in b.inputs} | b.fed
    feeds |= overriding(model, rng)
    return model, feeds, {"target_opset": target if target is None or target >= b.opset else None}


def finished(b: Legacy) -> onnx.ModelProto:
    """Return the model, with all unread values among its outputs."""
    if not b.nodes:
        b.node("Relu", [b.inputs[0].name])
    read = {name for node in b.nodes for name in node.input}
    ends = [value for value in b.values[1:] if value.name not in read]
    return b.model(ends or b.values[-1:])


def grow(b: Legacy, entries: Sequence[Draw]) -> None:
    """Try to append one more node to a value."""
    at = int(b.rng.integers(len(b.values))) if b.chance(0.25) else -1
    value = b.values[at]
    if value.dtype != b.dtype or np.prod(value.shape) > LARGEST or 0 in value.shape or not value.rank:
        value = b.inputs[0]
    kept = b.size
    try:
        b.pick(entries)(b, value)
    except (NotLegal, onnx.defs.SchemaError, ValueError):
        b.cut(kept)
