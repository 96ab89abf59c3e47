"""`bnfold diff` and `bnfold verify --report` as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from jsonschema import validate

from bnfold.cli import differences
from bnfold.cli.commands import main
from tests.conftest import MODELS, ROOT
from tests.diffing.models import model, network, node, renamed
from tests.interop.openvino.text import convolution_and_norm


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    run("optimize", MODELS / "dense.onnx", tmp_path / "folded.onnx", "--no-verify")
    return tmp_path / "folded.onnx"


def test_equal_models_end_with_0(tmp_path: Path) -> None:
    onnx.save(renamed(network()), tmp_path / "again.onnx")
    result = run("diff", MODELS / "resnet_opset6.onnx", tmp_path / "again.onnx")
    assert result.exit_code == 0, result.stdout
    assert "32 nodes are the same; nothing differs but names and metadata\n" in result.stdout
    assert result.stdout.startswith("outputs are identical\n")
    assert result.stdout.endswith("values inside: 31 agree\n")


@pytest.mark.parametrize("width", [80, 100])
def test_others_end_with_1_and_fill_the_terminal(folded: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with monkeypatch.context() as terminal:
        terminal.setattr(differences, "_is_terminal", lambda: True)
        shown = run("diff", MODELS / "dense.onnx", folded)
    assert max(map(len, shown.stdout.splitlines())) == width
    result = run("diff", MODELS / "dense.onnx", folded)
    assert result.exit_code == 1
    assert "…" not in result.stdout  # a file or another program gets whole lines
    assert len(result.stdout.splitlines()) == len(shown.stdout.splitlines())
    assert "only in A: BatchNormalization" in result.stdout
    assert "by up to" in result.stdout
    assert "begins at" not in result.stdout
    verbose = run("diff", MODELS / "dense.onnx", folded, "--verbose", "--no-values").stdout
    assert "…" not in verbose
    assert "values inside:" not in verbose
    assert verbose.startswith("outputs were not compared: --values compares them")


def test_where_values_differ_as_rounding_does_it_says_so(tmp_path: Path) -> None:
    run("optimize", MODELS / "resnet_opset6.onnx", tmp_path / "out.onnx", "--no-verify")
    result = run("diff", MODELS / "resnet_opset6.onnx", tmp_path / "out.onnx", "--report", tmp_path / "page.html")
    assert re.match(r"outputs agree to \d\.\de-\d\d\n", result.stdout)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<p class="banner verified">outputs agree to ' in page


def faulty(source: Path, target: Path) -> None:
    """Write a model with one weight multiplied by 1.5."""
    proto = onnx.load(source)
    weight = [tensor for tensor in proto.graph.initializer if len(tensor.dims) == 4][2]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(1.5), weight.name))
    onnx.save(proto, target)


def test_a_fault_is_the_first_line_and_values_on_another_scale_are_counted_apart(tmp_path: Path, folded: Path) -> None:
    good = run("diff", MODELS / "dense.onnx", folded).stdout
    assert good.startswith("outputs agree to ")
    assert good.endswith("values inside: 20 agree, 5 on another scale, as after folding\n")
    faulty(folded, tmp_path / "bad.onnx")
    bad = run("diff", MODELS / "dense.onnx", tmp_path / "bad.onnx").stdout
    assert re.match(r"outputs differ by 0\.\d+, first at \w+ \S+\n", bad)
    assert "  begins at " in bad


def test_weights_that_are_inputs_are_compared(tmp_path: Path) -> None:
    proto = onnx.load(MODELS / "resnet_opset6.onnx")
    assert len(proto.graph.input) > len(proto.graph.initializer)
    faulty(MODELS / "resnet_opset6.onnx", tmp_path / "bad.onnx")
    result = run("diff", MODELS / "resnet_opset6.onnx", tmp_path / "bad.onnx")
    assert result.exit_code == 1
    assert result.stdout.startswith("outputs differ by ")
    assert "31 nodes are the same, 1 difference" in result.stdout


def test_the_page_of_verify_has_the_verdict_as_its_headline(tmp_path: Path, folded: Path) -> None:
    for other, status in ((folded, "verified"), (tmp_path / "bad.onnx", "failed")):
        faulty(folded, tmp_path / "bad.onnx")
        run("verify", MODELS / "dense.onnx", other, "--report", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        first = page[page.index('<p class="banner ') :]
        assert first.startswith(f'<p class="banner {status}">{status if status == "verified" else "FAILED"}: ')


@pytest.mark.parametrize("other", ["nowhere.onnx", "text.onnx", "model.xml"])
def test_what_cannot_be_read_ends_with_2(other: str, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello", encoding="utf-8")
    for models in ((MODELS / "bn9.onnx", tmp_path / other), (tmp_path / other, MODELS / "bn9.onnx")):
        result = run("diff", *models)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
    assert run("diff", MODELS / "bn9.onnx").exit_code == 2


def test_reports(folded: Path, tmp_path: Path) -> None:
    printed = json.loads(run("diff", MODELS / "dense.onnx", folded, "--json").stdout)
    assert not printed["equal"]
    assert all(each["drawing"] is None for each in printed["differences"])
    for suffix in ("json", "html"):
        assert run("diff", MODELS / "dense.onnx", folded, "--report", tmp_path / f"diff.{suffix}").exit_code == 1
        assert run("verify", MODELS / "dense.onnx", folded, "--report", tmp_path / f"v.{suffix}").exit_code == 0
    assert all(each["drawing"] for each in json.loads((tmp_path / "diff.json").read_text())["differences"])
    assert json.loads((tmp_path / "v.json").read_text())["verify"]["status"] == "verified"
    page = (tmp_path / "v.html").read_text(encoding="utf-8")
    assert "Does it compute the same?" in page
    assert '<p class="brand">bnfold verify</p>' in page
    assert '<p class="brand">bnfold diff</p>' in (tmp_path / "diff.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("tolerance", "status"), [(0.5, "verified"), (0.01, "failed"), (None, "failed")])
def test_a_page_has_one_number_for_an_output(tolerance: float | None, status: str, tmp_path: Path) -> None:
    """Values inside are compared on other inputs, so that nothing is said of outputs there."""
    text = (
        '<ir_version: 8, opset_import: ["": 15]> g (float[2,8] x) => (float[2,8] y) <float w = {W}> { y = Mul (x, w) }'
    )
    for name, weight in (("a", "2.5"), ("b", "2.6")):
        onnx.save(onnx.parser.parse_model(text.replace("W", weight)), tmp_path / f"{name}.onnx")
    words = [] if tolerance is None else ["--tolerance", tolerance]
    pair = tmp_path / "a.onnx", tmp_path / "b.onnx"
    result = run("verify", *pair, *words, "--report", tmp_path / "v.html", "--report", tmp_path / "v.json")
    assert result.exit_code == (status == "failed")
    page = (tmp_path / "v.html").read_text(encoding="utf-8")
    document = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "bnfold/report/report.schema.json").read_text(encoding="utf-8"))
    validate(document["verify"], {**schema["$defs"]["verdict"], "$defs": schema["$defs"]})
    assert document["verify"]["tolerance"] == tolerance
    (row,) = document["verify"]["outputs"]
    assert (row["beyond"] > 0) == (status == "failed")
    assert "outputs differ by" not in page.lower()
    assert f'<p class="banner {status}">{status.upper() if status == "failed" else status}: output' in page
    assert ("y (failed)" in page) == (status == "failed")
    assert (document["values"] is None) == (tolerance is not None)
    if tolerance is not None:
        assert re.search(r"^y (agrees|differs) .* on average", result.stdout)
        assert "mean difference between the two" in page


def test_openvino_irs(tmp_path: Path) -> None:
    path = convolution_and_norm().save(tmp_path / "m.xml")
    run("optimize", path, tmp_path / "out.xml", "--no-verify")
    result = run("diff", path, tmp_path / "out.xml")
    assert result.exit_code == 1, result.stderr
    assert "0 nodes are the same, 1 difference:\n  only in A: BatchNormalization bn" in result.stdout
    assert run("diff", path, path).exit_code == 0


def test_a_report_overwrites_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.json").symlink_to(MODELS / "bn9.onnx")
    for command, code in (("diff", 2), ("verify", 2)):
        result = run(command, MODELS / "bn9.onnx", MODELS / "bn14.onnx", "--report", tmp_path / "model.json")
        assert result.exit_code == code
        assert "would overwrite" in result.stderr


def test_names_are_escaped(tmp_path: Path) -> None:
    nasty = "\x1b[31mred\u202e"
    onnx.save(model(node("Relu", "x", "a"), node("Neg", "a", "y")), tmp_path / "a.onnx")
    onnx.save(model(node("Relu", "x", nasty), node("Abs", nasty, "y")), tmp_path / "b.onnx")
    onnx.save(model(node("Relu", "x", "a"), node("Exp", "a", nasty), node("Neg", nasty, "y")), tmp_path / "c.onnx")
    for other in ("b", "c"):
        for options in ((), ("--verbose",)):
            shown = run("diff", tmp_path / "a.onnx", tmp_path / f"{other}.onnx", *options).stdout
            assert shown.replace("\n", "").isprintable()
    run("diff", tmp_path / "a.onnx", tmp_path / "c.onnx", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_equal_files_say_so_and_constants_are_counted_apart(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[2] x) => (float[2] y) {
        c = Constant <value = float[2] {1, 2}> ()  y = Add (x, c) }"""
    proto = onnx.parser.parse_model(text)
    onnx.save(proto, tmp_path / "a.onnx")
    same = run("diff", tmp_path / "a.onnx", tmp_path / "a.onnx").stdout
    assert "\nthe files are equal, byte for byte\n" in same
    proto.graph.node[0].output[0] = proto.graph.node[1].input[1] = "other"
    onnx.save(proto, tmp_path / "b.onnx")
    result = run("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--report", tmp_path / "r.html")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["nodes", "2", "2"] in rows
    assert ["of", "them", "constants", "1", "1"] in rows
    assert "1 node, constants aside, is the same; nothing differs but names and metadata\n" in result.stdout
    assert result.stderr.endswith(f"wrote the report {tmp_path / 'r.html'}\n")
