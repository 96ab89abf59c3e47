"""The IR version that a conversion chooses is the one that was released with the opset."""

import pytest
from onnx import helper

from bnfold.converting.ir_version import LOWEST, ir_version_of

ROWS = [(opset, ir) for _, ir, opset, *_ in helper.VERSION_TABLE if ir >= LOWEST]


@pytest.mark.parametrize(("opset", "released_with"), ROWS)
def test_every_release_of_onnx(opset: int, released_with: int) -> None:
    assert ir_version_of(opset) == min(ir for other, ir in ROWS if other == opset)
    assert ir_version_of(opset) <= released_with
