"""`bnfold inspect --as-is`: the file as it is, with what a run would remove."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold import ir
from bnfold.cli.commands import main
from bnfold.pipeline.passes import rewrite
from bnfold.settings import ONE_JOB, Options
from tests.conftest import MODELS

BODY = """<ir_version: 3, opset_import: ["": 8]> g (float[1,2,4,4] x, float[2] s) => (float[1,2,4,4] y) <float[2] s={1,2}> {
    d = Exp (x) i = Identity (x) n = BatchNormalization (i, s, s, s, s) k = Constant <value = float[1] {1}> () y = Add (n, k) }"""  # noqa: E501


@pytest.fixture
def old(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(BODY), tmp_path / "old.onnx")
    return tmp_path / "old.onnx"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["inspect", *map(str, words), "--as-is"])


def test_the_file_is_shown_with_dead_nodes_constants_and_listed_weights(old: Path) -> None:
    result = run(old)
    assert result.exit_code == 0
    assert result.stderr == ""
    shown = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert shown[:6] == [
        *("opset ai.onnx 8", "IR version 3", "input x: float[1, 2, 4, 4]", "and 1 weight that callers may feed"),
        *("output y: float[1, 2, 4, 4]", "weights 12 bytes"),
    ]
    assert shown[6:12] == [
        "nodes 5",
        *(f"{op} 1" for op in ("Add", "BatchNormalization", "Constant", "Exp", "Identity")),
    ]
    assert shown[-1] == "n 7 inference 1 to 1.41 -0.828 to 5e-06"
    assert "becomes" not in result.stdout
    assert "→" not in result.stdout


@pytest.mark.parametrize("path", ["bn1.onnx", "resnet_opset6.onnx", "in_function.onnx", "bn15_training.onnx"])
def test_the_report_says_that_nothing_changed(path: str) -> None:
    document = json.loads(run(MODELS / path, "--json").stdout)
    for key in ("opset", "ir_version", "operators", "weights"):
        assert document[key]["before"] == document[key]["after"], key
    assert document["repairs"] == document["notes"] == document["rewrites"] == []


def test_what_is_forbidden_is_found_all_the_same(old: Path) -> None:
    assert run(old, "--assert-none", "Identity").exit_code == 4
    assert run(old, "--assert-none", "Conv").exit_code == 0


def test_a_name_that_a_terminal_would_obey_is_escaped(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(BODY)
    proto.graph.input[0].name = "\x1b[31mx"
    onnx.save(proto, tmp_path / "bad.onnx")
    assert "\x1b" not in run(tmp_path / "bad.onnx").stdout


def test_nothing_is_changed_if_nothing_is_asked_for(old: Path) -> None:
    kept: dict[str, Any] = {**dict.fromkeys(("target_opset", "ir_version", "overridable"), "keep"), **ONE_JOB}
    model = ir.load(old)
    rewrite(model, Options(fold=False, **kept))
    assert ir.encode(model) == ir.encode(ir.load(old))
    more: list[dict[str, Any]] = [{"fold": True}, {"ir_version": "auto"}, {"decompose": "all"}, {"constants": "lift"}]
    assert not any(Options(**{"fold": False, **kept, **asked}).changes_nothing for asked in more)
