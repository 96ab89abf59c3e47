from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("target", [10, 9])
@pytest.mark.parametrize("size", ["2", "n"])
@pytest.mark.parametrize(
    "indices", [[[1, -1], [0, 2], [-2, 0]], [[-1], [0], [1]], [1, 2], [[[1, 2, 3]], [[-1, -3, -4]]]]
)
def test_gather_nd(lowered: Lowered, text: Text, indices: list[Any], size: str, target: int) -> None:
    places = np.array(indices, np.int64)
    dims = ", ".join(map(str, places.shape))
    source = text(13, f"float[{size}, 3, 4] x, int64[{dims}] i", "y = GatherND (x, i)")
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert "GatherND" not in lowered(source, target, feeds={"x": data, "i": places}).ops


@pytest.mark.parametrize("size", ["2", "n"])
def test_gather_nd_at_stored_places(lowered: Lowered, text: Text, size: str) -> None:
    body = "i = Constant <value = int64[2, 2] {1, -1, 0, 2}> () y = GatherND (x, i)"
    found = lowered(text(12, f"float[{size}, 3] x", body), 9, feeds={"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert found.ops.count("Where") == (size == "n")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("y = GatherND <batch_dims = 1> (x, i)", "batch_dims is newer"),
        (
            "z = Transpose <perm = [1, 2, 0]> (x) y = GatherND (z, i)",
            "open, or empty, along an axis that stays as it is",
        ),
    ],
)
def test_places_in_what_is_not_known(lowered: Lowered, text: Text, call: str, why: str) -> None:
    source = text(13, "float[n, 3, 4] x, int64[3, 2] i", call)
    with pytest.raises(ConversionBlocked, match=why):
        lowered(source, 9, feeds={"x": np.zeros((3, 3, 4), np.float32), "i": np.zeros((3, 2), np.int64)})


@pytest.mark.parametrize("size", ["2", "n"])
@pytest.mark.parametrize("indices", [[[1, -1], [0, 2]], [[-1], [0]], [[[1, 2, 3]], [[-2, -3, -4]]]])
def test_scatter_nd(lowered: Lowered, text: Text, indices: list[Any], size: str) -> None:
    places = np.array(indices, np.int64)
    updates = (*places.shape[:-1], *(2, 3, 4)[places.shape[-1] :])
    head = (
        f"float[{size}, 3, 4] x, int64[{', '.join(map(str, places.shape))}] i, float[{', '.join(map(str, updates))}] u"
    )
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "i": places}
    assert "Scatter" in lowered(text(18, head, "y = ScatterND (x, i, u)"), 9, feeds=feeds).ops


def test_gather_nd_along_open_axes(lowered: Lowered, text: Text) -> None:
    data, places = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[1, -1, 0], [0, 2, -2]], np.int64)
    lowered(text(13, "float[a, b, c] x, int64[2, 3] i", "y = GatherND (x, i)"), 9, feeds={"x": data, "i": places})


def test_places_that_are_never_negative_are_not_counted_from_the_end(lowered: Lowered, text: Text) -> None:
    body = "z = ArgMax <axis = 1, keepdims = 1> (x) y = GatherND (x, z)"
    assert "Where" not in lowered(text(13, "float[n, 2] x", body), 9, feeds={"x": np.eye(2, dtype=np.float32)}).ops


def test_scatter_nd_that_adds(lowered: Lowered, text: Text) -> None:
    source = text(18, "float[2] x, int64[2, 1] i, float[2] u", 'y = ScatterND <reduction = "add"> (x, i, u)')
    with pytest.raises(ConversionBlocked, match="has reduction=add at places that are computed"):
        lowered(source, 9, feeds={"i": np.array([[0], [0]])})


BOUNDS = [
    ("[0, 1]", "[5, 9]", "[2, 2]", "[0, 1]"),
    ("[-1]", "[-9223372036854775807]", "[-1]", "[1]"),
    ("[4, 0]", "[0, 2]", "[-2, 1]", "[-1, 0]"),
    ("[1, 9]", "[4, -9]", "[1, -3]", "[0, 1]"),
]


@pytest.mark.parametrize(("starts", "ends", "steps", "axes"), BOUNDS)
def test_slices_with_steps(lowered: Lowered, text: Text, starts: str, ends: str, steps: str, axes: str) -> None:
    names = {"s": starts, "e": ends, "a": axes, "t": steps}
    stored = " ".join(f"{name} = Constant <value_ints = {values}> ()" for name, values in names.items())
    assert (
        "Slice" not in lowered(text(13, "float[5, 6] x", f"{stored} y = Slice (x, s, e, a, t)"), 9).ops or "1" in steps
    )


@pytest.mark.parametrize(("start", "end"), [(1, 3), (-3, -1), (-9, 9), (0, 2**62), (4, 2), (9, 9), (-(2**62), -9)])
@pytest.mark.parametrize("size", ["5", "n"])
def test_slices_between_computed_bounds(lowered: Lowered, text: Text, start: int, end: int, size: str) -> None:
    source = text(
        17, f"float[2, {size}] x, int64[1] s, int64[1] e", "a = Constant <value_ints = [-1]> () y = Slice (x, s, e, a)"
    )
    feeds = {"x": np.arange(10, dtype=np.float32).reshape(2, 5), "s": np.array([start]), "e": np.array([end])}
    lowered(source, 9, feeds=feeds)


def test_slices_of_several_axes_between_computed_bounds(lowered: Lowered, text: Text) -> None:
    source = text(17, "float[4, n] x, int32[2] s", "e = Constant <value = int32[2] {3, -1}> () y = Slice (x, s, e)")
    feeds = {"x": np.arange(20, dtype=np.float32).reshape(4, 5), "s": np.array([-3, 1], np.int32)}
    lowered(source, 9, feeds=feeds)


STORED = "s = Constant <value_ints = [%s]> () e = Constant <value_ints = [%s]> () t = Constant <value_ints = [%s]> ()"
FORWARD = [(0, 2**62, 2), (1, 2**62, 2), (3, 2**31 - 1, 3), (7, 2**62, 4), (0, 2**62, 5)]
BACKWARD = [(-1, -(2**62), -1), (2**62, -(2**62), -1), (-1, -(2**31), -2), (2**62, -(2**63), -3)]


@pytest.mark.parametrize("bounds", [*FORWARD, *BACKWARD])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_steps_along_an_open_axis(lowered: Lowered, text: Text, bounds: tuple[int, int, int], axis: int) -> None:
    stored = STORED % bounds
    source = text(13, "float[n, m] x", f"{stored} a = Constant <value_ints = [{axis}]> () y = Slice (x, s, e, a, t)")
    for size in (0, 1, 4, 5, 6, 7, 9):
        shape = (size, 2) if axis == 0 else (2, size)
        feeds = {"x": np.random.default_rng(size).normal(size=shape).astype(np.float32)}
        assert "Slice" not in lowered(source, 9, feeds=feeds).ops


@pytest.mark.parametrize("bounds", [(0, 9, 2), (-3, 2**62, 2), (-2, -(2**62), -1), (-1, 0, -1), (5, -(2**62), -1)])
def test_steps_between_bounds_of_an_open_axis(lowered: Lowered, text: Text, bounds: tuple[int, int, int]) -> None:
    stored = STORED % bounds
    source = text(13, "float[n] x", f"{stored} a = Constant <value_ints = [0]> () y = Slice (x, s, e, a, t)")
    with pytest.raises(
        ConversionBlocked, match=rf"step {bounds[2]} along an axis of unknown size, which needs opset 10"
    ):
        lowered(source, 9)


@pytest.mark.parametrize("target", [10, 9])
@pytest.mark.parametrize("mode", ["CRD", "DCR"])
def test_depth_to_space(lowered: Lowered, text: Text, mode: str, target: int) -> None:
    source = text(13, "float[n, 12, h, 3] x", f'y = DepthToSpace <blocksize = 2, mode = "{mode}"> (x)')
    assert lowered(source, target).ops == ["Gather", "DepthToSpace"][mode == "DCR" :]


@pytest.mark.parametrize("channels", [4, 8, 12])
def test_blocks_of_an_open_number_of_channels(lowered: Lowered, text: Text, channels: int) -> None:
    source = text(13, "float[1, c, 2, 3] x", 'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)')
    feeds = {"x": np.random.default_rng(0).normal(size=(1, channels, 2, 3)).astype(np.float32)}
    assert lowered(source, 9, feeds=feeds).ops[-2:] == ["Gather", "DepthToSpace"]
    with pytest.raises(ConversionBlocked, match="needs NonZero: does not exist before opset 9"):
        lowered(source, 8, feeds=feeds)


@pytest.mark.parametrize("target", [10, 9])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(lowered: Lowered, text: Text, axis: int, dtype: str, target: int) -> None:
    """Indices of fewer places than the input has elsewhere, and negative ones, count along one axis."""
    places = (np.arange(12).reshape(1, 3, 4) % 2 - np.array([0, 1, 2])[None, :, None]).astype(dtype)
    source = text(13, f"float[2, 3, 4] x, {dtype}[1, 3, 4] i", f"y = GatherElements <axis = {axis}> (x, i)")
    assert lowered(source, target, feeds={"i": places}).ops[-1] == "Gather"


def test_gather_elements_of_open_sizes(lowered: Lowered, text: Text) -> None:
    source = text(13, "float[n, 3] x, int64[2, 3] i", "y = GatherElements (x, i)")
    with pytest.raises(ConversionBlocked, match="has indices or an input of open sizes"):
        lowered(source, 10, feeds={"i": np.zeros((2, 3), np.int64)})


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("axis", "keepdims"), [(0, 1), (1, 0), (-1, 1)])
@pytest.mark.parametrize("target", [11, 9, 7])
def test_the_last_of_equal_elements(
    lowered: Lowered, text: Text, op_type: str, axis: int, keepdims: int, target: int
) -> None:
    how = f"<select_last_index = 1, axis = {axis}, keepdims = {keepdims}>"
    source = text(13, "float[3, 4] x", f"y = {op_type} {how} (x)", outputs="int64[] y")
    lowered(source, target, feeds={"x": np.array([[1, 2, 2, 1], [2, 1, 2, 2], [1, 1, 1, 1]], np.float32)})


def test_the_last_along_an_open_axis(lowered: Lowered, text: Text) -> None:
    source = text(13, "float[n] x", "y = ArgMax <select_last_index = 1> (x)", outputs="int64[] y")
    with pytest.raises(ConversionBlocked, match=r"select_last_index along an axis of unknown size"):
        lowered(source, 11)


@pytest.mark.parametrize("target", [10, 9])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements(lowered: Lowered, text: Text, axis: int, dtype: str, target: int) -> None:
    places = np.array([[0, 1, -1], [1, 0, -2]] if axis == 0 else [[0, -1, 1], [2, 0, -2]], dtype)
    if axis == 0:
        places = places[:, :3]
    source = text(
        *(13, f"float[3, n] x, {dtype}[2, 3] i, float[2, 3] u"),
        f"y = ScatterElements <axis = {axis}> (x, i, u)", outputs="float[] y",
    )  # fmt: skip
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "i": places}
    assert lowered(source, target, feeds=feeds).ops[-1] == "Scatter"
