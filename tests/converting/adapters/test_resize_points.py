from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
POINTS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def resize(
    sizes: list[int] | list[float], *, dtype: int = onnx.TensorProto.FLOAT, batch: int | str = 2, **attributes: Any
) -> onnx.ModelProto:
    """A Resize of [batch, 3, 5, 4] to sizes, or by scales, which are floats."""
    is_scales = isinstance(sizes[0], float)
    stored = onnx.numpy_helper.from_array(np.array(sizes, np.float32 if is_scales else np.int64), "s")
    node = onnx.helper.make_node("Resize", ["x", "", "s"] if is_scales else ["x", "", "", "s"], ["y"], **attributes)
    made = [batch, 3, *sizes[2:]] if not is_scales else [batch, 3, "h", "w"]
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", dtype, [batch, 3, 5, 4])],
        [onnx.helper.make_tensor_value_info("y", dtype, made)],
        [stored],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(("mode", "points"), [*product(("linear", "cubic"), POINTS)])
@pytest.mark.parametrize("sizes", [[2, 3, 10, 7], [2, 3, 3, 1], [1.0, 1.0, 1.7, 0.6]])
@pytest.mark.parametrize("target", [10, 9, 7])
def test_interpolation(lowered: Lowered, mode: str, points: str, sizes: list[Any], target: int) -> None:
    lowered(resize(sizes, mode=mode, coordinate_transformation_mode=points), target)


@pytest.mark.parametrize("neighbour", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("points", POINTS[:3])
@pytest.mark.parametrize("scales", [[1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.7, 0.7]])
def test_neighbours(lowered: Lowered, neighbour: str, points: str, scales: list[float]) -> None:
    attributes: dict[str, Any] = {
        "mode": "nearest",
        "nearest_mode": neighbour,
        "coordinate_transformation_mode": points,
    }
    try:
        lowered(resize(scales, **attributes), 9)
    except ConversionBlocked as error:
        assert "where rounding decides between two neighbours" in str(error)  # noqa: PT017 - some of them do
        assert scales[2] == 1.7


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1.0, 1.0, 0.125, 1.0], [1.0, 1.0, 1.5, 0.125]])
@pytest.mark.parametrize("target", [10, 9])
def test_scales_that_leave_nothing(lowered: Lowered, mode: str, scales: list[float], target: int) -> None:
    lowered(resize(scales, mode=mode, coordinate_transformation_mode="pytorch_half_pixel"), target)


@pytest.mark.parametrize("sizes", [[2, 3, 0, 4], [2, 0, 5, 4]])
def test_a_size_of_0_is_refused(sizes: list[int]) -> None:
    """Its scale would be 0, which onnxruntime refuses as well."""
    source = resize(sizes)
    for declared, size in zip(source.graph.output[0].type.tensor_type.shape.dim, sizes, strict=True):
        declared.dim_value = size
    with pytest.raises(ConversionBlocked, match=f"has a size of 0 along axis {sizes.index(0)}"):
        upgrade(ir.load(source), 10)


@pytest.mark.parametrize("attributes", [{"exclude_outside": 1}, {"cubic_coeff_a": -0.5}])
def test_cubic_in_other_ways(lowered: Lowered, attributes: dict[str, Any]) -> None:
    lowered(resize([2, 3, 8, 7], mode="cubic", **attributes), 9)


def test_float16_is_rounded_once(lowered: Lowered) -> None:
    points = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    assert lowered(resize([2, 3, 8, 7], dtype=onnx.TensorProto.FLOAT16, **points), 9).ops[-1] == "Cast"


def test_what_is_no_number_stays_where_it_was(lowered: Lowered) -> None:
    data = np.ones((2, 3, 5, 4), np.float32)
    data[0, 0, 2], data[1, 1, 0] = np.nan, np.nan
    lowered(resize([2, 3, 9, 4], mode="linear"), 9, feeds={"x": data})


def test_an_open_batch(lowered: Lowered) -> None:
    lowered(resize([1.0, 1.0, 2.0, 2.0], mode="linear", batch="n"), 9)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (resize([2, 3, 8, 7], mode="linear", dtype=onnx.TensorProto.UINT8), "interpolates integers"),
        (resize([1.0, 1.0, 2.0, 2.0], mode="linear", coordinate_transformation_mode="tf_crop_and_resize"), "crop"),
        (resize([1.0, 1.0, 2.0, 2.0], mode="linear"), "scales that are not known"),
    ],
)
def test_what_no_sum_of_places_is(lowered: Lowered, source: onnx.ModelProto, why: str) -> None:
    if "crop" in why:
        source.graph.node[0].input[1] = "s2"
        source.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32), "s2")
        )
    if "known" in why:
        source.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "h"
    feeds = {
        "x": np.zeros(
            (2, 3, 5, 4), onnx.helper.tensor_dtype_to_np_dtype(source.graph.input[0].type.tensor_type.elem_type)
        )
    }
    with pytest.raises(ConversionBlocked, match=why):
        lowered(source, 9, feeds=feeds)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_a_computed_scale_is_not_what_its_sizes_say(lowered: Lowered, text: Callable[..., str], mode: str) -> None:
    """A scale of 0.6 makes 2 of 4, and so does 0.5."""
    call = f'y = Resize <mode = "{mode}"> (x, , s)'
    source = text(13, "float[1, 1, 4, 4] x, float[4] s", call, outputs="float[1, 1, 2, 2] y")
    with pytest.raises(ConversionBlocked, match="has scales that are not known"):
        lowered(source, 9, feeds={"s": np.array([1, 1, 0.6, 0.6], np.float32)})
