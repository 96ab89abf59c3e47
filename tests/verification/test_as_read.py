"""Training mode read as inference, as asked: a runtime is given that model, and blames nobody for the other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.verification import verify
from bnfold.verification.as_read import as_read
from bnfold.verification.end_to_end import ort_check
from tests.verification.graphs import affine, along, model, numbers, single, statistics

FORCED = reference.Policy(force_inference=True)
HEAD = "(float[2,3,6,6] x) => (float[2,4,6,6] y)"
TAIL = "r = Relu (z) n = Neg (r) s = Softplus (n) y = Sigmoid (s)"
FORMS = [
    (7, "z, m, v, sm, sv = BatchNormalization (c, scale, B, mean, var)"),
    (9, "z, m, v, sm, sv = BatchNormalization (c, scale, B, mean, var)"),
    (14, "z, m, v = BatchNormalization <training_mode = 1> (c, scale, B, mean, var)"),
    (15, "z = BatchNormalization <training_mode = 1> (c, scale, B, mean, var)"),
]


def pair(opset: int, norm: str, error: float = 0.0) -> tuple[ir.Model, ir.Model]:
    rng = numbers(3)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 1, 1)))
    s, t = affine(stats)
    before = model(f"{HEAD} {{ c = Conv (x, W) {norm} {TAIL} }}", {"W": weight, **stats}, opset=opset)
    folded = {"W2": weight * along(s, 0, 4) * (1 + error), "b": t}
    return ir.load(before), ir.load(model(f"{HEAD} {{ z = Conv (x, W2, b) {TAIL} }}", folded, opset=opset))


@pytest.mark.parametrize(("opset", "norm"), FORMS)
def test_a_runtime_is_given_what_was_read(opset: int, norm: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    before, after = pair(opset, norm)
    ir.save(before, tmp_path / "before.onnx")
    verdict = verify(tmp_path / "before.onnx", after, policy=FORCED, depth="full")
    assert verdict.verified, verdict.reason
    (row,) = verdict.witnesses
    assert (row.ran_before, row.agrees, row.notes) == (True, True, ())
    assert verify(before, pair(opset, norm, 1e-3)[1], policy=FORCED).status == "failed"
    assert verify(before, after).status == "failed", "of the batch"


@pytest.mark.parametrize(("opset", "norm"), FORMS)
def test_so_is_one_that_looks_at_large_models(opset: int, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(ort_check, "LITTLE_TIME", 0.0)
    verdict = verify(*pair(opset, norm), policy=FORCED)
    assert (verdict.status, verdict.decided_by, verdict.outputs) == ("verified", "local", ())
    assert verdict.witnesses[0].ran_before


def test_recorded_outputs_may_be_of_the_other_mode(tmp_path: Path) -> None:
    before, after = pair(*FORMS[-1])
    feeds = {"x": numbers(1).normal(size=(2, 3, 6, 6)).astype(np.float32)}
    trained = reference.evaluate(before, feeds)["y"].astype(np.float32)
    for name, array in (("input_0", feeds["x"]), ("output_0", trained)):
        onnx.save_tensor(onnx.numpy_helper.from_array(array, "x" if "in" in name else "y"), tmp_path / f"{name}.pb")
    verdict = verify(before, after, policy=FORCED, data=tmp_path, runtime="none")
    notes = [note for row in verdict.witnesses for note in row.notes]
    assert len(notes) == 1
    assert "ill-conditioned" not in notes[0]
    assert "may have been in training mode" in notes[0]


def attributes(found: ir.Model | Path) -> list[dict[str, Any]]:
    assert isinstance(found, ir.Model)
    return [{name: node.attr(name) for name in node.attrs} for node in found.graph.nodes if node.op_type != "Conv"]


@pytest.mark.parametrize(
    ("opset", "norm", "expected"),
    [
        (6, "z = BatchNormalization <is_test = 0> (c, scale, B, mean, var)", {"is_test": 1}),
        (6, "z = BatchNormalization (c, scale, B, mean, var)", {"is_test": 1}),
        (15, "z = BatchNormalization <is_test = 0, epsilon = 0.5> (c, scale, B, mean, var)", {"epsilon": 0.5}),
    ],
)
def test_inference_is_said_as_the_version_says_it(opset: int, norm: str, expected: dict[str, Any]) -> None:
    before = pair(opset, norm)[0]
    original = before.proto.SerializeToString()
    assert attributes(as_read(before, None, FORCED))[0] == expected
    assert before.proto.SerializeToString() == original


@pytest.mark.parametrize(
    ("opset", "norm", "policy"),
    [
        (15, "z = BatchNormalization <training_mode = 1> (c, scale, B, mean, var)", reference.Policy()),
        (15, "z = BatchNormalization (c, scale, B, mean, var)", FORCED),
        (6, "z = BatchNormalization <is_test = 1> (c, scale, B, mean, var)", FORCED),
        (14, "z, m = BatchNormalization <training_mode = 1> (c, scale, B, mean, var) q = Neg (m)", FORCED),
        (15, 'z = BatchNormalization <training_mode = "1"> (c, scale, B, mean, var)', FORCED),
    ],
)
def test_other_models_are_what_they_are(opset: int, norm: str, policy: reference.Policy) -> None:
    """Among them one whose statistics are read: it stays in training mode."""
    before = pair(opset, norm)[0]
    assert as_read(before, None, policy) is before
    assert as_read(before, Path("file.onnx"), policy) == Path("file.onnx")
