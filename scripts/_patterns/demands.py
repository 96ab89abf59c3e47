"""Values with several consumers: a BatchNormalization requests a change, which other consumers undo if they can."""

from __future__ import annotations

import numpy as np
import onnx
from fuzz.builder import Builder, Drawn
from onnx import TensorProto, helper

from _patterns.parts import Pattern, conv, exchanged, given, matmul, node, norm, weight

SAME = {"kernel": 3, "pads": [1, 1, 1, 1]}


def _source(b: Builder) -> Drawn:
    return conv(b, given(b, 2, 3, 7, 6), kernel=1)


def _ends(b: Builder, *values: Drawn) -> list[Drawn]:
    """Append consumers that let no affine pass."""
    return [node(b, "Sin", value) for value in values]


def _other_conv(b: Builder, **attributes: object) -> list[Drawn]:
    y = _source(b)
    return _ends(b, norm(b, y), conv(b, y, 5, **attributes))  # type: ignore[arg-type]


def _post_norm(b: Builder) -> list[Drawn]:
    x = _tokens(b, _linear(b, given(b, 2, 5, 3), 6))
    for width in (7, 8):
        part = _linear(b, node(b, "Relu", _linear(b, x, width)), 6)
        x = _tokens(b, node(b, "Add", x, part))
    return _ends(b, _linear(b, x, 4))


def _norms(model: onnx.ModelProto) -> tuple[float, float]:
    """Count BatchNormalizations alone: a Gemm would also take the biases behind each MatMul."""
    return sum(made.op_type == "BatchNormalization" for made in model.graph.node), 0


def _linear(b: Builder, x: Drawn, width: int) -> Drawn:
    return node(b, "Add", matmul(b, x, width), weight(b, width))


def _tokens(b: Builder, x: Drawn) -> Drawn:
    turned = norm(b, node(b, "Transpose", x, perm=[0, 2, 1]))
    return node(b, "Transpose", turned, perm=[0, 2, 1])


def _stream(b: Builder, *, positive: bool) -> Drawn:
    x = _source(b)
    for _ in range(2):
        y = conv(b, node(b, "Relu", norm(b, x, positive=positive)), 5)
        x = node(b, "Add", x, conv(b, y, 4, kernel=2, pads=[1, 1, 1, 1]))
    return conv(b, node(b, "Relu", norm(b, x, positive=positive)), 3)


def _operand(b: Builder, op_type: str) -> list[Drawn]:
    x, z = given(b, 2, 4, 7, 6), _source(b)
    total = node(b, op_type, norm(b, x), z)
    return _ends(b, conv(b, total, 5))


def _twice(b: Builder, op_type: str) -> list[Drawn]:
    y = _source(b)
    return _ends(b, norm(b, y), conv(b, node(b, op_type, y, y), 5))


def _scaled(smallest: float, dtype: int = TensorProto.FLOAT) -> Pattern:
    stored = helper.tensor_dtype_to_np_dtype(dtype)

    def build(b: Builder) -> list[Drawn]:
        y = _source(b)
        arrays = [np.array([1.0, smallest, -2.0, 0.5]), np.zeros(4), np.zeros(4), np.ones(4)]
        operands = [b.weight(array.astype(stored)) for array in arrays]
        return _ends(b, node(b, "BatchNormalization", y, *operands), conv(b, y, 5))

    return Pattern(f"Conv → BN with a scale of {smallest:g} in {stored}, and → Conv", build, dtype=dtype)


def _two_scopes(model: onnx.ModelProto) -> None:
    """Build an If whose branches both read the value that a BatchNormalization reads, too."""
    graph = model.graph
    norm_node = next(made for made in graph.node if made.op_type == "BatchNormalization")
    inner = [helper.make_node(op_type, [norm_node.input[0]], [f"in_{op_type}"]) for op_type in ("Sin", "Cos")]
    branches = [
        helper.make_graph(
            [made], made.op_type, [], [helper.make_tensor_value_info(made.output[0], TensorProto.FLOAT, None)]
        )
        for made in inner
    ]
    graph.initializer.append(helper.make_tensor("choice", TensorProto.BOOL, [], [True]))
    graph.node.append(helper.make_node("If", ["choice"], ["chosen"], then_branch=branches[0], else_branch=branches[1]))
    graph.output.append(helper.make_tensor_value_info("chosen", TensorProto.FLOAT, [None] * 4))


def _as_output(b: Builder) -> list[Drawn]:
    y = _source(b)
    return [y, *_ends(b, norm(b, y), conv(b, y, 5))]


EXACT = [
    Pattern("Conv → BN, and → Conv", _other_conv),
    exchanged("Conv → BN, and → Conv that pads with zeros", lambda b: _other_conv(b, **SAME)),
    Pattern("Conv → BN, and → Conv with group", lambda b: _other_conv(b, group=1, bias=False)),
    Pattern("BN behind each part of a Transformer", _post_norm, measure=_norms),
    Pattern("pre-activation, two blocks, positive scales", lambda b: _stream(b, positive=True)),
    Pattern("pre-activation, two blocks, scales of the same signs", lambda b: _stream(b, positive=False)),
    *(Pattern(f"BN → {op} with a Conv → Conv", lambda b, op=op: _operand(b, op)) for op in ("Add", "Sub", "Sum")),  # type: ignore[misc]
    Pattern("Conv → BN, and twice into an Add → Conv", lambda b: _twice(b, "Add")),
]
TRAPS = [
    _scaled(0.0),
    _scaled(1e-12),
    _scaled(1e-3, TensorProto.FLOAT16),
    Pattern("Conv → BN, and twice into a Mul → Conv", lambda b: _twice(b, "Mul")),
    Pattern("Conv → BN, and → Conv, and into both branches of an If", _other_conv, change=_two_scopes),
    Pattern("Conv → BN, and → Conv, and an output itself", _as_output),
]
