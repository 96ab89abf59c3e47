"""Chains of legacy operators without a single annotation: what each adapter needs to know follows from the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

Converted = Callable[..., Any]
Shape = list[int]


class Chain:
    """A legacy model under construction: the shape so far, nodes, weights."""

    def __init__(self, draw: st.DrawFn, opset: int) -> None:
        self.draw, self.opset = draw, opset
        self.shape: Shape = [2, 3, draw(st.integers(3, 5)), draw(st.integers(3, 5))]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.first = self.shape[2:]
        self.value = "x"

    def add(self, op_type: str, *weights: Shape, **attrs: Any) -> None:
        names = [f"w{len(self.weights) + index}" for index in range(len(weights))]
        generator = np.random.default_rng(len(self.weights))
        arrays = [generator.uniform(0.5, 1.5, shape).astype(np.float32) for shape in weights]
        self.weights += [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)]
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [self.value, *names], [output], **attrs))
        self.value = output

    def pick(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def model(self) -> onnx.ModelProto:
        batch = self.draw(st.booleans())
        shape = ["n" if batch else 2, 3, *self.first]
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(self.value, onnx.TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def activation(chain: Chain) -> None:
    attrs: dict[str, Any] = {"consumed_inputs": [0]} if chain.opset < 6 else {}
    chain.add(chain.draw(st.sampled_from(["Relu", "Sigmoid", "Tanh"])), **attrs)


def arithmetic(chain: Chain) -> None:
    start = chain.pick(0, len(chain.shape) - 1)
    stop = chain.pick(start + 1, len(chain.shape))
    op_type = chain.draw(st.sampled_from(["Add", "Mul", "Sub"]))
    if start == 0 and chain.shape[0] == 2:
        start, stop = 1, max(stop, 2)  # the batch may be symbolic
    chain.add(op_type, chain.shape[start:stop], broadcast=1, axis=start)


def slope(chain: Chain) -> None:
    chain.add("PRelu", [chain.shape[1]])


def softmax(chain: Chain) -> None:
    chain.add("Softmax", axis=chain.pick(1, len(chain.shape) - 1))


def batchnorm(chain: Chain) -> None:
    spatial = chain.pick(0, 1)
    params = [chain.shape[1]] if spatial else chain.shape[1:]
    chain.add("BatchNormalization", *[params] * 4, is_test=1, spatial=spatial)


def transpose(chain: Chain) -> None:
    perm = [0, *chain.draw(st.permutations(range(1, len(chain.shape))))]
    chain.shape = [chain.shape[axis] for axis in perm]
    chain.add("Transpose", perm=perm)


def unsqueeze(chain: Chain) -> None:
    if len(chain.shape) < 6:
        chain.shape = [*chain.shape[:2], 1, *chain.shape[2:]]
        chain.add("Unsqueeze", axes=[2])


def squeeze(chain: Chain) -> None:
    axes = [axis for axis, size in enumerate(chain.shape) if axis > 1 and size == 1]
    if axes and len(chain.shape) - len(axes) >= 3:
        chain.shape = [size for axis, size in enumerate(chain.shape) if axis not in axes]
        chain.add("Squeeze", axes=axes)


def window(chain: Chain) -> None:
    axis = chain.pick(1, len(chain.shape) - 1)
    if chain.shape[axis] > 1:
        chain.shape = [size - (place == axis) for place, size in enumerate(chain.shape)]
        chain.add("Slice", starts=[1], ends=[1000], axes=[axis])


def reduction(chain: Chain) -> None:
    axis = chain.pick(1, len(chain.shape) - 1)
    if len(chain.shape) > 3:
        del chain.shape[axis]
        chain.add("ReduceMean", axes=[axis], keepdims=0)


def clip(chain: Chain) -> None:
    chain.add("Clip", min=-0.75, max=0.75)


def dropout(chain: Chain) -> None:
    chain.add("Dropout", is_test=1, ratio=0.25)


def scaler(chain: Chain) -> None:
    if len(chain.shape) == 4:
        chain.add("ImageScaler", scale=0.5, bias=[0.25] * chain.shape[1])


STEPS = [
    *(activation, arithmetic, slope, softmax, batchnorm, transpose, unsqueeze),
    *(squeeze, window, reduction, clip, dropout, scaler),
]


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    chain = Chain(draw, draw(st.sampled_from([1, 6])))
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9)):
        step(chain)
    if not chain.nodes:
        clip(chain)
    return chain.model()


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(model=chains(), target=st.sampled_from([9, 13, 15, 18, 28]))
def test_chains(upgraded: Converted, model: onnx.ModelProto, target: int) -> None:
    upgraded(model, target)
