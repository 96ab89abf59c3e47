"""A BatchNormInference that OpenVINO's own converter has spelled out, as Multiply and Add: it always does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bnfold
from tests.interop.openvino.text import Text


@pytest.mark.parametrize("positive", [True, False])
def test_multiply_and_add_are_a_row_of_the_report(tmp_path: Path, positive: bool) -> None:
    rng, text = np.random.default_rng(0), Text()
    x = text.parameter([2, 3, 5, 7])
    kernel = text.constant(rng.standard_normal((4, 3, 2, 2)).astype(np.float32))
    y = text.layer(
        "Convolution", [x, kernel], [2, 4, 4, 6], strides="1,1", pads_begin="0,0", pads_end="0,0", dilations="1,1"
    )
    y = text.layer("ReLU", [y], [2, 4, 4, 6])
    scale = rng.uniform(0.5, 2.0, (1, 4, 1, 1)) * (1 if positive else -1)
    y = text.layer("Multiply", [y, text.constant(scale.astype(np.float32))], [2, 4, 4, 6])
    y = text.layer("Add", [y, text.constant(rng.standard_normal((1, 4, 1, 1)).astype(np.float32))], [2, 4, 4, 6])
    text.result(y)
    outcome = bnfold.fold(text.save(tmp_path / "model.xml"), tmp_path / "out.xml")
    assert outcome.verdict is not None
    assert outcome.verdict.status != "failed"
    (event,) = outcome.report.batchnorms
    assert (event.mode, event.version, event.verdict) == ("spelled-out", 0, "exchanged" if positive else "kept")
