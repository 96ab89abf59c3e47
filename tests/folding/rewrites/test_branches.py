"""Parallel convolutions that are added up become one, where that is exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from bnfold.report.reasons import Reason
from tests.folding.nets import Net, declined, fold_only, folded

PADDED: dict[str, Any] = {"pads": [1, 1, 1, 1]}


def conv(net: Net, x: str, outputs: int, inputs: int, *kernel: int, bias: bool = False, **attributes: Any) -> str:
    weights = [net.const(outputs, inputs, *kernel)] + ([net.const(outputs)] if bias else [])
    return net.node("Conv", x, *weights, **attributes)


def branch(net: Net, x: str, outputs: int, inputs: int, *kernel: int, **attributes: Any) -> str:
    return net.batchnorm(conv(net, x, outputs, inputs, *kernel, **attributes), outputs)


def block(net: Net, x: str, channels: int = 4, group: int = 1) -> str:
    """The training form of RepVGG."""
    inner = channels // group
    dense = branch(net, x, channels, inner, 3, 3, group=group, **PADDED)
    point = branch(net, x, channels, inner, 1, 1, group=group)
    return net.node("Add", net.node("Add", dense, point), net.batchnorm(x, channels))


@pytest.mark.parametrize("group", [1, 2, 4])
def test_repvgg(group: int) -> None:
    net = Net()
    y = net.node("Relu", block(net, net.node("Relu", block(net, net.input(2, 4, 6, 7), group=group)), group=group))
    result = folded(net, y)
    assert result.ops == ["Conv", "Relu", "Conv", "Relu"]
    assert [event.verdict for event in result.report.batchnorms] == ["folded"] * 6
    assert {event.direction for event in result.report.batchnorms} == {"merge"}
    assert [note.split(" into ")[0] for note in result.report.notes] == ["3 branches merged"] * 2


def test_mobileone() -> None:
    """Depthwise convolutions of one size, a 1×1 one, a mere BatchNormalization; then pointwise ones, with stride."""
    net = Net()
    x = net.input(2, 4, 8, 7)
    total = net.node("Add", net.batchnorm(x, 4), branch(net, x, 4, 1, 1, 1, group=4))
    for _ in range(3):
        total = net.node("Add", total, branch(net, x, 4, 1, 3, 3, group=4, **PADDED))
    x = net.node("Relu", total)
    total = branch(net, x, 6, 4, 1, 1)
    for _ in range(2):
        total = net.node("Add", total, branch(net, x, 6, 4, 1, 1))
    x = net.node("Relu", total)
    scale = branch(net, x, 6, 1, 1, 1, group=6, strides=[2, 2])
    y = net.node("Add", scale, branch(net, x, 6, 1, 3, 3, group=6, strides=[2, 2], **PADDED))
    assert folded(net, y).ops == ["Conv", "Relu", "Conv", "Relu", "Conv"]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_any_rank_sum_sub_and_constant_arithmetic(rank: int) -> None:
    net = Net()
    x = net.input(2, 3, *(5, 6, 7)[:rank])
    one, three = (1,) * rank, (3,) * rank
    wide = branch(net, x, 3, 3, *three, pads=[1] * 2 * rank, bias=True)
    shape = [3, *one]
    minus = net.node("Mul", net.const(*shape), net.node("Sub", net.batchnorm(x, 3), net.const(*shape)))
    y = net.node("Sub", net.node("Sum", wide, conv(net, x, 3, 3, *one), x, x), net.node("Neg", minus))
    assert folded(net, y).ops == ["Conv"]


@pytest.mark.parametrize(
    ("large", "small"),
    [
        ({"kernel": (3, 3), "pads": [1, 1, 1, 1]}, {"kernel": (1, 1)}),
        ({"kernel": (3, 3), "pads": [1, 1, 1, 1]}, {"kernel": (1, 3), "pads": [0, 1, 0, 1]}),
        ({"kernel": (3, 3), "pads": [1, 1, 1, 1]}, {"kernel": (2, 1), "pads": [1, 0, 0, 0]}),
        ({"kernel": (3, 3), "pads": [1, 1, 1, 1]}, {"kernel": (2, 1), "pads": [0, 0, 1, 0]}),
        ({"kernel": (5, 5), "pads": [2, 2, 2, 2]}, {"kernel": (3, 3), "pads": [1, 1, 1, 1]}),
        ({"kernel": (3, 3), "pads": [2, 2, 2, 2], "dilations": [2, 2]}, {"kernel": (1, 1), "dilations": [3, 5]}),
        (
            {"kernel": (3, 3), "pads": [2, 4] * 2, "dilations": [2, 4]},
            {"kernel": (1, 3), "pads": [0, 4] * 2, "dilations": [1, 4]},
        ),
        ({"kernel": (3, 3), "pads": [1, 1, 1, 1], "strides": [2, 3]}, {"kernel": (1, 1), "strides": [2, 3]}),
        ({"kernel": (3, 3), "auto_pad": "SAME_UPPER"}, {"kernel": (1, 1), "auto_pad": "SAME_LOWER"}),
        ({"kernel": (4, 3), "auto_pad": "SAME_UPPER"}, {"kernel": (2, 1), "auto_pad": "SAME_UPPER"}),
        ({"kernel": (4, 3), "auto_pad": "SAME_LOWER"}, {"kernel": (2, 1), "auto_pad": "SAME_UPPER"}),
        ({"kernel": (4, 3), "auto_pad": "SAME_LOWER"}, {"kernel": (1, 1), "auto_pad": "VALID"}),
        ({"kernel": (3, 3)}, {"kernel": (3, 3), "auto_pad": "VALID"}),
    ],
)  # fmt: skip
def test_windows_that_lie_inside(large: dict[str, Any], small: dict[str, Any]) -> None:
    net = Net()
    x = net.input(2, 3, 11, 13)
    parts = [branch(net, x, 4, 3, *about.pop("kernel"), **about) for about in (dict(small), dict(large))]
    assert folded(net, net.node("Add", *parts)).ops == ["Conv"]


@pytest.mark.parametrize(
    ("large", "small"),
    [
        ({"kernel": (3, 3), "pads": [4, 4, 0, 0]}, {"kernel": (1, 1), "pads": [1, 1, 1, 1]}),
        ({"kernel": (3, 3), "dilations": [2, 2], "pads": [2, 2, 2, 2]}, {"kernel": (3, 3), "pads": [1, 1, 1, 1]}),
        ({"kernel": (3, 3), "dilations": [2, 2], "pads": [2, 2, 2, 2]}, {"kernel": (1, 3), "pads": [0, 1, 0, 1]}),
        ({"kernel": (3, 1), "pads": [1, 0, 1, 0]}, {"kernel": (1, 3), "pads": [0, 1, 0, 1]}),
        ({"kernel": (2, 2), "auto_pad": "SAME_UPPER"}, {"kernel": (2, 2), "auto_pad": "SAME_LOWER"}),
        ({"kernel": (3, 1), "dilations": [3, 1], "pads": [3, 0, 3, 0]}, {"kernel": (3, 1), "pads": [1, 0, 1, 0]}),
        ({"kernel": (3, 3), "strides": [2, 2], "auto_pad": "SAME_UPPER"}, {"kernel": (1, 1), "strides": [2, 2]}),
    ],
)  # fmt: skip
def test_windows_that_do_not(large: dict[str, Any], small: dict[str, Any]) -> None:
    net = Net()
    x = net.input(2, 3, 12, 12)
    parts = [branch(net, x, 4, 3, *about.pop("kernel"), **about) for about in (dict(small), dict(large))]
    assert folded(net, net.node("Add", *parts)).ops == ["Conv", "Conv", "Add"]


def _group(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1), conv(net, x, 4, 2, 1, 1, group=2)]


def _channels_of_the_value(net: Net, x: str) -> list[str]:
    """The value has one channel, and is broadcast."""
    one = conv(net, x, 1, 4, 1, 1)
    return [conv(net, one, 4, 1, 1, 1), one]


def _broadcast_convolution(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1), conv(net, x, 1, 4, 1, 1)]


def _identity_with_stride(net: Net, x: str) -> list[str]:
    """Of one row and column, so that it is broadcast where it is not subsampled."""
    dot = net.node("GlobalAveragePool", x)
    return [conv(net, dot, 4, 4, 3, 3, strides=[2, 2], pads=[3, 3, 3, 3]), dot]


def _same_twice(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1)] * 2


def _other_value(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1), conv(net, net.node("Relu", x), 4, 4, 1, 1)]


def _other_summand(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1), net.node("Relu", x)]


def _constant_summand(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1), net.const(4, 1, 1)]


def _scaled_columns(net: Net, x: str) -> list[str]:
    return [conv(net, x, 4, 4, 1, 1), net.node("Mul", x, net.const(7))]


def _no_convolution(net: Net, x: str) -> list[str]:
    return [x, net.node("Mul", x, net.const(4, 1, 1))]


def _quantized(net: Net, x: str) -> list[str]:
    kernel = net.tensor(np.arange(16, dtype=np.int8).reshape(4, 4, 1, 1))
    weight = net.node("Cast", net.node("DequantizeLinear", kernel, net.tensor(np.array(0.1, np.float32))), to=11)
    return [conv(net, x, 4, 4, 1, 1), net.node("Conv", x, weight)]


@pytest.mark.parametrize(
    "draw",
    [
        _group, _channels_of_the_value, _broadcast_convolution, _identity_with_stride, _same_twice, _other_value,
        _other_summand, _constant_summand, _scaled_columns, _no_convolution, _quantized,
    ],
)  # fmt: skip
def test_what_is_no_sum_of_branches(draw: Any) -> None:
    net = Net()
    y = net.node("Add", *draw(net, net.input(2, 4, 6, 7)))
    assert declined(net, y, merge_branches=True) == []


def test_a_branch_read_by_others_stays() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    parts = [conv(net, x, 4, 4, 1, 1), conv(net, x, 4, 4, 1, 1)]
    assert declined(net, net.node("Add", *parts), parts[0], merge_branches=True) == []


def test_a_normalised_value_read_by_others_stays() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    middle = net.batchnorm(x, 4)
    assert declined(net, net.node("Add", conv(net, x, 4, 4, 1, 1), middle), middle) != []


def test_without_a_batchnorm_only_when_asked() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    y = net.node("Relu", net.node("Add", conv(net, x, 4, 4, 1, 1), conv(net, x, 4, 4, 3, 3, **PADDED)))
    assert declined(net, y) == []
    assert folded(net, y, merge_branches=True).ops == ["Conv", "Relu"]


def test_a_batchnorm_behind_the_sum_counts() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    y = net.batchnorm(net.node("Add", conv(net, x, 4, 4, 1, 1), x), 4)
    assert folded(net, y).ops == ["Conv"]


def test_what_stands_before_a_branch_is_folded_first() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    y = net.node("Relu", net.node("Add", conv(net, net.batchnorm(x, 4), 4, 4, 1, 1), conv(net, x, 4, 4, 1, 1)))
    assert folded(net, y).ops == ["Conv", "Conv", "Add", "Relu"]
    assert folded(net, y, merge_branches=True).ops == ["Conv", "Relu"]


def test_operators_that_are_left_alone() -> None:
    net = Net()
    y = block(net, net.input(2, 4, 6, 7))
    left = fold_only(net.model(y), excluded=frozenset({"Add"}))
    assert left.ops == ["Conv", "Conv", "Add", "BatchNormalization", "Add"]
    assert len(declined(net, y, excluded=frozenset({"Conv"}))) == 3


def test_overridable_weights_stay() -> None:
    net = Net()
    y = block(net, net.input(2, 4, 6, 7))
    proto = net.model(y)
    kernel = proto.graph.initializer[0]
    proto.graph.input.append(onnx.helper.make_tensor_value_info(kernel.name, kernel.data_type, kernel.dims))
    result = fold_only(proto)
    assert "BatchNormalization" in result.ops
    trace = result.report.batchnorms[-1].attempts[-1]
    assert (trace.direction, trace.reason.code if trace.reason else "") == ("merge", "dynamic-weight")


def test_why_not_is_told() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    y = net.node("Sum", *_group(net, x), net.batchnorm(x, 4))
    result = fold_only(net.model(y))
    assert result.ops == ["Conv", "Conv", "BatchNormalization", "Sum"]
    (trace,) = [trace for trace in result.report.batchnorms[0].attempts if trace.direction == "merge"]
    assert trace.reason is not None
    assert trace.reason.code == "unequal-branches"


def test_shared_weights_are_copied_within_the_budget() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    shared = net.const(4, 4, 3, 3)
    parts = [net.batchnorm(net.node("Conv", x, shared, **PADDED), 4), branch(net, x, 4, 4, 1, 1)]
    y = net.node("Relu", net.node("Add", *parts))
    z = net.node("Conv", net.node("Relu", x), shared)
    assert folded(net, y, z).ops == ["Conv", "Relu", "Relu", "Conv"]
    result = fold_only(net.model(y, z), growth=0)
    assert result.ops == ["Conv", "BatchNormalization", "Conv", "Add", "Relu", "Relu", "Conv"]
    (attempt, *_) = result.report.batchnorms[0].attempts
    assert attempt.reason is Reason.SHARED_WEIGHT


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2), (np.float32, 1e-6)])
def test_other_types(dtype: Any, tolerance: float) -> None:
    net = Net(opset=22, dtype=dtype, ir_version=10)
    assert folded(net, block(net, net.input(2, 4, 6, 7)), tolerance=tolerance).ops == ["Conv"]


def test_a_sum_that_overflows_in_float16_stays() -> None:
    net = Net(dtype=np.float16)
    x = net.input(1, 2, 3, 3)
    parts = [net.node("Conv", x, net.const(value=np.full((2, 2, 1, 1), 4e4))) for _ in range(2)]
    assert declined(net, net.node("Relu", net.node("Add", *parts)), merge_branches=True) == []


def test_in_the_body_of_an_if() -> None:
    """The value is captured; what stands in the body is merged there."""
    net = Net()
    x = net.input(2, 4, 6, 7)
    inner = Net()
    inner.count = 100
    y = block(inner, x)
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.DOUBLE, None)
    body = onnx.helper.make_graph(inner.nodes, "body", [], [onnx.ValueInfoProto(name=y, type=kind)], inner.weights)
    flag = net.tensor(np.array(True))
    other = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", [x], ["other"])], "other", [], [onnx.ValueInfoProto(name="other", type=kind)]
    )
    z = net.node("If", flag, then_branch=body, else_branch=other)
    proto = net.model(z)
    result = fold_only(proto)
    (node,) = result.proto.graph.node
    then = next(attribute.g for attribute in node.attribute if attribute.name == "then_branch")
    assert [inside.op_type for inside in then.node] == ["Conv"]


def test_a_captured_branch_stays() -> None:
    net = Net()
    x = net.input(2, 4, 6, 7)
    parts = [conv(net, x, 4, 4, 1, 1), conv(net, x, 4, 4, 1, 1)]
    y = net.node("Add", *parts)
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.DOUBLE, None)
    bodies = [
        onnx.helper.make_graph(
            [onnx.helper.make_node(op, [parts[0]], [op])], op, [], [onnx.ValueInfoProto(name=op, type=kind)]
        )
        for op in ("Relu", "Abs")
    ]
    z = net.node("If", net.tensor(np.array(True)), then_branch=bodies[0], else_branch=bodies[1])
    assert declined(net, y, z, merge_branches=True) == []
