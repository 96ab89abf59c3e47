"""What the tests of onnx's own version converter convert upwards: all of it upgrades, and nearly all is verified."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from _upgrade.judging import Converter, outcome
from _upgrade.models import conversions

SOURCE = os.environ.get("BNFOLD_ONNX_SOURCE", "")
REFUSED = {
    "TestAutomaticUpgrade_test_reduce_log_sum_ops_int_upgrade_fails_ReduceLogSumExp_1": "does not take int64",
    "TestAutomaticUpgrade_test_reduce_log_sum_ops_int_upgrade_fails_ReduceLogSum_1": "does not take int64",
    "TestVersionConverter_test_external_data_version_conversion_1": "is missing",
    "TestVersionConverter_test_rejects_missing_required_inputs_Softmax_attrs1_12_13_1_output_shape1_1": "has no inputs",
    "TestVersionConverter_test_rejects_missing_required_inputs_Upsample_attrs2_9_10_1_output_shape2_1": "has no inputs",
    "TestVersionConverter_test_undefined_input_1": "nothing makes",
    "TestVersionConverter_test_undefined_output_1": "nothing makes the output",
    "TestVersionConverter_test_scan_8_9_rejects_no_inputs_1": "has no inputs",
}
"""Models that no opset allows, those with a type that the target withdrew, and one stored without its data."""


@pytest.mark.large
@pytest.mark.skipif(not SOURCE, reason="BNFOLD_ONNX_SOURCE names no unpacked source of the installed onnx")
def test_conversions_of_onnx_itself(tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    stored.mkdir()
    converter, out = Converter("bnfold", timeout=120), tmp_path / "out.onnx"
    unverified, refused, wrong = [], {}, {}
    for entry in conversions(Path(SOURCE), stored, ""):
        result = outcome(converter, entry.path, out, entry.target, budget=30)
        if result.verdict == "failed":
            refused[entry.name] = result.reason
            continue
        if entry.name.startswith("TestAutomaticUpgrade"):
            onnx.shape_inference.infer_shapes(onnx.load(out), strict_mode=True)
        if result.verdict == "unverified":
            unverified.append(f"{entry.name}: {result.reason}")
        elif result.verdict != "equal":
            wrong[entry.name] = result
    converter.close()
    assert not wrong
    assert {name: reason for name, reason in refused.items() if REFUSED.get(name, "\0") not in reason} == {}
    assert len(unverified) <= 5, "\n".join(unverified)
