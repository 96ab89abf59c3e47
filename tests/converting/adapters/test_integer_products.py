"""ConvInteger and MatMulInteger in float32: bit for bit, as long as no sum exceeds 24 bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]


def proto(inputs: str, body: str, rank: int, **stored: np.ndarray[Any, Any]) -> onnx.ModelProto:
    dims = ", ".join("abcd"[:rank])
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g ({inputs}) => (int32[{dims}] y) {{ {body} }}'
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in stored.items())
    return model


def drawn(kind: str, *shape: int) -> np.ndarray[Any, Any]:
    info, generator = np.iinfo(kind), np.random.default_rng(1)
    array: np.ndarray[Any, Any] = generator.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    array.reshape(-1)[:2] = info.min, info.max
    return array


@pytest.mark.parametrize("target", [9, 7])
@pytest.mark.parametrize(
    ("zeros", "body"),
    [
        ({}, "y = ConvInteger <pads = [1, 1, 1, 1], strides = [2, 1]> (x, w)"),
        ({"xz": np.array(7, np.uint8)}, "y = ConvInteger <pads = [1, 1, 1, 1]> (x, w, xz)"),
        ({"xz": np.array([255], np.uint8), "wz": np.array(9, np.uint8)}, "y = ConvInteger (x, w, xz, wz)"),
    ],
)
def test_convolution(lowered: Lowered, zeros: dict[str, Any], body: str, target: int) -> None:
    """What is padded is the zero point."""
    source = proto("uint8[1, 3, 6, 6] x", body, 4, w=drawn("uint8", 4, 3, 3, 3), **zeros)
    outcome = lowered(source, target, feeds={"x": drawn("uint8", 1, 3, 6, 6)})
    assert outcome.ops[-2:] == ["Conv", "Cast"]
    assert outcome.results["y"].any()


def test_groups_of_channels(lowered: Lowered) -> None:
    source = proto("uint8[1, 4, 5, 5] x", "y = ConvInteger <group = 2> (x, w)", 4, w=drawn("uint8", 4, 2, 3, 3))
    lowered(source, 9, feeds={"x": drawn("uint8", 1, 4, 5, 5)})


def test_a_computed_weight_of_known_size(lowered: Lowered) -> None:
    body = "y = ConvInteger (x, v, xz, wz)"
    source = proto("uint8[1, 3, 5, 5] x, uint8[2, 3, 3, 3] v, uint8 wz", body, 4, xz=np.array(3, np.uint8))
    feeds = {"x": drawn("uint8", 1, 3, 5, 5), "v": drawn("uint8", 2, 3, 3, 3), "wz": np.array(5, np.uint8)}
    assert lowered(source, 9, feeds=feeds).ops.count("Sub") == 2


@pytest.mark.parametrize(
    ("kinds", "zeros", "body"),
    [
        (("uint8", "uint8"), {}, "y = MatMulInteger (x, w)"),
        (("int8", "int8"), {"xz": np.array(-3, np.int8)}, "y = MatMulInteger (x, w, xz)"),
        (("uint8", "int8"), {"xz": np.array(3, np.uint8), "wz": drawn("int8", 5)}, "y = MatMulInteger (x, w, xz, wz)"),
    ],
)
def test_product(lowered: Lowered, kinds: tuple[str, str], zeros: dict[str, Any], body: str) -> None:
    source = proto(f"{kinds[0]}[3, 200] x", body, 2, w=drawn(kinds[1], 200, 5), **zeros)
    assert lowered(source, 9, feeds={"x": drawn(kinds[0], 3, 200)}).ops[-2:] == ["MatMul", "Cast"]


def test_the_largest_sums_that_float32_holds(lowered: Lowered) -> None:
    """Of 258 products, 255 times 255 each, the sum is below 2^24; of 259 it is above."""
    for length, fits in ((258, True), (259, False)):
        full = np.full((length, 2), 255, np.uint8)
        for stored in (True, False):
            inputs = f"uint8[1, {length}] x" + ("" if stored else f", uint8[{length}, 2] w")
            source = proto(inputs, "y = MatMulInteger (x, w)", 2, **({"w": full} if stored else {}))
            feeds = {"x": np.full((1, length), 255, np.uint8)} | ({} if stored else {"w": full})
            if fits:
                assert lowered(source, 9, feeds=feeds).results["y"].tolist() == [[255 * 255 * length] * 2]
                continue
            with pytest.raises(ConversionBlocked, match=r"sums of up to 16841475, more than float32 holds exactly"):
                lowered(source, 9, feeds=feeds)


def test_an_open_number_of_products(lowered: Lowered) -> None:
    source = proto("uint8[1, k] x, uint8[k, 2] w", "y = MatMulInteger (x, w)", 2)
    with pytest.raises(ConversionBlocked, match="a number of products that is not known"):
        lowered(source, 9)
