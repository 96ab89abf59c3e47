"""The script that counts what upgrades: finds models, survives what converters do, and tells apart what it saw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from _upgrade.judging import Converter, outcome, short
from _upgrade.models import conversions, entries, opset_of

from tests.conftest import ROOT

pytestmark = pytest.mark.large  # a script, which changes seldom


def save(path: Path, opset: int, body: str) -> Path:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2, 3] x) => (float[2, 3] y) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_models_below_the_target_are_found(tmp_path: Path) -> None:
    save(tmp_path / "old.onnx", 9, "y = Relu (x)")
    save(tmp_path / "new.onnx", 15, "y = Relu (x)")
    (tmp_path / "no_model.onnx").write_bytes(b"\xff")
    assert [entry.name for entry in entries(tmp_path, 15, str(tmp_path))] == ["old.onnx"]
    assert opset_of(tmp_path / "no_model.onnx") is None


def test_what_the_converter_tests_convert_upwards_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "tests" / "python"
    (folder / "version_converter").mkdir(parents=True)
    stored = tmp_path / "stored"
    stored.mkdir()
    old = save(tmp_path / "old.onnx", 9, "y = Relu (x)")
    (folder / "version_converter_test.py").write_text(
        "import onnx\nimport onnx.version_converter\n\n"
        f"def test_both_ways():\n    model = onnx.load({str(old)!r})\n"
        "    for target in (13, 7):\n        onnx.version_converter.convert_version(model, target)\n"
    )
    (folder / "version_converter" / "automatic_upgrade_test.py").write_text("def test_nothing():\n    pass\n")
    (found,) = conversions(tmp_path / "source", stored, "")
    assert (found.name, found.opset, found.target) == ("test_both_ways_1", 9, 13)
    assert onnx.load(found.path) == onnx.load(old)


@pytest.mark.parametrize(
    ("tool", "body", "verdict"),
    [
        ("bnfold", "y = PRelu (x, x)", "equal"),
        ("bnfold", "y = Tile (x, x, x)", "failed"),
        ("bnfold", "y = Plugin (x)", "equal"),
        ("onnx.version_converter", "y = Relu (x)", "equal"),
        ("onnxscript", "y = Relu (x)", "equal"),
    ],
)
def test_outcomes(tmp_path: Path, tool: str, body: str, verdict: str) -> None:
    source = save(tmp_path / "model.onnx", 1 if "Tile" in body else 9, body)
    converter = Converter(tool, timeout=120)
    try:
        assert outcome(converter, source, tmp_path / "out.onnx", 15, budget=60).verdict == verdict
    finally:
        converter.close()


def test_a_child_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    converter = Converter("bnfold", timeout=0)
    source = save(tmp_path / "model.onnx", 9, "y = Relu (x)")
    assert converter.convert(source, tmp_path / "out.onnx", 15) == "the process died, or took too long"
    converter.close()


def test_reasons_can_be_counted() -> None:
    assert short("\n/some/where/convert.cc:66: failed\nmore") == "convert.cc: failed"


def test_the_script_prints_a_table(tmp_path: Path) -> None:
    save(tmp_path / "model.onnx", 6, "y = Add (x, x)")
    out = tmp_path / "results.json"
    script = str(ROOT / "scripts" / "upgrade_table.py")
    options = ["--corpus", str(tmp_path), "--tool", "bnfold", "--only", str(tmp_path), "--json", str(out)]
    run = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "| bnfold | 1 | 0 | 0 | 0 | 0 |" in run.stdout
    assert json.loads(out.read_text()) == {"bnfold": {"model.onnx": {"verdict": "equal", "reason": "", "runs": True}}}
