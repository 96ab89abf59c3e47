"""QLinearConv and QLinearMatMul below opset 10: bit for bit what onnxruntime computes, ties included."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Array = np.ndarray[Any, Any]


def drawn(kind: str, *shape: int, seed: int = 1) -> Array:
    info, generator = np.iinfo(kind), np.random.default_rng(seed)
    array: Array = generator.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    array.reshape(-1)[:2] = info.min, info.max
    return array


def proto(inputs: str, body: str, output: str, opset: int = 13, **stored: Array) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({output} y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()
    )
    return model


def convolution(kinds: tuple[str, str], attributes: str, weight: tuple[int, ...], **changed: Any) -> onnx.ModelProto:
    """Return a QLinearConv; ``kinds`` are the types of data and weight, the result has that of its zero point."""
    stored: dict[str, Any] = {
        "xs": np.float32(0.02),
        "xz": np.array(3, kinds[0]),
        "w": drawn(kinds[1], *weight),
        "ws": np.float32(0.05),
        "wz": np.array(0, kinds[1]),
        "ys": np.float32(4.7),
        "yz": np.array(9, kinds[0]),
    } | changed
    slots = "x, xs, xz, w, ws, wz, ys, yz" + (", b" if "b" in stored else "")
    dims = ", ".join("nchwd"[: len(weight)])
    stated = f"<{attributes}> " if attributes else ""
    body = f"y = QLinearConv {stated}({slots})"
    return proto(f"{kinds[0]}[{dims}] x", body, f"{np.asarray(stored['yz']).dtype}[{dims.upper()}]", **stored)


CONVOLUTIONS: dict[str, tuple[tuple[str, str], str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "bytes": (("uint8", "uint8"), "pads = [1, 1, 1, 1]", (4, 3, 3, 3), (1, 3, 6, 6), {}),
    "signed": (("int8", "int8"), "strides = [2, 1]", (4, 3, 3, 3), (2, 3, 6, 6), {"xz": np.array(-128, np.int8)}),
    "mixed": (("uint8", "int8"), "pads = [1, 2, 0, 1]", (4, 3, 2, 3), (1, 3, 6, 6), {"xz": np.array(255, np.uint8)}),
    "vector of one": (("uint8", "int8"), "", (4, 3, 1, 1), (1, 3, 4, 4), {"xz": np.array([7], np.uint8)}),
    "scale of each channel": (
        *(("uint8", "int8"), 'auto_pad = "SAME_UPPER"', (4, 3, 3, 3), (1, 3, 5, 5)),
        {"ws": np.array([0.01, 0.07, 0.3, 1], np.float32), "wz": np.zeros(4, np.int8)},
    ),
    "groups": (("uint8", "uint8"), "group = 2", (4, 2, 3, 3), (1, 4, 5, 5), {"wz": np.array(128, np.uint8)}),
    "depthwise, dilated": (("uint8", "int8"), "group = 3, dilations = [2, 2]", (3, 1, 2, 2), (1, 3, 6, 6), {}),
    "bias": (
        *(("uint8", "int8"), "pads = [1, 1, 1, 1]", (4, 3, 3, 3), (1, 3, 6, 6)),
        {"b": np.array([-100000, 0, 7, 123456], np.int32)},
    ),
    "ties": (
        *(("uint8", "int8"), "", (4, 3, 1, 1), (1, 3, 9, 9)),
        {"xs": np.float32(0.5), "ws": np.float32(0.5), "ys": np.float32(16), "yz": np.array(100, np.uint8)},
    ),
    "saturating": (("uint8", "int8"), "", (4, 3, 3, 3), (1, 3, 6, 6), {"ys": np.float32(0.01)}),
    "one axis": (("uint8", "uint8"), "strides = [2]", (4, 3, 3), (2, 3, 9), {}),
    "empty batch": (("uint8", "uint8"), "", (4, 3, 3, 3), (0, 3, 6, 6), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(lowered: Lowered, name: str) -> None:
    kinds, attributes, weight, data, changed = CONVOLUTIONS[name]
    source = convolution(kinds, attributes, weight, **changed)
    for seed in (1, 2, 3) if 0 not in data else (1,):
        feeds = {"x": drawn(kinds[0], *data, seed=seed) if 0 not in data else np.zeros(data, kinds[0])}
        assert lowered(source, 9, feeds=feeds).ops.count("Conv") == 1


@pytest.mark.parametrize("name", ["bytes", "ties", "bias", "scale of each channel"])
def test_the_reference_rounds_both_alike(name: str) -> None:
    """No tie is taken to another side by the precision in which the composition is evaluated."""
    kinds, attributes, weight, data, changed = CONVOLUTIONS[name]
    before = ir.load(convolution(kinds, attributes, weight, **changed))
    after = ir.load(convolution(kinds, attributes, weight, **changed))
    convert(after, 9)
    for seed in range(5):
        feeds = {"x": drawn(kinds[0], *data, seed=seed)}
        expected, actual = (reference.evaluate(model, feeds)["y"] for model in (before, after))
        np.testing.assert_array_equal(actual, expected)


PRODUCTS: dict[str, tuple[tuple[str, str], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "bytes": (("uint8", "uint8"), (3, 8), (8, 5), {}),
    "signed": (("int8", "int8"), (3, 8), (8, 5), {"az": np.array(-7, np.int8)}),
    "mixed": (("uint8", "int8"), (3, 8), (8, 5), {"az": np.array([200], np.uint8)}),
    "scale of each column": (
        *(("uint8", "int8"), (3, 8), (8, 5)),
        {"bs": np.array([0.01, 0.02, 0.5, 1, 0.3], np.float32), "bz": np.zeros(5, np.int8)},
    ),
    "ties": (
        *(("uint8", "uint8"), (3, 8), (8, 5)),
        {"as": np.float32(0.5), "bs": np.float32(0.25), "ys": np.float32(512), "bz": np.array(128, np.uint8)},
    ),
    "batches": (("uint8", "uint8"), (2, 3, 8), (8, 5), {}),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("opset", [13, 21])
def test_product(lowered: Lowered, name: str, opset: int) -> None:
    kinds, first, second, changed = PRODUCTS[name]
    stored: dict[str, Any] = {
        "as": np.float32(0.02),
        "az": np.array(3, kinds[0]),
        "b": drawn(kinds[1], *second),
        "bs": np.float32(0.05),
        "bz": np.array(0, kinds[1]),
        "ys": np.float32(4.7),
        "yz": np.array(9, kinds[0]),
    } | changed
    inputs, output = (f"{kinds[0]}[{', '.join(names[: len(first)])}]" for names in ("mkl", "MNO"))
    body = "y = QLinearMatMul (a, as, az, b, bs, bz, ys, yz)"
    source = proto(f"{inputs} a", body, output, opset, **stored)
    for seed in (1, 2, 3):
        assert lowered(source, 9, feeds={"a": drawn(kinds[0], *first, seed=seed)}).ops.count("MatMul") == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"w": drawn("uint8", 1, 300, 1, 1)}, r"sums of up to \d+, more than float32 holds exactly \(2\^24\)"),
        ({"b": np.array([1 << 24] * 4, np.int32)}, r"sums of up to \d+, more than float32 holds exactly \(2\^24\)"),
        ({"ys": np.array([1, 2, 3, 4], np.float32)}, "has a result of several scales or zero points"),
        ({"ys": np.float32(0)}, "has scales whose product or quotient is no number of float32"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], reason: str) -> None:
    shape = changed["w"].shape if "w" in changed else (4, 3, 3, 3)
    if "w" in changed:
        changed["w"][:] = 255
    with pytest.raises(ConversionBlocked, match=reason):
        convert(ir.load(convolution(("uint8", "uint8"), "", shape, **changed)), 9)


@pytest.mark.parametrize(
    ("computed", "reason"),
    [
        ("xs", "has scales, or a zero point of the result, that are computed"),
        ("yz", "has scales, or a zero point of the result, that are computed"),
        ("b", "has a bias 'b' that is computed"),
    ],
)
def test_what_is_computed_is_refused(computed: str, reason: str) -> None:
    source = convolution(("uint8", "int8"), "", (4, 3, 3, 3), b=np.zeros(4, np.int32))
    (tensor,) = [tensor for tensor in source.graph.initializer if tensor.name == computed]
    source.graph.initializer.remove(tensor)
    source.graph.input.append(onnx.helper.make_tensor_value_info(computed, tensor.data_type, list(tensor.dims)))
    with pytest.raises(ConversionBlocked, match=reason):
        convert(ir.load(source), 9)


def test_eight_bit_floats_are_refused() -> None:
    scale, zero = np.array(1, np.float32), onnx.helper.make_tensor("z", onnx.TensorProto.FLOAT8E4M3FN, [], [0.0])
    body = "y = QLinearMatMul (a, s, z, b, s, z, s, z)"
    source = proto("float8e4m3fn[2, 3] a, float8e4m3fn[3, 2] b", body, "float8e4m3fn[2, 2]", 21, s=scale)
    source.graph.initializer.append(zero)
    with pytest.raises(ConversionBlocked, match=r"works on tensor\(float8e4m3fn\)"):
        convert(ir.load(source), 9)


def test_before_opset_9_it_is_refused() -> None:
    with pytest.raises(ConversionBlocked, match="needs Round: needs Where: does not exist"):
        convert(ir.load(convolution(("uint8", "uint8"), "", (4, 3, 3, 3))), 8)
