"""What comes out of the functions: the same kinds of models as go in, in this process and in another one."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold.errors import BadInput, Unsupported, VerificationFailed
from bnfold.ir.storage.source import FileSource
from bnfold.pipeline.outcome import forbidden
from tests.conftest import MODELS
from tests.machine import unmeasured
from tests.pipeline.test_job import overflowing

QUICK = bnfold.VerifyOptions(runtime="none")
UNCHECKED = bnfold.VerifyOptions(depth="none")


class Program:
    """As a ``torch.onnx.ONNXProgram`` holds its model; tests/interop/pytorch has the real one."""

    def __init__(self, path: Path) -> None:
        self.model = onnx_ir.load(path)


KINDS: dict[str, Callable[[Path], Any]] = {
    "path": Path,
    "bytes": Path.read_bytes,
    "message": onnx.load,
    "onnx_ir": onnx_ir.load,
    "program": Program,
}
FUNCTIONS: list[Callable[..., bnfold.Outcome]] = [bnfold.optimize, bnfold.fold, bnfold.convert, bnfold.decompose]


def content(source: Any) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, Path):
        return source.read_bytes()
    proto = source if isinstance(source, onnx.ModelProto) else onnx_ir.to_proto(getattr(source, "model", source))
    return bytes(proto.SerializeToString(deterministic=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_kind_goes_in_and_comes_out(function: Callable[..., bnfold.Outcome], kind: str, tmp_path: Path) -> None:
    source = KINDS[kind](MODELS / "bn9.onnx")
    before = content(source)
    outcome = function(source, opset=17, verify=QUICK)
    assert outcome.verified
    proto, model = outcome.to_proto(), outcome.to_onnx_ir()
    outcome.save(tmp_path / "out.onnx", external_data="none")
    assert proto.opset_import[0].version == model.opset_imports[""] == outcome.report.opset_after == 17
    for result in (proto, model, tmp_path / "out.onnx"):
        assert bnfold.verify(source, result, options=QUICK)
    assert onnx.load(tmp_path / "out.onnx") == proto
    assert content(source) == before
    model.graph.name = "changed"
    assert outcome.to_onnx_ir().graph.name != "changed"
    assert outcome.to_proto() == proto


def large(path: Path, count: int = 2) -> Path:
    """Convolutions with weights beyond what the skeleton holds; the first has a BatchNormalization."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(16, 16, 3, 3)).astype(np.float32) for _ in range(count)]
    initializers = [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)]
    statistics = [numpy_helper.from_array(rng.uniform(0.5, 2, 16).astype(np.float32), name) for name in "sbmv"]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"]),
        helper.make_node("BatchNormalization", ["c0", *"sbmv"], ["r0"]),
        *(helper.make_node("Conv", [f"r{index - 1}", f"w{index}"], [f"r{index}"]) for index in range(1, count)),
    ]
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", f"r{count - 1}")]
    sides[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 12, 12])
    graph = helper.make_graph(nodes, "g", sides[:1], sides[1:], [*initializers, *statistics])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_no_weight_of_a_file_is_read_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = bnfold.fold(large(tmp_path / "m.onnx"), verify=UNCHECKED)
    read: list[int] = []
    reads = FileSource._read

    def noted(source: FileSource, offset: int, length: int) -> bytes:
        read.append(length)
        return reads(source, offset, length)

    monkeypatch.setattr(FileSource, "_read", noted)
    model = outcome.to_onnx_ir()
    again = pickle.loads(pickle.dumps(outcome)).to_onnx_ir()
    assert not read
    for made in (model, again):
        weights = made.graph.initializers
        assert weights["w1"].const_value.numpy().shape == (16, 16, 3, 3)
    assert read == [16 * 16 * 9 * 4] * 2
    assert len(pickle.dumps(outcome)) < 20_000


def test_untouched_tensors_of_onnx_ir_are_the_same_objects(tmp_path: Path) -> None:
    source = onnx_ir.load(large(tmp_path / "m.onnx"))
    model = bnfold.fold(source, verify=QUICK).to_onnx_ir()
    assert model.graph.initializers["w1"].const_value is source.graph.initializers["w1"].const_value
    assert isinstance(model.graph.initializers["w0"].const_value, onnx_ir.LazyTensor)


def sparse_weight() -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y) { a = Relu (x) y = Add (a, w) }'
    )
    values, places = helper.make_tensor("w", 1, [2], [1.0, 2.0]), helper.make_tensor("p", 7, [2], [0, 2])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    return proto


def sparse_attribute() -> onnx.ModelProto:
    proto = sparse_weight()
    weight = proto.graph.sparse_initializer.pop()
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=weight))
    return proto


def trained() -> onnx.ModelProto:
    proto = onnx.load(MODELS / "bn9.onnx")
    proto.training_info.add()
    return proto


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (sparse_weight, "the initializer 'w' is sparse, and onnx_ir has no sparse tensors"),
        (sparse_attribute, "onnx_ir cannot hold the model: "),
        (trained, r"the model holds graphs for training \(training_info\), and onnx_ir has none"),
    ],
)
def test_what_onnx_ir_cannot_hold_is_told(make: Callable[[], onnx.ModelProto], why: str) -> None:
    """It would lose it without a word, or fail with an error of its own."""
    outcome = bnfold.inspect(make(), target_opset="keep", constants="keep", no_simplify=True)
    with pytest.raises(Unsupported, match=why):
        outcome.to_onnx_ir()
    assert pickle.loads(pickle.dumps(outcome)).to_proto() == outcome.to_proto()


@pytest.mark.parametrize("kind", KINDS)
def test_an_outcome_is_pickled(kind: str, tmp_path: Path) -> None:
    outcome = bnfold.optimize(KINDS[kind](large(tmp_path / "m.onnx")), verify=QUICK, equalize=True)
    again = pickle.loads(pickle.dumps(outcome))
    assert again.verdict == outcome.verdict
    assert again.report.to_json() == outcome.report.to_json()
    assert again.to_json() == outcome.to_json()
    assert again.to_proto() == outcome.to_proto()
    again.save(tmp_path / "again.onnx")
    assert bnfold.verify(tmp_path / "again.onnx", outcome.to_proto(), options=QUICK)
    assert repr(again) == repr(outcome)
    assert again.left({"BatchNormalization", "Conv"}) == outcome.left({"BatchNormalization", "Conv"})


@pytest.mark.parametrize(
    "name", ["dense", "depthwise", "generator", "float16", "in_function", "in_loop", "constant_nodes"]
)
def test_weights_that_are_made_of_others_are_pickled(name: str) -> None:
    outcome = bnfold.inspect(
        MODELS / f"{name}.onnx", all_affines=True, merge_branches=True, decompose="remaining", target_opset=18
    )
    assert pickle.loads(pickle.dumps(outcome)).to_proto() == outcome.to_proto()


def test_a_file_that_was_replaced_or_removed_is_pickled_with_its_bytes(tmp_path: Path) -> None:
    path = large(tmp_path / "m.onnx")
    replaced = bnfold.optimize(path, verify=QUICK)
    expected = replaced.to_proto()
    replaced.save(path, in_place=True)
    assert pickle.loads(pickle.dumps(replaced)).to_proto() == expected
    path.unlink()
    assert pickle.loads(pickle.dumps(replaced)).to_proto() == expected


def test_a_file_that_changes_behind_a_pickle_is_told(tmp_path: Path) -> None:
    path = large(tmp_path / "m.onnx")
    stored = pickle.dumps(bnfold.optimize(path, verify=QUICK))
    large(path, 3)
    again = pickle.loads(stored)
    assert again.verified
    with pytest.raises(BadInput, match=r"m\.onnx: the file was changed"):
        again.to_proto()
    path.unlink()
    with pytest.raises(BadInput, match=r"m\.onnx: cannot be read"):
        again.to_proto()


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    proto = onnx.load(large(tmp_path / "m.onnx"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=1024)
    outcome = bnfold.optimize(tmp_path / "m.onnx", verify=QUICK)
    stored = pickle.dumps(outcome)
    assert len(stored) < 20_000
    assert pickle.loads(stored).to_proto() == outcome.to_proto()
    pickle.loads(stored).save(tmp_path / "out.onnx", external_data="keep")
    assert bnfold.verify(tmp_path / "m.onnx", tmp_path / "out.onnx", options=QUICK)


@pytest.mark.measures_children
def test_many_processes_optimise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in unmeasured().items():
        monkeypatch.setenv(name, value)
    paths = [tmp_path / name for name in ("bn9.onnx", "mlp.onnx")]
    for path in paths:
        shutil.copy(MODELS / path.name, path)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        outcomes = list(pool.map(bnfold.optimize, paths))
        failed = pool.submit(bnfold.convert, paths[0], target_opset=17, ir_version=3).exception()
    assert [outcome.status for outcome in outcomes] == ["verified", "verified"]
    for path, outcome in zip(paths, outcomes, strict=True):
        assert bnfold.verify(path, outcome.to_proto(), options=QUICK)
    assert isinstance(failed, bnfold.BnfoldError), failed


def outcome_of(failure: VerificationFailed) -> bnfold.Outcome:
    assert failure.outcome is not None
    return failure.outcome


def test_a_failure_is_pickled_with_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    path = MODELS / "bn9.onnx"
    wrong = onnx.load(path)
    wrong.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(2 * numpy_helper.to_array(wrong.graph.initializer[0]), wrong.graph.initializer[0].name)
    )
    verdict = bnfold.verify(path, wrong, options=QUICK)
    assert verdict.status == "failed"
    monkeypatch.setattr("bnfold.pipeline.formats.ONNX.verify", lambda *_, **__: verdict)
    with pytest.raises(VerificationFailed) as caught:
        bnfold.optimize(path, verify=QUICK)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.verdict.status) == (str(caught.value), "failed")
    assert again.outcome.report.to_json() == outcome_of(caught.value).report.to_json()


@pytest.mark.parametrize("verify", [UNCHECKED, QUICK])
def test_a_weight_that_overflows_is_found_in_memory_too(verify: bnfold.VerifyOptions) -> None:
    outcome = bnfold.optimize(overflowing(4), verify=verify)
    assert [event.reason.code for event in outcome.report.batchnorms if event.reason] == ["range"]
    outcome.to_proto()


def test_what_is_no_model_is_told() -> None:
    class Other:
        model = "a text"

    for source in (None, 3, Other(), onnx.TensorProto()):
        with pytest.raises(TypeError, match=r"onnx_ir.Model or torch.onnx.ONNXProgram is wanted"):
            bnfold.optimize(source)


@pytest.mark.parametrize(
    ("count", "operators", "said"),
    [
        (1, {"Identity"}, "1 Identity remains, and --assert-none forbids it"),
        (3, {"Identity"}, "3 nodes of Identity remain, and --assert-none forbids them"),
        (2, {"BatchNormalization"}, "2 BatchNormalizations remain, and --assert-none forbids them"),
        (2, {"Relu", "Abs"}, "2 nodes of Abs, Relu remain, and --assert-none forbids them"),
    ],
)
def test_what_remains_is_counted_in_words(count: int, operators: set[str], said: str) -> None:
    assert forbidden(count, frozenset(operators)) == said
