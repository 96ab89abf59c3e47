"""Other optimisers between bnfold's passes: what they gain is kept, what they break is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.cli.commands import main
from bnfold.errors import BadInput, BadSetting, Unsupported
from bnfold.interop.pytorch.run import optimize as optimize_export
from bnfold.passes import FoldBatchNormPass
from bnfold.pipeline import external_tools
from bnfold.settings import Options, VerifyOptions
from bnfold.settings.rewriting import GONE_TOOLS
from tests.pipeline import programs

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.measures_children
AS_IS = Options(fold=False, target_opset="keep")
QUICK = VerifyOptions(depth="none")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.onnx"
    onnx.save(programs.model(), path)
    return path


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def outputs(model: Path | bytes, feeds: dict[str, Any]) -> list[Any]:
    """As the file computes them, nothing optimised."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    text = model if isinstance(model, bytes) else str(model)
    made: list[Any] = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    return made


def fake(monkeypatch: pytest.MonkeyPatch, **program: str) -> None:
    """Let tools be programs of the tests."""
    real = external_tools.simplifier
    steps = {name: external_tools.ExternalTool(name, ("--", *programs.command(text))) for name, text in program.items()}
    monkeypatch.setattr(external_tools, "simplifier", lambda name: steps.get(name) or real(name))


def test_what_folding_leaves_is_simplified_and_each_step_verified(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    outcome = bnfold.optimize(source, out, simplify=True)
    assert operators(onnx.load(out)) == ["Conv", "Relu", "Reshape", "Neg"]
    assert [(row.name, row.status) for row in outcome.steps] == [("bnfold", "verified"), ("onnxscript", "verified")]
    assert outcome.report.after.nodes == 4
    assert outcome.report.after.products == outcome.report.before.products
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    for before, after in zip(outputs(source, feeds), outputs(out, feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


def test_it_works_in_memory_and_without_verification() -> None:
    outcome = bnfold.optimize(programs.model(), simplify=["onnxruntime"], verify=QUICK)
    assert operators(outcome.to_proto()) == ["Conv", "Relu", "Reshape", "Neg"]
    assert [row.status for row in outcome.steps] == ["not verified", "not verified"]


def test_what_a_step_makes_foldable_is_folded_after_it(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.load(source)
    model.graph.node[1].input[0] = "largest"
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "s")
    scale.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(scale), "s"))
    model.graph.node.insert(1, helper.make_node("Max", ["c", "c"], ["largest"]))
    onnx.save(model, source)
    without = programs.HARMLESS.replace("\nonnx.save", "\ndel g.node[1]; g.node[1].input[0] = 'c'\nonnx.save")
    fake(monkeypatch, onnxscript=without)
    outcome = bnfold.optimize(source, simplify=True)
    assert [(row.name, row.status) for row in outcome.steps] == [
        ("bnfold", "verified"), ("onnxscript", "verified"), ("bnfold", "verified")
    ]  # fmt: skip
    assert [row.totals.batchnorms for row in outcome.steps if row.totals] == [1, 1, 0]
    (event,) = outcome.report.batchnorms
    assert (event.verdict, event.reason, event.operators) == ("folded", None, ("Conv",))


@pytest.mark.parametrize("fault", programs.FAULTS)
def test_a_step_that_fails_is_rolled_back_and_the_next_is_taken(
    fault: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnfold.settings.rewriting.find_spec", lambda _: True)
    fake(monkeypatch, onnxslim=programs.FAULTS[fault])
    out = tmp_path / "out.onnx"
    tools: Any = ("onnxslim",) if fault == "a hang" else ("onnxslim", "onnxruntime")
    options = Options(simplify=tools, step_seconds=2 if fault == "a hang" else 600)
    outcome = bnfold.optimize(source, out, options=options)
    _, broken, *others = outcome.steps
    assert broken.status == "rolled back"
    assert broken.reason.startswith(programs.REASONS[fault]), broken.reason
    assert any(note.startswith("onnxslim rolled back: ") for note in outcome.report.notes)
    assert {row.status for row in others} <= {"verified"}
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert bnfold.verify(source, out).verified
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx", "out.onnx"]


def test_a_simplifier_starts_ahead_of_its_files_and_ends_without_them(source: Path, tmp_path: Path) -> None:
    with external_tools.begun(external_tools.simplifier("onnxscript")) as step:
        made = step.run(ir.load(source), tmp_path, 600)
        assert operators(made.proto) == ["Conv", "Relu", "Reshape", "Neg"]
    with external_tools.begun(external_tools.simplifier("onnxscript")) as step:
        assert step.begun is not None
        assert step.begun.process.poll() is None
    assert step.begun.process.returncode is not None


def test_a_large_weight_that_is_reshaped_is_a_weight(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["w", "s"], ["r"]), helper.make_node("Mul", ["x", "r"], ["y"])]
    given, made = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 5000])] for name in "xy")
    weights = {"w": np.arange(5000, dtype=np.float32), "s": np.array([1, 5000])}
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", given, made, stored)
    before = ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert operators(external_tools.simplifier("onnxscript").run(before, tmp_path, 600).proto) == ["Mul"]


def test_weights_beyond_one_file_go_through_a_data_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnfold.settings.rewriting.find_spec", lambda _: True)
    monkeypatch.setattr(external_tools, "ONE_FILE", 100)
    model = onnx.load(source)
    onnx.save(model, source, save_as_external_data=True, location="in.onnx.data", size_threshold=0)
    outcome = bnfold.optimize(source, tmp_path / "out.onnx", simplify=["onnxslim", "onnxruntime"])
    assert [row.status for row in outcome.steps] == ["verified", "skipped", "verified"]
    assert "2 GB" in outcome.steps[1].reason
    with pytest.raises(Unsupported, match="name an output"):
        bnfold.optimize(source, simplify=True)


def test_batchnorms_that_a_step_removes_are_told_apart(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, onnxscript=programs.HARMLESS)
    kept = bnfold.optimize(source, options=Options(fold=False, simplify=("onnxscript",)))
    assert [event.verdict for event in kept.report.batchnorms] == ["kept"]
    gone = bnfold.optimize(source, options=Options(fold=False, simplify=("onnxruntime",)))
    assert [event.verdict for event in gone.report.batchnorms] == ["removed"]
    assert gone.report.left == gone.report.after.batchnorms == 0
    rows = gone.to_json()
    assert rows["batchnorms"][0]["verdict"] == "removed"
    assert [row["batchnorms"] for row in rows["steps"]] == [1, 0]


def test_the_report_fits_its_schema(source: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(bnfold.__file__).parent / "report" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(bnfold.optimize(source, simplify=["onnxruntime"]).to_json(), schema)


def test_the_command_line_takes_a_list_or_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, onnxscript=programs.HARMLESS)

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["optimize", str(source), str(tmp_path / "out.onnx"), *words])

    done = run("--simplify")
    assert done.exit_code == 0, done.stderr
    assert "original" in done.stderr
    assert run("--simplify", "nothing").exit_code == 2
    assert "--simplify" in run("--simplify", "nothing").stderr
    again = run("--simplify", "onnxscript,onnxscript", "--json", "-q")
    assert [row["name"] for row in json.loads(again.stdout)["steps"]] == ["bnfold", "onnxscript", "onnxscript"]


def test_folders_and_replacing_the_input(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, onnxscript=programs.HARMLESS)
    result = CliRunner().invoke(main, ["optimize", str(tmp_path), str(tmp_path / "out"), "--simplify", "--jobs", "1"])
    assert result.exit_code == 0, result.stderr
    assert operators(onnx.load(tmp_path / "out" / "in.onnx")) == ["Conv", "Relu", "Reshape", "Neg"]
    result = CliRunner().invoke(main, ["optimize", str(source), str(source), "--in-place", "--simplify"])
    assert result.exit_code == 0, result.stderr
    assert operators(onnx.load(source)) == ["Conv", "Relu", "Reshape", "Neg"]


def test_what_cannot_be_simplified_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="simplify=… is about ONNX"):
        bnfold.optimize(tmp_path / "model.xml", tmp_path / "out.xml", simplify=True)
    monkeypatch.setattr("bnfold.settings.rewriting.find_spec", lambda _: None)
    with pytest.raises(BadSetting, match="onnxslim is not installed"):
        Options(simplify=("onnxslim",))
    monkeypatch.undo()
    with pytest.raises(ValueError, match="FoldBatchNormPass decides simplify by itself"):
        FoldBatchNormPass(Options(simplify=("onnxscript",)))


@pytest.mark.parametrize("tool", GONE_TOOLS)
def test_a_simplifier_that_is_a_step_no_more_says_what_to_type(tool: str, source: Path) -> None:
    with pytest.raises(BadSetting, match=f"simplify: {tool} is a step no more; `bnfold run IN OUT -- .*{tool} "):
        bnfold.optimize(source, simplify=["onnxscript", tool])
    result = CliRunner().invoke(main, ["optimize", str(source), "out.onnx", "--simplify", f"onnxscript,{tool}"])
    assert result.exit_code == 2
    assert f"{tool} is a step no more; `bnfold run IN OUT -- " in result.stderr
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("wrong", [3, "onnxslim,", ["onnxslimm"], [None]])
def test_what_is_no_simplifier_is_named(wrong: Any) -> None:
    with pytest.raises(BadSetting, match=r"^simplify: "):
        Options(simplify=wrong)


def test_an_exported_file_is_simplified_as_well(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, onnxscript=programs.FAULTS["an error"])
    outcome = optimize_export(source, simplify=True)
    assert operators(outcome.to_proto()) == ["Conv", "Relu", "Reshape", "Neg"]
    assert any(note.startswith("onnxscript rolled back: ") for note in outcome.report.notes)


def overflowing() -> onnx.ModelProto:
    """Peers fold it to infinite weights, although no output was ever large."""
    half = {"w": np.full((4, 3, 1, 1), 900.0), "s": np.full(4, 300.0), "b": np.zeros(4), "m": np.zeros(4)}
    half["v"] = np.full(4, 1e-5)
    nodes = [
        helper.make_node("Mul", ["x", "tiny"], ["t"]),
        helper.make_node("Conv", ["t", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"]),
    ]
    stored = [numpy_helper.from_array(array.astype(np.float16), name) for name, array in half.items()]
    stored.append(numpy_helper.from_array(np.array(1e-6, np.float16), "tiny"))
    return _model(nodes, stored, [1, 3, 4, 4], [1, 4, 4, 4], TensorProto.FLOAT16)


def equal_sizes() -> onnx.ModelProto:
    """A vector multiplied along the last axis, which is as long as there are channels."""
    rng = np.random.default_rng(3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Mul", ["c", "s"], ["y"])]
    arrays = {"w": rng.normal(size=(6, 3, 3, 3)), "s": rng.uniform(0.5, 2, 6)}
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    return _model(nodes, stored, [1, 3, 8, 8], [1, 6, 6, 6], TensorProto.FLOAT)


def names_taken() -> onnx.ModelProto:
    """The names that a peer gives to folded weights belong to others."""
    model = programs.model()
    for name in ("n_weight", "n_bias", "w_bias"):
        model.graph.initializer.append(numpy_helper.from_array(np.full(6, 3.0, np.float32), name))
        model.graph.node.append(helper.make_node("Neg", [name], [f"{name}_out"]))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [6]))
    return model


def _model(
    nodes: list[onnx.NodeProto], stored: list[onnx.TensorProto], shape: list[int], made_shape: list[int], kind: int
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info("x", kind, shape)]
    made = [helper.make_tensor_value_info("y", kind, made_shape)]
    graph = helper.make_graph(nodes, "g", given, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


TOOLS = ("onnxscript", "onnxslim", "onnxruntime")
WRONG = {*((overflowing, tool) for tool in TOOLS), (equal_sizes, "onnxslim"), (names_taken, "onnxslim")}
"""Seen with onnxscript 0.7.2, onnxslim 0.1.98, onnxruntime 1.32.0."""


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("make", [overflowing, equal_sizes, names_taken])
def test_known_wrong_folds_of_peers_are_caught(make: Callable[[], onnx.ModelProto], tool: Any, tmp_path: Path) -> None:
    if find_spec(tool) is None:
        pytest.skip(f"needs {tool}")
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(make(), source)
    feeds = random_feeds(source)
    expected = outputs(source, feeds)
    assert all(np.isfinite(array).all() for array in expected)
    outcome = bnfold.optimize(source, out, options=replace(AS_IS, simplify=(tool,)))
    for before, after in zip(expected, outputs(out, feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=2e-2, atol=2e-2)
    if (make, tool) in WRONG and outcome.steps[1].status != "rolled back":
        pytest.skip(f"this version of {tool} does it right")


def random_feeds(source: Path) -> dict[str, Any]:
    value = onnx.load(source).graph.input[0].type.tensor_type
    dims = [dim.dim_value for dim in value.shape.dim]
    kind = helper.tensor_dtype_to_np_dtype(value.elem_type)
    return {"x": np.random.default_rng(5).normal(size=dims).astype(kind)}
