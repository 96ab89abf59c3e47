from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
_HOW = [
    ("nearest", padding) for padding in ("zeros", "border", "reflection")
] + [("linear", padding) for padding in ("zeros", "border", "reflection")] + [("cubic", "zeros")]  # fmt: skip


def _grid(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Draw points, some of them far outside, on elements, or between two."""
    rng = np.random.default_rng(3)
    drawn = rng.uniform(-1.6, 1.6, shape)
    exact = rng.choice([-5.0, -1, -0.75, -0.5, 0, 0.25, 0.5, 1, 3.25], shape)
    return np.where(rng.random(shape) < 0.5, drawn, exact).astype(np.float32)


@pytest.mark.parametrize(("mode", "padding"), _HOW)
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("target", [15, 12, 10, 9])
def test_on_a_plane(lowered: Lowered, text: Text, mode: str, padding: str, corners: int, target: int) -> None:
    how = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {corners}'
    source = text(20, "float[2, 3, 4, 5] x, float[2, 7, 6, 2] g", f"y = GridSample <{how}> (x, g)")
    assert "GridSample" not in lowered(source, target, feeds={"g": _grid((2, 7, 6, 2))}).ops


_NAMES = [("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest"), ("", None)]


@pytest.mark.parametrize(("mode", "older"), _NAMES)
@pytest.mark.parametrize("opset", [20, 22])
@pytest.mark.parametrize("target", [19, 16])
def test_modes_of_a_plane_have_names_of_their_own_before_20(
    lowered: Lowered, upgraded: Lowered, text: Text, mode: str, older: str | None, opset: int, target: int
) -> None:
    how = f'mode = "{mode}", ' if mode else ""
    body = f'y = GridSample <{how}padding_mode = "border"> (x, g)'
    source = text(opset, "float[2, 3, 4, 5] x, float[2, 7, 6, 2] g", body)
    feeds = {"g": _grid((2, 7, 6, 2))}
    down = lowered(source, target, feeds=feeds)
    assert down.model.graph.nodes[0].attr("mode") == older
    up = upgraded(down.model.proto, opset, feeds=feeds)
    assert up.model.graph.nodes[0].attr("mode") == (mode or None)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("target", [19, 13, 9])
def test_in_a_volume(lowered: Lowered, text: Text, mode: str, corners: int, target: int) -> None:
    how = f'mode = "{mode}", align_corners = {corners}'
    source = text(20, "float[2, 3, 4, 5, 2] x, float[2, 3, 4, 2, 3] g", f"y = GridSample <{how}> (x, g)")
    lowered(source, target, feeds={"g": _grid((2, 3, 4, 2, 3))})


def test_infinities_beside_a_point_do_not_reach_it(lowered: Lowered, text: Text) -> None:
    numbers = np.full((1, 1, 3, 3), np.inf, np.float32)
    numbers[0, 0, 0, 0] = 5
    source = text(16, "float[1, 1, 3, 3] x, float[1, 1, 1, 2] g", 'y = GridSample <mode = "nearest"> (x, g)')
    lowered(source, 9, feeds={"x": numbers, "g": np.full((1, 1, 1, 2), -9, np.float32)})


@pytest.mark.parametrize(
    ("inputs", "how", "target", "why"),
    [
        ("float[1, 2, n, 4] x, float[1, 2, 2, 2] g", "", 15, "an input of unknown sizes"),
        ("float[1, 2, 3, 4] x, float[1, 2, 2, 2] g", "", 8, "needs Greater: version 7 does not take"),
        ("float[1, 2, 3, 4] x, float[1, 2, 2, 2] g", '<mode = "bicubic", padding_mode = "border">', 15, "mode=cubic"),
        (
            *("float[1, 2, 1, 4] x, float[1, 2, 2, 2] g", '<padding_mode = "reflection", align_corners = 1>', 15),
            "reflects an axis of one element",
        ),
        ("float[1, 2, 3, 4] x, float16[1, 2, 2, 2] g", "", 15, "less than 32 bits"),
        ("double[1, 2, 3, 4] x, float[1, 2, 2, 2] g", "", 15, "of two types"),
    ],
)
def test_is_refused(upgraded: Lowered, text: Text, inputs: str, how: str, target: int, why: str) -> None:
    outputs = "double[] y" if "double" in inputs else "float[] y"
    with pytest.raises(ConversionBlocked, match=why):
        upgraded(text(16, inputs, f"y = GridSample {how} (x, g)", outputs=outputs), target, compare=False)
