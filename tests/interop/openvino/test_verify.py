"""Verdicts over two IRs, by the real runtime in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openvino")

from bnfold import Options, VerifyOptions, optimize, verify
from bnfold.errors import BadInput, VerificationFailed
from bnfold.interop.openvino.disturb import longest_sum
from bnfold.interop.openvino.document import read_document
from bnfold.interop.openvino.load import load
from bnfold.verification import Code, Verdict
from bnfold.verification.runtimes import runtime
from bnfold.verification.runtimes.runtime import RuntimeProcess
from tests.interop.openvino.runtime import UNCHECKED, Array, constant, draw, norm, referee, save, v5
from tests.interop.openvino.test_fold import branches, convolution
from tests.interop.openvino.text import convolution_and_norm


def folded(folder: Path, *, compress: bool = False) -> tuple[Path, Path]:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    path = save(folder / "m.xml", [v5.relu(norm(convolution(x), 6))], [x], compress=compress)
    optimize(path, folder / "out.xml", verify=UNCHECKED)
    return path, folder / "out.xml"


def spoil(path: Path, dims: int, factor: float) -> None:
    """Change one number of the constant that has ``dims`` axes."""
    document = read_document(path)
    tensor = next(
        tensor
        for layer in document.constants()
        if (tensor := document.tensor(layer)) is not None and len(tensor.dims) == dims
    )
    values = tensor.numpy().copy().reshape(-1)
    values[np.abs(values).argmax()] *= factor
    data = bytearray(path.with_suffix(".bin").read_bytes())
    data[tensor.span.offset : tensor.span.offset + tensor.span.length] = values.tobytes()
    path.with_suffix(".bin").write_bytes(data)


@pytest.mark.parametrize("compress", [False, True])
def test_a_fold_is_verified_and_a_wrong_weight_is_not(tmp_path: Path, compress: bool) -> None:
    before, after = folded(tmp_path, compress=compress)
    verdict = verify(before, after)
    assert (verdict.status, verdict.decided_by) == ("verified", "storage precision"), verdict.reason
    assert verdict.witnesses[0].witness.startswith("openvino ")
    (row,) = verdict.outputs
    assert 0 < row.relative < row.allowed < (1e-2 if compress else 1e-5)
    spoil(after, 4, 1.05 if compress else 1.0005)
    verdict = verify(before, after)
    assert verdict.status == "failed"
    assert re.search(r"differs by [\d.e-]+, [\d.e-]+ allowed", verdict.reason)


def test_what_fails_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = folded(tmp_path)
    wrong = Verdict("failed", "output 'y' is wrong", "storage precision", code=Code.DIFFERS)
    monkeypatch.setattr("bnfold.interop.openvino.verify", lambda *_: wrong)
    with pytest.raises(VerificationFailed, match="not written"):
        optimize(before, tmp_path / "wrong.xml")
    assert not list(tmp_path.glob("wrong*"))
    assert not list(tmp_path.glob(".*"))


def test_a_body_that_no_run_enters_is_not_vouched_for(tmp_path: Path) -> None:
    """Both branches are entered, for booleans are turned round; recorded inputs that enter one only leave a doubt."""
    before = branches(compress=False, folder=tmp_path)
    outcome = optimize(before, tmp_path / "out.xml", options=Options(decompose="remaining"))
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified", outcome.verdict.reason
    np.savez(tmp_path / "one.npz", x=draw(2, 4, 9, 7), condition=np.array(True))
    verdict = verify(before, tmp_path / "out.xml", options=VerifyOptions(data=tmp_path / "one.npz"))
    assert verdict.status == "unverified"
    assert "branch.else_body" in verdict.reason


def test_open_sizes_are_chosen_or_given(tmp_path: Path) -> None:
    x = v5.parameter([-1, 4, -1, -1], np.float32, name="x")
    before = save(tmp_path / "m.xml", [v5.relu(norm(convolution(x), 6))], [x])
    outcome = optimize(before, tmp_path / "out.xml", verify=VerifyOptions(inputs={"x": (2, 4, 11, 6)}))
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified", outcome.verdict.reason
    assert outcome.verdict.outputs[0].shape[0] == 2
    with pytest.raises(BadInput, match="no input 'z'"):
        verify(before, tmp_path / "out.xml", options=VerifyOptions(inputs={"z": (2, 4, 11, 6)}))


def test_another_interface_fails(tmp_path: Path) -> None:
    before, _ = folded(tmp_path)
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    made = v5.relu(norm(convolution(x), 6))
    made.output(0).set_names({"other"})
    after = save(tmp_path / "other.xml", [made], [x])
    verdict = verify(before, after)
    assert verdict.status == "failed"
    assert "different outputs" in verdict.reason


def test_outputs_that_pick_are_no_proof_of_a_fault(tmp_path: Path) -> None:
    """Which of two equal elements is the larger one is decided by rounding."""
    x = v5.parameter([64, 4, 9, 7], np.float32, name="x")
    weight = np.concatenate([draw(1, 4, 3, 2)] * 6)
    made = v5.convolution(x, constant(weight), [1, 1], [0, 0], [0, 0], [1, 1])
    vectors = [np.full(6, value, np.float32) for value in (1.1, 0.3, 0.2, 0.7)]
    normed = v5.batch_norm_inference(made, *map(constant, vectors), 1e-3)
    tilted = v5.multiply(normed, constant((1 + 1e-7 * draw(1, 6, 1, 1)).astype(np.float32)))
    indices = v5.topk(tilted, constant(np.array(1)), 1, "max", "none").output(1)
    before = save(tmp_path / "m.xml", [indices], [x])
    optimize(before, tmp_path / "out.xml", verify=UNCHECKED)
    assert verify(before, tmp_path / "out.xml").status in ("verified", "unverified")


def test_files_of_two_kinds_are_not_compared(tmp_path: Path) -> None:
    before, _ = folded(tmp_path)
    with pytest.raises(BadInput, match="cannot be compared"):
        verify(before, tmp_path / "m.onnx")


def test_inputs_and_outputs_without_a_tensor_name(tmp_path: Path) -> None:
    """In version 11 a tensor need not have one; an input then goes by its layer's."""
    before = convolution_and_norm().save(tmp_path / "m.xml")
    before.write_text(before.read_text(encoding="utf-8").replace(' names="x"', ""), encoding="utf-8")
    outcome = optimize(before, tmp_path / "out.xml")
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified", outcome.verdict.reason


def test_scalars_and_booleans_reach_the_runtime(tmp_path: Path) -> None:
    """OpenVINO refuses arrays that it may not write to, such as those that lie in a message."""
    path = branches(compress=False, folder=tmp_path)
    feeds = [{"x": draw(2, 4, 9, 7), "condition": np.array(value)} for value in (True, False)]
    testimony = RuntimeProcess("openvino").run(path, feeds, 60.0)
    assert testimony.ran, testimony.error
    assert len(testimony.results) == 2


def stand_in(monkeypatch: pytest.MonkeyPatch, before: Path, wrong: float) -> None:
    """A runtime that computes what the referee does, but the original ``wrong`` times and the other model twice."""

    def run(_: RuntimeProcess, path: Path, samples: list[dict[str, Array]], __: float) -> runtime.RuntimeResult:
        factor = wrong if path.name == before.name else 2.0
        truths = [referee(before, feeds)[0] for feeds in samples]
        return runtime.RuntimeResult("stand-in", tuple({"y": (factor * truth).astype(np.float32)} for truth in truths))

    monkeypatch.setattr(RuntimeProcess, "run", run)


@pytest.mark.parametrize(("wrong", "status"), [(1.0, "failed"), (1.5, "unverified")])
def test_a_runtime_that_errs_on_the_original_is_no_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: float, status: str
) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    made = v5.relu(norm(convolution(x), 6))
    made.output(0).set_names({"y"})
    before = save(tmp_path / "m.xml", [made], [x])
    optimize(before, tmp_path / "out.xml", verify=UNCHECKED)
    stand_in(monkeypatch, before, wrong)
    verdict = verify(before, tmp_path / "out.xml")
    assert verdict.status == status
    assert ("OpenVINO cannot show" in verdict.reason) == (status == "unverified")


def test_the_longest_sum(tmp_path: Path) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    home = v5.convolution_backprop_data(convolution(x), constant(draw(6, 5, 2, 3)), [1, 1])
    flat = v5.reduce_mean(home, constant(np.array([2, 3])), False)
    path = save(tmp_path / "m.xml", [v5.matmul(flat, constant(draw(7, 5)), False, True)], [x])
    assert longest_sum(load(path)) == 36
