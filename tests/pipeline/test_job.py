"""One model from file to file, and the promises about what is on disk afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from bnfold import inspect, ir, optimize
from bnfold.errors import OutputError, Unsupported, VerificationFailed
from bnfold.pipeline import job, passes
from bnfold.settings import Options, OutputOptions, VerifyOptions
from tests.conftest import MODELS
from tests.verification import graphs

QUICK = VerifyOptions(depth="none")


def test_a_model_may_come_from_a_path_bytes_or_a_proto() -> None:
    path = MODELS / "bn9.onnx"
    results = [optimize(source).to_proto() for source in (path, path.read_bytes(), onnx.load(path))]
    assert results[0] == results[1] == results[2]
    assert all(node.op_type != "BatchNormalization" for node in results[0].graph.node)


def test_in_memory_results_are_verified_too() -> None:
    outcome = optimize(MODELS / "bn9.onnx")
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"


def test_inspect_verifies_and_writes_nothing() -> None:
    outcome = inspect(MODELS / "bn9.onnx")
    assert outcome.verdict is None
    assert outcome.output is None
    assert outcome.report.count("folded") == 1


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_every_small_model_is_verified(path: Path, tmp_path: Path) -> None:
    outcome = optimize(path, tmp_path / "out.onnx")
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified", outcome.verdict.reason
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_doing_it_twice_changes_nothing(path: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
    optimize(path, once, verify=QUICK)
    optimize(once, twice, verify=QUICK)
    assert onnx.load(once) == onnx.load(twice)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_interface_stays(path: Path) -> None:
    before, after = onnx.load(path), optimize(path, verify=QUICK).to_proto()
    stored = {tensor.name for tensor in before.graph.initializer} if before.ir_version < 4 else set()
    wanted = [info for info in before.graph.input if info.name not in stored]
    assert [info.name for info in after.graph.input] == [info.name for info in wanted]
    assert [info.type for info in after.graph.input] == [info.type for info in wanted]
    assert [info.name for info in after.graph.output] == [info.name for info in before.graph.output]


def test_the_report_says_which_names_are_gone_and_which_are_new() -> None:
    graph = onnx.parser.parse_graph(
        "g (float[2,3,4,5] x) => (float[2,120] y) { c = Conv (x, w) f = Flatten (c) y = Mul (f, k) }"
    )
    graph.initializer.append(numpy_helper.from_array(np.ones((6, 3, 1, 1), np.float32), "w"))
    graph.initializer.append(numpy_helper.from_array(np.repeat(np.arange(1, 7), 20).astype(np.float32), "k"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    names = bnfold.fold(model, verify=QUICK, all_affines=True).report.to_json()["names"]
    assert names == {"removed": ["f", "k"], "renamed": {"c": "c_folded"}}


def test_same_input_same_bytes(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        optimize(MODELS / "dense.onnx", tmp_path / name, verify=QUICK)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def overflowing(channels: int) -> onnx.ModelProto:
    """A float32 fold that overflows, seen only while the weight is computed: the factor alone is ordinary."""
    tensors = {
        "w": np.full((channels, channels, 1, 1), 1e30, np.float32),
        "s": np.full(channels, 1e15, np.float32),
        "b": np.zeros(channels, np.float32),
        "m": np.zeros(channels, np.float32),
        "v": np.ones(channels, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"], name="norm"),
    ]
    value = [helper.make_tensor_value_info(name, 1, [1, channels, 2, 2]) for name in ("x", "y")]
    initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


@pytest.mark.parametrize(
    "channels", [3, 40]
)  # a kernel of 36 bytes is rounded in memory, one of 6 kB while it is written
def test_a_fold_that_overflows_is_undone(tmp_path: Path, channels: int) -> None:
    onnx.save(overflowing(channels), tmp_path / "in.onnx")
    outcome = optimize(tmp_path / "in.onnx", tmp_path / "out.onnx", verify=QUICK)
    (event,) = outcome.report.batchnorms
    assert event.verdict == "kept"
    assert event.reason is not None
    assert event.reason.code == "range"
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Conv", "BatchNormalization"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx", "out.onnx"]


@pytest.mark.parametrize("channels", [3, 40])
@pytest.mark.parametrize(
    ("nodes", "factor", "left"),
    [
        ("c = Conv (x, w)  y = Mul (c, f)", 1e15, ["Conv", "Mul"]),
        ("p = Mul (x, f)  c = Conv (p, w)  y = BatchNormalization (c, s, b, m, v)", 1e6, ["Mul", "Conv"]),
    ],
)
def test_arithmetic_that_overflows_is_left(
    tmp_path: Path, channels: int, nodes: str, factor: float, left: list[str]
) -> None:
    """Also where a BatchNormalization was folded into the same weight before, which alone does not overflow."""
    text = f"(float[1,{channels},2,2] x) => (float[1,{channels},2,2] y) {{ {nodes} }}"
    vectors = {"s": 1e6, "b": 0.0, "m": 0.0, "v": 1.0}
    weights = {name: np.full(channels, number) for name, number in vectors.items() if f" {name}" in nodes}
    shaped = {"w": np.full((channels, channels, 1, 1), 1e30), "f": np.full((1, channels, 1, 1), factor)}
    onnx.save(graphs.model(text, {**weights, **shaped}), tmp_path / "in.onnx")
    optimize(tmp_path / "in.onnx", tmp_path / "out.onnx", options=Options(all_affines=True), verify=QUICK)
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == left


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rewriting side go wrong, as a bug would."""
    honest = passes.rewrite

    def wrong(model: ir.Model, *arguments: Any, **options: Any) -> object:
        report = honest(model, *arguments, **options)
        value = next(value for value in model.graph.values.values() if value.name.endswith("_bias"))
        assert value.tensor is not None
        value.tensor = ir.Exact(value.tensor.dtype, value.tensor.float64() * 1.01)
        return report

    monkeypatch.setattr(passes, "rewrite", wrong)


def test_a_failed_verification_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    with pytest.raises(VerificationFailed):
        optimize(MODELS / "depthwise.onnx", tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_result_is_kept_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    with pytest.raises(VerificationFailed):
        job.process(
            MODELS / "depthwise.onnx",
            OutputOptions(tmp_path / "out.onnx", keep_failed=tmp_path / "bad.onnx"),
            bnfold.Options(),
            VerifyOptions(),
        )
    assert [path.name for path in tmp_path.iterdir()] == ["bad.onnx"]


def test_an_output_in_no_directory(tmp_path: Path) -> None:
    optimize(MODELS / "bn9.onnx", tmp_path / "nowhere" / "out.onnx")
    assert (tmp_path / "nowhere" / "out.onnx").exists()
    with pytest.raises(OutputError, match="is a file, not a folder"):
        optimize(MODELS / "bn9.onnx", tmp_path / "nowhere" / "out.onnx" / "out.onnx")


def test_a_hard_link_to_the_input_counts_as_the_input(tmp_path: Path) -> None:
    source, link = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes((MODELS / "bn9.onnx").read_bytes())
    link.hardlink_to(source)
    with pytest.raises(OutputError, match="OUT is the input file"):
        optimize(source, link)


def test_the_package_offers_functions_of_these_names() -> None:
    path = MODELS / "bn9.onnx"
    assert bnfold.fold(path, verify=QUICK).report.opset_after == 9
    assert bnfold.upgrade(path, verify=QUICK).report.opset_after == 15
    assert [node.op_type for node in bnfold.decompose(path, verify=QUICK).to_proto().graph.node].count("Mul") == 1
    assert bnfold.verify(path, path).status == "verified"
    assert all(hasattr(bnfold, name) for name in bnfold.__all__)


def test_a_notebook_shows_the_report_and_a_shell_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = bnfold.inspect(MODELS / "bn9.onnx")
    shown = outcome._repr_html_()
    assert shown is not None
    assert shown.startswith("<iframe")
    assert "Every BatchNormalization" in shown
    assert len(repr(outcome).splitlines()) <= 6
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert outcome._repr_html_() is None


@pytest.mark.parametrize("normalised", [True, False])
def test_branches_whose_sum_overflows_are_left(tmp_path: Path, normalised: bool) -> None:
    """Found while the sum is written: nobody reads whole weights before."""
    kernel = np.full((32, 32, 1, 1), 2e38, np.float32)
    norm = "BatchNormalization <epsilon = 0.0> (d, one, zero, zero, one)" if normalised else "Identity (d)"
    model = graphs.model(
        f"(float[1,32,3,3] x) => (float[1,32,3,3] y) {{ z = Mul (x, tiny)  c = Conv (z, V)  d = Conv (z, W) "
        f"e = {norm}  y = Add (c, {'e' if normalised else 'd'}) }}",
        {"V": kernel, "W": kernel, "tiny": np.array([1e-38], np.float32), "one": np.ones(32), "zero": np.zeros(32)},
    )
    if not normalised:
        del model.graph.node[3]
    onnx.save(model, tmp_path / "in.onnx")
    outcome = optimize(
        tmp_path / "in.onnx", tmp_path / "out.onnx", options=Options(merge_branches=True, no_simplify=True)
    )
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Mul", "Conv", "Conv", "Add"]
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_result_that_would_be_invalid_is_refused(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "bnfold.pipeline.passes.checker_error", lambda model, *_: "bad" if model.opset("") == 15 else ""
    )
    source = onnx.load(MODELS / "bn9.onnx") if in_memory else MODELS / "bn9.onnx"
    with pytest.raises(Unsupported, match="the rewritten model would not be valid ONNX, and the original is: bad"):
        optimize(source)
    monkeypatch.setattr("bnfold.pipeline.passes.checker_error", lambda *_: "bad before and after")
    assert optimize(source).verified


def test_names_are_those_of_the_first_and_the_last_model() -> None:
    """Folding renames both products; then simplifying takes one out, which equals the other."""
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[2,3] x) => (float[8] y) <
        float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] k = {1, 2, 3, 4}, int64[1] to = {8}> {
        m = MatMul (x, w) a = Relu (m) b = Mul (a, k) c = Reshape (b, to)
        n = MatMul (x, w) d = Relu (n) e = Mul (d, k) f = Reshape (e, to)
        y = Sub (c, f) }"""
    done = bnfold.optimize(onnx.parser.parse_model(text), verify=QUICK, all_affines=True)
    names, before = done.report.to_json()["names"], {"x", "w", "k", "to", *"mabcndefy"}
    after = {name for graph in ir.load(done.to_proto()).graphs() for name in graph.values}
    assert set(names["removed"]) == before - after - names["renamed"].keys()
    assert before.isdisjoint(names["renamed"].values())
    assert after.issuperset(names["renamed"].values())
    assert any("duplicate" in event.rewrite.name for event in done.report.simplified)


@pytest.mark.parametrize(("target", "is_told"), [(15, True), (12, False)])
def test_an_unknown_operator_of_the_default_domain_is_told_of_where_the_opset_changes(
    target: int, is_told: bool
) -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 12, "d": 1]> g (float[2] x) => (float[2] y) { z = d.Some (x) y = My (z) }'
    )
    notes = bnfold.upgrade(onnx.parser.parse_model(text), target_opset=target, verify=QUICK).report.notes
    told = ["1 ai.onnx::My not converted: bnfold has no other version of this operator"]
    assert [note for note in notes if "not converted" in note] == told * is_told
