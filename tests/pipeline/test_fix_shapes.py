"""Open sizes of inputs that are fixed in the result: what follows from them is written, and verified at them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.cli.commands import main
from bnfold.errors import BadSetting
from tests.conftest import MODELS

VECTORS = ", ".join(f"float[4] {name} = {{1, 2, 3, 4}}" for name in "sbmv")
WEIGHT = f"float[4,3,3,3] w = {{{', '.join(str(0.1 * (value % 7)) for value in range(108))}}}"
BODY = "c = Conv <pads = [1, 1, 1, 1]> (x, w) n = BatchNormalization (c, s, b, m, v) y = Flatten (n) q = Relu (z)"
Shapes = Mapping[str, tuple[int, ...]]


INPUTS = "float[N,3,H,W] x, float[N,5] z"


def model(inputs: str = INPUTS, outputs: str = "float[N,K] y, float[N,5] q") -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["": 15]>'
    return onnx.parser.parse_model(f"{head} g ({inputs}) => ({outputs}) <{WEIGHT}, {VECTORS}> {{ {BODY} }}")


def shapes(infos: Any) -> dict[str, list[int | str]]:
    return {info.name: [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in infos}


def test_what_follows_from_a_shape_is_written() -> None:
    outcome = bnfold.optimize(model(), fix_shapes={"x": (2, 3, 8, 9)})
    assert outcome.verified
    graph = outcome.to_proto().graph
    assert shapes(graph.input) == {"x": [2, 3, 8, 9], "z": [2, 5]}, "N is one size, whoever has it"
    assert shapes(graph.output) == {"y": [2, 288], "q": [2, 5]}
    assert [2, 4, 8, 9] in shapes(graph.value_info).values()
    assert outcome.report.fixed == {"x": ("N,3,H,W", "2,3,8,9"), "z": ("N,5", "2,5")}
    assert outcome.to_json()["fixed"]["z"] == {"before": "N,5", "after": "2,5"}


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.glob("*.onnx")))
def test_results_run_and_are_the_same(name: str, tmp_path: Path) -> None:
    before, after = MODELS / name, tmp_path / "fixed.onnx"
    info = onnx.load(before, load_external_data=False).graph.input[0]
    sizes = [dim.dim_value or 2 for dim in info.type.tensor_type.shape.dim]
    outcome = bnfold.optimize(before, fix_shapes={info.name: sizes})
    outcome.save(after)
    made = onnx.load(after)
    onnx.checker.check_model(made, full_check=True)
    assert shapes(made.graph.input)[info.name] == sizes
    assert outcome.verified
    kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    feeds = {info.name: np.random.default_rng(1).normal(size=sizes).astype(kind)}
    results = []
    for path in (after, after if name.startswith(("bn1", "bn6", "bn7", "in1", "resnet")) else before):
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        results.append(session.run(None, feeds))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-2 if kind == np.float16 else 1e-4, atol=1e-2)


def test_a_size_that_has_a_name_is_given_by_it() -> None:
    outcome = bnfold.fold(model(), fix_shapes={"N": (1,)})
    assert shapes(outcome.to_proto().graph.input) == {"x": [1, 3, "H", "W"], "z": [1, 5]}
    assert outcome.report.notes == ["outputs that still have an open size: y (1,K)"]
    assert outcome.verified


def test_an_input_without_a_rank_gets_one() -> None:
    source = model("float[A,B,C,D] x, float[5,5] z", "float[K,L] y, float[5,5] q")
    source.graph.input[0].type.tensor_type.ClearField("shape")
    outcome = bnfold.upgrade(source, fix_shapes={"x": (1, 3, 4, 4)})
    assert outcome.report.fixed == {"x": ("of any rank", "1,3,4,4")}
    assert shapes(outcome.to_proto().graph.output)["y"] == [1, 64]
    assert outcome.verified


def test_an_output_that_depends_on_values_stays_open() -> None:
    head = '<ir_version: 8, opset_import: ["": 15]>'
    text = f"{head} g (float[N,4] x) => (int64[2,M] y, float[N,4] r) {{ y = NonZero (x) r = Relu (x) }}"
    outcome = bnfold.optimize(onnx.parser.parse_model(text), fix_shapes={"x": (3, 4)})
    assert shapes(outcome.to_proto().graph.output) == {"y": [2, "M"], "r": [3, 4]}
    assert outcome.verified


def test_other_tools_go_on_at_these_sizes(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    command = ["optimize", str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx"), "--fix-shapes", "N=1", "--simplify"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    assert "rolled back" not in result.stderr
    assert shapes(onnx.load(tmp_path / "o.onnx").graph.input)["z"] == [1, 5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": (1, 3)}, r"no input 'y'; its inputs are x \(N,3,H,W\), z \(N,5\), its open sizes H, N, W"),
        ({"x": (1, 3)}, r"input 'x' has 4 sizes \(N,3,H,W\), not 2"),
        ({"x": (1, 4, 5, 5)}, r"input 'x' cannot have the shape 1,4,5,5: the file fixes N,3,H,W"),
        ({"x": (1, 3, 5, 5), "z": (2, 5)}, r"input 'z' cannot have the shape 2,5: N is 1"),
        ({"N": (1, 2)}, "no input 'N'"),
        ({"w": (1, 2)}, "no input 'w'"),
        ({"x": (0, 3, 5, 5)}, "0 is not in the range"),
    ],
)
def test_what_does_not_fit_is_said(given: Shapes, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        bnfold.optimize(model(), fix_shapes=given)


def test_a_sequence_has_no_shape() -> None:
    text = '<ir_version: 8, opset_import: ["": 15]> g (seq(float[N]) x) => (int64 y) { y = SequenceLength (x) }'
    with pytest.raises(BadSetting, match="input 'x' is no tensor"):
        bnfold.optimize(onnx.parser.parse_model(text), fix_shapes={"x": (1,)})


def test_a_file_that_fixes_sizes_already_is_left_alone() -> None:
    outcome = bnfold.optimize(MODELS / "dense.onnx", fix_shapes={"x": (1, 3, 22, 18)})
    again = bnfold.optimize(outcome.to_proto(), fix_shapes={"x": (1, 3, 22, 18)})
    assert not again.report.fixed
    assert again.to_proto().graph == outcome.to_proto().graph


def test_only_the_size_that_was_asked_for_is_promised(tmp_path: Path) -> None:
    """Callers who compare the two themselves are told that less can be fed."""
    onnx.save(model(), tmp_path / "m.onnx")
    bnfold.optimize(tmp_path / "m.onnx", fix_shapes={"x": (1, 3, 5, 5)}).save(tmp_path / "o.onnx")
    verdict = bnfold.verify(tmp_path / "m.onnx", tmp_path / "o.onnx")
    assert verdict.status == "failed"
    assert "takes only [1, 3, 5, 5]" in verdict.reason


@pytest.mark.parametrize("form", ["x=1,3,6,6", "x:1,3,6,6", "x:1x3x6x6"])
def test_the_command_line_reads_and_shows_it(form: str, tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    given = ["--fix-shapes", form]
    result = CliRunner().invoke(main, ["optimize", str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx"), *given])
    assert result.exit_code == 0
    assert "input x                 N,3,H,W    1,3,6,6" in result.stderr
    result = CliRunner().invoke(
        main, ["fold", str(tmp_path / "m.onnx"), str(tmp_path / "p.onnx"), "--fix-shapes", "u=1"]
    )
    assert result.exit_code == 2
    assert "--fix-shapes: the model has no input 'u'" in result.stderr
    assert not (tmp_path / "p.onnx").exists()
