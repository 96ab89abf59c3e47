"""The commands over .xml files: exit codes, streams and reports as for ONNX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

import bnfold
from bnfold.cli.commands import main
from bnfold.interop.openvino.document import read_document
from tests.interop.openvino.text import Text, convolution_and_norm

SCHEMA = Path(bnfold.__file__).with_name("report") / "report.schema.json"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def stuck(folder: Path) -> Path:
    """A BatchNormInference of version 0 between two operators that nothing goes through."""
    text = Text()
    made = text.layer("Sigmoid", (text.parameter((2, 3, 4)),), (2, 3, 4))
    text.result(text.layer("Sigmoid", (text.norm(made, opset="opset1", epsilon=0.01),), (2, 3, 4)))
    return text.save(folder / "stuck.xml")


def schema_error(document: dict[str, Any]) -> str:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return "; ".join(error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document))


def test_inspect_says_what_would_happen_and_writes_nothing(tmp_path: Path) -> None:
    path = stuck(tmp_path)
    done = call("inspect", path)
    assert done.exit_code == 0
    assert "no-handler" in done.stdout
    assert "BatchNormalization 1 → 1" in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["stuck.bin", "stuck.xml"]


def test_inspect_json(tmp_path: Path) -> None:
    done = call("inspect", convolution_and_norm().save(tmp_path / "m.xml"), "--json")
    document = json.loads(done.stdout)
    assert schema_error(document) == ""
    (row,) = document["batchnorms"]
    assert (row["version"], row["verdict"], row["into"], row["operators"]) == (5, "folded", ["conv"], ["Convolution"])
    assert row["parameters"]["epsilon"] == pytest.approx(0.001)
    assert document["ir_version"] == {"before": 11, "after": 11}
    assert document["opset"] == {"before": 5, "after": 1}


def test_the_report_of_a_run(tmp_path: Path) -> None:
    path = stuck(tmp_path)
    done = call("fold", path, tmp_path / "out.xml", "--no-verify", "--report", tmp_path / "r.json")
    assert done.exit_code == 0
    assert "not verified: --no-verify was given" in done.stderr
    document = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert schema_error(document) == ""
    assert document["batchnorms"][0]["reason"]["code"] == "no-handler"
    assert document["output"]["path"].endswith("out.xml")


@pytest.mark.parametrize("name", ["BatchNormInference", "BatchNormalization"])
def test_assert_none(tmp_path: Path, name: str) -> None:
    arguments = ("fold", stuck(tmp_path), tmp_path / "out.xml", "--no-verify", "--assert-none", name)
    done = call(*arguments)
    assert done.exit_code == 4
    assert "bn" in done.stderr
    assert call(*arguments, "--decompose", "remaining").exit_code == 0
    assert "BatchNormInference" not in (tmp_path / "out.xml").read_text(encoding="utf-8")


def test_assert_none_knows_operators_that_onnx_lacks(tmp_path: Path) -> None:
    done = call("fold", stuck(tmp_path), tmp_path / "out.xml", "--no-verify", "--assert-none", "Sigmoid")
    assert done.exit_code == 4
    assert "2 Sigmoids remain, and --assert-none forbids them" in done.stderr


@pytest.mark.parametrize("name", ["Convolution", "Conv"])
def test_operators_by_either_name(tmp_path: Path, name: str) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    document = json.loads(call("inspect", path, "--json", "--except", name).stdout)
    assert document["batchnorms"][0]["reason"]["code"] == "excluded"


def test_the_old_spelling_means_optimize(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    assert call(path, tmp_path / "out.xml", "--no-verify").exit_code == 0
    assert all(layer.type != "BatchNormInference" for layer in read_document(tmp_path / "out.xml").net.layers.values())


REFUSED = [
    (("optimize", "m.xml", "m.xml"), 2, "--in-place"),
    (("optimize", "m.xml", "m.XML"), 2, "the data file of the output would overwrite the input's data"),
    (("optimize", "m.xml", "out.xml", "--keep-failed", "m.bin"), 2, "m.bin: bnfold does not convert"),
    (("optimize", "m.xml", "out.xml", "--keep-failed", "m.xml"), 2, "a failed result would overwrite the input"),
    (("optimize", "m.xml", "-"), 2, "two files"),
    (("optimize", "m.xml", "out.onnx"), 2, "does not convert"),
    (("optimize", "m.xml", "out.xml", "--target-opset", "15"), 2, "leave out --target-opset"),
    (("optimize", "m.xml", "out.xml", "--legacy-mode", "error"), 2, "are about ONNX"),
    (("optimize", "m.xml", "out.xml", "--external-data", "none"), 2, "in its .bin"),
    (("optimize", "m.xml", "out.xml", "--assert-none", "BatchNormInferense"), 2, "did you mean BatchNormInference"),
    (("optimize", "missing.xml", "out.xml"), 1, "cannot be read"),
    (("verify", "m.xml", "m.onnx"), 2, "cannot be compared"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED)
def test_mistakes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    convolution_and_norm().save(tmp_path / "m.xml")
    done = call(*arguments)
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.bin", "m.xml"]


def test_in_place(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    done = call("optimize", path, path, "--in-place", "--no-verify", "--json")
    assert done.exit_code == 0
    assert "BatchNormInference" not in path.read_text(encoding="utf-8")
    assert json.loads(done.stdout)["batchnorms"][0]["affine"]  # of the model that was there before


def test_a_pattern_of_several(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        convolution_and_norm().save(tmp_path / "in" / f"{name}.xml")
    for _ in range(2):  # nothing is remembered: the constants may change while the .xml stays
        done = call("optimize", tmp_path / "in" / "*.xml", tmp_path / "out", "--no-verify", "--jobs", 1)
        assert done.exit_code == 0, done.output
        assert "2 unchecked" in done.stderr
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a.bin", "a.xml", "b.bin", "b.xml"]
    arguments = (tmp_path / "in" / "*.xml", tmp_path / "out", "--no-verify", "--jobs", 1, "--except", "Convolution")
    done = call("fold", *arguments, "--assert-none", "BatchNormInference")
    assert done.exit_code == 4, done.output
