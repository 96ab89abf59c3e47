"""The table of real networks: what it counts, and what it says of a tool that is wrong, crashes or does not end."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from _patterns import networks

from tests.conftest import MODELS

pytestmark = pytest.mark.large  # a script, which changes seldom


def save(path: Path, body: str) -> Path:
    """A model of one BatchNormalization behind a Conv, or of whatever the body says."""
    text = f"""<ir_version: 8, opset_import: ["" : 15]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)
        <float[2,2,1,1] w = {{1,2,3,4}}, float[2] s = {{2,3}}, float[2] b = {{1,2}}, float[2] v = {{1,2}}>
        {{ {body} }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


CONV_NORM = "c = Conv (x, w)  y = BatchNormalization (c, s, b, b, v)"


@pytest.mark.parametrize("tool", ["bnfold optimize", "onnxruntime basic", "onnxoptimizer"])
def test_what_is_left(tool: str, tmp_path: Path) -> None:
    pytest.importorskip({"onnxoptimizer": "onnxoptimizer"}.get(tool, "onnxruntime"))
    source = save(tmp_path / "model.onnx", CONV_NORM)
    found = networks.outcome(tool, source, tmp_path / "work", 120, 10)
    assert str(found) == ("0 of 11" if tool == "onnxoptimizer" else "0 of 1")  # it leaves what computes the weights


def test_a_tool_that_does_not_end(tmp_path: Path) -> None:
    source = save(tmp_path / "model.onnx", CONV_NORM)
    assert networks.outcome("bnfold optimize", source, tmp_path / "work", 0.01, 10) == (2, 1, "*too slow*", 0)


def test_a_tool_that_fails(tmp_path: Path) -> None:
    source = save(tmp_path / "model.onnx", CONV_NORM)
    model = onnx.load(source)
    model.opset_import[0].version = 999
    onnx.save(model, source)
    found = networks.outcome("bnfold optimize", source, tmp_path / "work", 120, 10)
    assert str(found) == "1 of 2 *crash*"


def test_wrong_numbers_and_operators_that_nobody_knows(tmp_path: Path) -> None:
    source = save(tmp_path / "a.onnx", CONV_NORM)
    assert networks._numbers(source, save(tmp_path / "b.onnx", CONV_NORM), 10) == ""
    assert networks._numbers(source, save(tmp_path / "c.onnx", CONV_NORM.replace("b, b", "b, s")), 10) == "**wrong**"
    plugin = save(tmp_path / "d.onnx", "c = Plugin (x)  y = BatchNormalization (c, s, b, b, v)")
    assert networks._numbers(plugin, save(tmp_path / "e.onnx", "c = Plugin (x)  y = Relu (c)"), 10) == "**wrong**"
    assert networks._numbers(plugin, save(tmp_path / "f.onnx", "y = Plugin (x)"), 10) == "?"


def test_sizes_that_were_open_and_are_not(tmp_path: Path) -> None:
    source, out = save(tmp_path / "a.onnx", CONV_NORM), save(tmp_path / "b.onnx", CONV_NORM)
    model = onnx.load(source)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, source)
    assert networks._numbers(source, out, 10) == "**fixed sizes**"
    assert networks._numbers(source, source, 10) == ""


def test_a_size_that_a_tool_stored_is_found_at_another_size(tmp_path: Path) -> None:
    """Both runs agree at batch 1."""
    pytest.importorskip("onnxruntime")
    source, out = save(tmp_path / "a.onnx", "y = Identity (x)"), save(tmp_path / "b.onnx", "y = Identity (x)")
    for path, body in (
        (source, "y = Identity (x)"),
        (out, "k = Constant <value_ints = [1, 4]> ()  y = Reshape (x, k)"),
    ):
        text = f"""<ir_version: 8, opset_import: ["" : 15]> g (float[N,4] x) => (float[M,4] y) {{ {body} }}"""
        onnx.save(onnx.parser.parse_model(text), path)
    assert networks._numbers(source, out, 10) == "**wrong**"


def test_the_best_right_simplifier_counts() -> None:
    """Slim is wrong on the first, and crashes on the second."""
    rows = {
        "before": [networks.Outcome(9, 1, "", 1), networks.Outcome(9, 1, "", 0)],
        "bnfold optimize": [networks.Outcome(6, 0, "", 0), networks.Outcome(7, 0, "", 0)],
        "onnxslim": [networks.Outcome(2, 0, "**wrong**", 0), networks.Outcome(9, 1, "*crash*", 0)],
        "onnxsim": [networks.Outcome(5, 1, "", 2), networks.Outcome(8, 0, "", 0)],
        "onnxruntime basic": [networks.Outcome(1, 0, "", 0), networks.Outcome(1, 0, "", 0)],
    }
    assert [*networks.beside(["a", "b"], rows)] == [
        "\nnodes without Constant: 13 by bnfold, 13 by the best of each network; at most 1.20 x",
        "bnfold leaves no more in 1 of 2; more in: a 6, 5 by onnxsim",
        "\nnodes with Constant: 13 by bnfold, 15 by the best of each network; at most 0.88 x",
        "bnfold leaves no more in 2 of 2; more in: none",
        "\nBatchNormalizations: 0 by bnfold, 1 by the best of each network; at most 0.00 x",
        "bnfold leaves no more in 2 of 2; more in: none",
    ]
    assert [*networks.beside(["a"], {"before": rows["before"]})] == []


def test_inputs_that_nobody_fed_before(tmp_path: Path) -> None:
    source, out = save(tmp_path / "a.onnx", CONV_NORM), save(tmp_path / "b.onnx", CONV_NORM)
    model = onnx.load(out)
    model.graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2, 2, 1, 1]))
    del model.graph.initializer[0]
    onnx.save(model, out)
    assert networks._numbers(source, out, 10) == "**new inputs**"


def test_norms_in_functions_and_subgraphs_count() -> None:
    found = {path.name: networks.left(path)[1] for path in MODELS.glob("*.onnx")}
    assert found["dense.onnx"] == 8
    assert sum(count > 0 for count in found.values()) > 5


def test_constants_count_only_if_asked(tmp_path: Path) -> None:
    source = save(tmp_path / "model.onnx", f"k = Constant <value = float {{2}}> ()  d = Mul (x, k)  {CONV_NORM}")
    assert networks.left(source) == (4, 1)
    assert networks.left(source, constants=False) == (3, 1)


def test_only_networks_with_constant_parameters_are_listed(tmp_path: Path) -> None:
    rows = ["path\tbn\tkind\tbn_params", "a\t3\tnet\tinit:12", "b\t0\tnet\t-", "c\t3\tfixture\tinit:12"]
    rows += ["d\t3\tnet-noweights\tcomputed:ConstantOfShape:12", "e\t3\tnet-noweights\tgraph-input:12"]
    (tmp_path / "INDEX.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert [path.name for path in networks.listed(tmp_path)] == ["a", "d"]
