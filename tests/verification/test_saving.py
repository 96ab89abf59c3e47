"""What --save writes: two small models and inputs that show in anybody's runtime what bnfold found."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.errors import BadSetting, OutputError
from bnfold.verification import Verdict, verify
from tests.verification.graphs import Weights, model, single
from tests.verification.test_explaining import CUTS, folded, text

FILES = ["README.txt", "after.onnx", "before.onnx", "inputs.npz"]
Pair = tuple[onnx.ModelProto, onnx.ModelProto]


def saved(pair: Pair, folder: Path, **settings: Any) -> Verdict:
    return verify(*map(ir.load, pair), runtime="none", save=folder, **settings)


def shown(folder: Path) -> str:
    """What the lines of Python in README.txt print."""
    pytest.importorskip("onnxruntime")
    lines = (folder / "README.txt").read_text(encoding="utf-8").splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    "))
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue()


def of(body: str, **weights: Any) -> Callable[..., onnx.ModelProto]:
    def made(**others: Any) -> onnx.ModelProto:
        numbers: Weights = {name: np.asarray(array) for name, array in {**weights, **others}.items()}
        return model(body, numbers)

    return made


RELU = of("(float[N,3] x) => (float[N,3] y) { a = Mul (x, k)  b = Relu (a)  y = Exp (b) }")
INTEGERS = of("(int64[N,3] x) => (int64[N,3] y) { a = Mul (x, k)  y = Sub (a, l) }", l=np.int64(1))
BODY = of(
    "(float[N,3] x, bool c) => (float[N,3] y) { y = If (c) <then_branch = g1 () => (float[N,3] a) { q = Mul (x, k)  a = Exp (q) }, else_branch = g2 () => (float[N,3] b) { b = Neg (x) }> }"  # noqa: E501
)
NAMES = of("(float[N,3] x) => (float[N,3] y) { file = Mul (x, k)  y = Exp (file) }")
HALF = of("(float16[N,3] x) => (float16[N,3] y) { a = Mul (x, k)  y = Exp (a) }")
GATHER = of("(int64[N] x) => (float[N,2] y) { a = Gather (k, x)  y = Exp (a) }")
FIXED = of("(float[2,3,224,224] x) => (float[2,3,224,224] y) { a = Mul (x, k)  b = Relu (a)  y = Sigmoid (b) }")
FAULTS: dict[str, Pair] = {
    "conv": folded(1.01),
    "mul": (RELU(k=single(2)), RELU(k=single(2.1))),
    "integers": (INTEGERS(k=np.int64(2)), INTEGERS(k=np.int64(3))),
    "body": (BODY(k=single(2)), BODY(k=single(2.1))),
    "a value called file": (NAMES(k=single(2)), NAMES(k=single(2.1))),
    "float16": (HALF(k=np.float16(2)), HALF(k=np.float16(3))),
    "table": (GATHER(k=single(np.eye(2))), GATHER(k=single(np.eye(2)[::-1]))),
    "large images": (FIXED(k=single(2)), FIXED(k=single(2.1))),
}


@pytest.mark.parametrize("depth", ["auto", "local", "full"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_shows_in_onnxruntime_and_in_bnfold(name: str, depth: str, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    first = saved(FAULTS[name], folder, depth=depth)
    assert first.status == "failed"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    for file in ("before.onnx", "after.onnx"):
        onnx.checker.check_model(onnx.load(folder / file), full_check=True)
    assert "not equal" in shown(folder)
    again = verify(folder / "before.onnx", folder / "after.onnx", data=folder / "inputs.npz", runtime="none")
    assert again.status == "failed"
    [claim] = [each.claims[0] for each in first.explanation if each.claims][:1]
    assert again.code in (claim.code, "differs")
    assert [row.name for row in again.outputs] == list(claim.outputs)
    assert list(tmp_path.iterdir()) == [folder]


def test_the_part_is_small(tmp_path: Path) -> None:
    saved(folded(1.01), tmp_path / "part", cuts=CUTS)
    before, after = (onnx.load(tmp_path / "part" / f"{side}.onnx") for side in ("before", "after"))
    assert [node.op_type for node in before.graph.node] == ["Conv", "BatchNormalization"]
    assert [node.op_type for node in after.graph.node] == ["Conv"]
    assert before.opset_import == after.opset_import


def test_functions_come_along(tmp_path: Path) -> None:
    """Integers that are computed are no boundary, so the call is inside the part."""
    body = """<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (int64[N,3] x) => (int64[N,3] y)
        { a = own.twice (x)  y = %s (a, x) }
        <domain: "own", opset_import: ["" : 15]> twice (i) => (o) { o = Add (i, i) }"""
    before, after = (onnx.parser.parse_model(body % operator) for operator in ("Add", "Sub"))
    saved((before, after), tmp_path / "part", depth="local")
    assert [function.name for function in onnx.load(tmp_path / "part" / "before.onnx").functions] == ["twice"]
    assert "not equal" in shown(tmp_path / "part")


def test_a_part_of_a_function_has_types(tmp_path: Path) -> None:
    body = """<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[N,3] x) => (float[N,3] y)
        { a = Relu (x)  b = own.twice (a)  y = Sigmoid (b) }
        <domain: "own", opset_import: ["" : 15]> twice (i) => (o) { o = %s (i, i) }"""
    before, after = (onnx.parser.parse_model(body % operator) for operator in ("Add", "Mul"))
    saved((before, after), tmp_path / "part", depth="local")
    onnx.checker.check_model(onnx.load(tmp_path / "part" / "after.onnx"), full_check=True)
    assert "not equal" in shown(tmp_path / "part")


def test_a_verified_value_is_saved_if_it_is_asked_for(tmp_path: Path) -> None:
    found = saved(folded(), tmp_path / "part", cuts=CUTS, explain="c")
    assert found.verified
    assert text(found).endswith("before.onnx, after.onnx, inputs.npz, README.txt")
    again = verify(*(tmp_path / "part" / f"{side}.onnx" for side in ("before", "after")), runtime="none")
    assert again.verified


@pytest.mark.parametrize("value", ["", "r"])
def test_where_nothing_was_compared_nothing_is_written(value: str, tmp_path: Path) -> None:
    found = saved(folded(), tmp_path / "part", cuts=CUTS, explain=value)
    assert text(found).splitlines()[-1].startswith("nothing is saved: ")
    assert list(tmp_path.iterdir()) == []


def test_whole_models_are_copied_if_they_are_small(tmp_path: Path) -> None:
    found = saved(folded(1.5), tmp_path / "part", tolerance=1e-4)
    assert "saved the whole models in " in text(found)
    assert "not equal" in shown(tmp_path / "part")
    assert "--tolerance 0.0001" in (tmp_path / "part" / "README.txt").read_text(encoding="utf-8")


def test_large_models_are_named_and_their_inputs_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.verification.saving._LARGEST", 10)
    files = [tmp_path / f"{side}.onnx" for side in ("one", "other")]
    for proto, path in zip(folded(1.5), files, strict=True):
        onnx.save(proto, path)
    verify(*files, runtime="none", save=tmp_path / "part", tolerance=1e-4)
    assert sorted(path.name for path in (tmp_path / "part").iterdir()) == ["README.txt", "inputs.npz"]
    told = (tmp_path / "part" / "README.txt").read_text(encoding="utf-8")
    assert all(str(path) in told for path in files)


def test_an_open_part_that_was_not_run_gets_inputs_that_fit(tmp_path: Path) -> None:
    body = "(float[N,3] x) => (float[N,3] y) { y = com.microsoft.Nobody <a = %d> (x) }"
    saved((model(body % 1, {}), model(body % 2, {})), tmp_path / "part")
    assert np.load(tmp_path / "part" / "inputs.npz")["x"].shape[1:] == (3,)


def test_a_part_whose_types_are_unknown_is_not_written(tmp_path: Path) -> None:
    body = "(float[N,3] x) => (float[N,3] y) { q = com.microsoft.Nobody (x)  y = com.microsoft.Nobody <a = %d> (q) }"
    found = saved((model(body % 1, {}), model(body % 2, {})), tmp_path / "part")
    assert text(found).endswith("nothing is saved: the type of 'q' is not known; declare it in the model (value_info)")
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_result_is_replaced_and_other_files_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "part"
    folder.mkdir()
    for _ in range(2):
        saved(FAULTS["mul"], folder)
    (folder / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(BadSetting, match=r"save: .*part has other files \(mine.txt\); name a new folder"):
        saved(FAULTS["mul"], folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "mine.txt"])


def test_a_folder_that_cannot_be_used_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder, problem in ((tmp_path / "file", "is a file"), (tmp_path / "no" / "part", "there is no folder")):
        with pytest.raises(BadSetting, match=problem):
            saved(FAULTS["mul"], folder)


def test_the_models_are_not_overwritten_by_their_parts(tmp_path: Path) -> None:
    saved(FAULTS["mul"], tmp_path / "part")
    files = [tmp_path / "part" / f"{side}.onnx" for side in ("before", "after")]
    with pytest.raises(BadSetting, match="has the models that are compared"):
        verify(*files, runtime="none", save=tmp_path / "part")


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bnfold.verification.saving._write_arrays", full)
    with pytest.raises(OutputError, match="part: cannot be written: No space left on device"):
        saved(FAULTS["mul"], tmp_path / "part")
    assert list(tmp_path.iterdir()) == []


MEASURED = of(
    """(float[N,3,8,8] x) => (float[N,3,8,8] y)
    { u = Relu (x)  t = Conv (x, W)  s = Shape (t)  v = Mul (u, k)  y = Reshape (v, s) }""",
    W=single(np.ones((3, 3, 1, 1))),
)


def test_the_boundary_is_that_of_the_comparison(tmp_path: Path) -> None:
    """What a part only measures is fed as well; a rewrite does not name it."""
    cuts = [ir.Cut("", ("u",), ("y",), "fold v")]
    found = saved((MEASURED(k=single(2)), MEASURED(k=single(3))), tmp_path / "part", depth="local", cuts=cuts)
    row = found.local[0]
    assert sorted(row.boundary) == ["t", "u"]
    assert "from: 't', 'u'" in text(found)
    with np.load(tmp_path / "part" / "inputs.npz") as arrays:
        assert sorted(arrays) == ["t", "u"]
        assert {arrays[name].shape for name in arrays} == {row.experiments[0].shapes["t"]}
    assert "not equal" in shown(tmp_path / "part")
    files = [tmp_path / "part" / f"{side}.onnx" for side in ("before", "after")]
    assert verify(*files, data=tmp_path / "part" / "inputs.npz", runtime="none").status == "failed"


@pytest.mark.parametrize("between", ["Sqrt", "Identity", "Neg"])
def test_a_pole_behind_a_part_is_what_shows_the_fault(between: str, tmp_path: Path) -> None:
    body = "(float[N,4] x) => (float[N,4] y) {{ {} q = {} ({})  y = Reciprocal (q) }}"
    before = model(body.format("s = Add (x, zero)", between, "s"), {"zero": np.array(0.0)})
    after = model(body.format("", between, "x"), {})
    found = saved((before, after), tmp_path / "part", depth="local")
    assert (found.status, found.code) == ("failed", "other-zero")
    assert found.localised is not None
    assert found.localised.tensor == "y"
    assert found.reason == f"{between} q: value 'y': differs at a zero of the other sign: where -0.0 is fed"
    assert "not equal" in shown(tmp_path / "part")
    asked = verify(ir.load(before), ir.load(after), depth="local", runtime="none", explain="q")
    assert "q: a value inside a part that was compared" in text(asked)


def test_zeros_that_decide_are_saved(tmp_path: Path) -> None:
    body = "(float[N,4] x) => (float[N,4] y) {{ {} y = Reciprocal ({}) }}"
    pair = model(body.format("s = Add (x, zero)", "s"), {"zero": np.array(0.0)}), model(body.format("", "x"), {})
    found = saved(pair, tmp_path / "whole", depth="full", explain="y")
    assert (found.status, found.code) == ("failed", "other-zero")
    assert "not equal" in shown(tmp_path / "whole")
