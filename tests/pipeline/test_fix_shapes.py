"""Open sizes of inputs that are fixed in the result: what follows from them is written, and verified at them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import onnxruntime as ort
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.cli.commands import main
from bnfold.errors import BadInput, BadSetting
from bnfold.settings import VerifyOptions
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult
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
    command = ["optimize", str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx"), "--fix-shapes", "N=1"]
    result = CliRunner().invoke(main, [*command, "--simplify", "onnxruntime"])
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


def written_model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(model("float[N,C,H,W] x, float[N,5] z"), path)
    return path


COMMANDS = [
    ["optimize", "m.onnx", "o.onnx"],
    ["optimize", "m.onnx", "o.onnx", "--dry-run"],
    ["optimize", "m.onnx", "o.onnx", "--no-verify"],
    ["optimize", "m.onnx", "o.onnx", "--runtime", "none"],
    ["optimize", "m.onnx", "o.onnx", "--no-verify", "--runtime", "none"],
    ["optimize", "m.onnx", "o.onnx", "--decompose", "all"],
    ["fold", "m.onnx", "o.onnx"],
    ["upgrade", "m.onnx", "o.onnx"],
    ["convert", "m.onnx", "o.onnx", "--opset", "17"],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_sizes_at_which_the_model_cannot_run_are_refused(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [*command, "--fix-shapes", "x=1,1,8,8"])
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("bnfold: m.onnx: the model cannot run at --fix-shapes x=1,1,8,8: node 'c' (Conv) gets x")
    assert line.endswith("it runs at --fix-shapes x=1,3,8,8")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    result = CliRunner().invoke(main, [*command, "--fix-shapes", "x=1,3,8,8"])
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("rewrite", [bnfold.optimize, bnfold.fold, bnfold.upgrade])
def test_the_functions_refuse_them_as_well(rewrite: Any) -> None:
    with pytest.raises(BadInput, match="the model cannot run at fix_shapes="):
        rewrite(model("float[N,C,H,W] x, float[N,5] z"), fix_shapes={"x": (1, 4, 8, 8)})


def test_passes_refuse_them_as_well() -> None:
    from bnfold.passes import ConvertOpsetPass

    source = onnx_ir.from_proto(model("float[N,C,H,W] x, float[N,5] z"))
    convert = ConvertOpsetPass("keep", options=bnfold.Options(fix_shapes={"x": (1, 4, 8, 8)}))
    with pytest.raises((BadInput, onnx_ir.passes.PassError), match=r"cannot run at|ConvertOpsetPass"):
        convert(source)


def test_of_a_folder_only_models_that_cannot_run_are_refused(tmp_path: Path) -> None:
    (source := tmp_path / "in").mkdir()
    onnx.save(model("float[N,C,H,W] x, float[N,5] z"), source / "conv.onnx")
    head = '<ir_version: 8, opset_import: ["": 15]>'
    onnx.save(
        onnx.parser.parse_model(f"{head} g (float[N,C,H,W] x) => (float y) {{ y = Relu (x) }}"), source / "r.onnx"
    )
    result = CliRunner().invoke(main, ["optimize", str(source), str(tmp_path / "out"), "--fix-shapes", "x=1,1,8,8"])
    assert result.exit_code == 1
    assert [path.name for path in (tmp_path / "out").glob("*.onnx")] == ["r.onnx"]


def test_what_could_not_be_tried_is_noted() -> None:
    head = '<ir_version: 8, opset_import: ["": 15, "me": 1]>'
    text = f"{head} g (float[N,4] x) => (float[N,4] y) {{ a = me.Mine (x) y = Relu (a) }}"
    outcome = bnfold.optimize(onnx.parser.parse_model(text), fix_shapes={"N": (3,)})
    assert any("not wholly tried at the fixed sizes" in note for note in outcome.report.notes)


def large_convolutions() -> onnx.ModelProto:
    """Two of 16 channels: with a large image they are run in a runtime as a whole, usually with a smaller one."""
    head = '<ir_version: 8, opset_import: ["": 15]>'
    body = "c = Conv (x, w) n = BatchNormalization (c, s, s, s, s) y = Conv (n, v)"
    source = onnx.parser.parse_model(f"{head} g (float[N,3,H,W] x) => (float[N,16,K,L] y) {{ {body} }}")
    rng = np.random.default_rng(0)
    for name, shape in {"w": (16, 3, 3, 3), "v": (16, 16, 3, 3), "s": (16,)}.items():
        array = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        source.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return source


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_whole_models_are_run_at_these_sizes_alone(depth: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[int, ...]] = set()
    plain = RuntimeProcess.run

    def run(self: RuntimeProcess, source: Any, samples: Any, *rest: Any) -> Any:
        seen.update(sample["x"].shape for sample in samples)
        return plain(self, source, samples, *rest)

    monkeypatch.setattr(RuntimeProcess, "run", run)
    checks = VerifyOptions(depth=depth)
    outcome = bnfold.optimize(large_convolutions(), fix_shapes={"x": (1, 3, 300, 260)}, verify=checks)
    assert outcome.verified
    assert seen == {(1, 3, 300, 260)}


def test_a_runtime_that_refuses_what_the_evaluator_takes_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification does not need it, if the models are small or nothing has changed."""
    plain = RuntimeProcess.run

    def run(self: RuntimeProcess, source: Any, samples: Any, *rest: Any) -> Any:
        if any(sample["x"].shape == (1, 3, 5, 5) for sample in samples):
            return RuntimeResult("onnxruntime", error="InvalidArgument: five is too few")
        return plain(self, source, samples, *rest)

    monkeypatch.setattr(RuntimeProcess, "run", run)
    with pytest.raises(BadInput, match=r"onnxruntime says InvalidArgument: five is too few; it runs at"):
        bnfold.optimize(model(), fix_shapes={"x": (1, 3, 5, 5)})
    assert bnfold.optimize(model(), fix_shapes={"x": (1, 3, 6, 5)}).verified


def test_other_sizes_for_verification_contradict_them(tmp_path: Path) -> None:
    def optimize(batch: int, **checks: Any) -> bnfold.Outcome:
        return bnfold.optimize(model(), fix_shapes={"x": (batch, 3, 8, 8)}, verify=VerifyOptions(**checks))

    with pytest.raises(BadSetting, match="inputs: input 'x' has the shape 2,3,8,8, and is fixed at 1,3,8,8"):
        optimize(1, inputs={"x": (2, 3, 8, 8)})
    assert optimize(1, inputs={"x": (1, 3, 8, 8)}).verified
    np.savez(tmp_path / "feeds.npz", x=np.ones((2, 3, 8, 8), np.float32), z=np.ones((2, 5), np.float32))
    with pytest.raises(BadSetting, match="data: input 'x' has the shape 2,3,8,8, and is fixed at 1,3,8,8"):
        optimize(1, data=tmp_path / "feeds.npz")
    assert optimize(2, data=tmp_path / "feeds.npz").verified


def test_an_input_of_unknown_rank_is_no_reason_to_refuse() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]> g (float[n, 3] x, float[k] z) => (float[n, 3] y, float[k] w) {
        y = Relu (x) w = Squeeze (z, axes) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axes"))
    proto.graph.input[1].type.tensor_type.ClearField("shape")
    outcome = bnfold.optimize(proto, fix_shapes={"x": (2, 3)}, verify=bnfold.VerifyOptions(depth="none"))
    assert any("rank of input 'z' is unknown" in note for note in outcome.report.notes)
