from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", ["1, 2, 4, 5", "2, 1, 3, 2"])
def test_a_plane(lowered: Lowered, text: Text, size: str, align: int) -> None:
    """A batch of 1 is where onnx's own body fails."""
    body = f"s = Constant <value = int64[4] {{{size}}}> () y = AffineGrid <align_corners = {align}> (x, s)"
    made = lowered(text(20, f"float[{size[0]}, 2, 3] x", body), 13)
    assert made.ops == ["Transpose", "MatMul", "Reshape"]


@pytest.mark.parametrize("align", [0, 1])
def test_a_volume(lowered: Lowered, text: Text, align: int) -> None:
    body = f"s = Constant <value = int64[5] {{2, 1, 3, 2, 4}}> () y = AffineGrid <align_corners = {align}> (x, s)"
    lowered(text(20, "float[2, 3, 4] x", body), 9)


def test_corners_of_one_point_are_refused(lowered: Lowered, text: Text) -> None:
    body = "s = Constant <value = int64[4] {1, 1, 1, 5}> () y = AffineGrid <align_corners = 1> (x, s)"
    with pytest.raises(ConversionBlocked, match="with aligned corners"):
        lowered(text(20, "float[1, 2, 3] x", body), 13)
