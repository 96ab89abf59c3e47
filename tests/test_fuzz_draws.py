"""That the fuzzer draws what only far numbers, words or callers show, breaks it, and sees that it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from fuzz import condition, distance, draw, far, faults, fills, leftovers, near_misses, sabotage, sequences, showing
from fuzz.builder import Builder, Drawn
from fuzz.operators import Draw
from onnx import TensorProto, numpy_helper

import bnfold
from bnfold import ir, reference

pytestmark = pytest.mark.large  # a script, which changes seldom

FLOAT = TensorProto.FLOAT


def drawn(entry: Draw, count: int = 60) -> Iterator[tuple[Builder, Drawn]]:
    for seed in range(count):
        b = Builder(np.random.default_rng(seed), opset=21, dtype=FLOAT, plain=True)
        b.inputs.append(Drawn("x", FLOAT, (2, 3, 4)))
        if made := entry(b, b.inputs[0]):
            yield b, made[0]


def test_one_bound_is_constant_and_the_other_one_is_not() -> None:
    pairs = set()
    for b, _ in drawn(far.clip, 200):
        kinds = dict.fromkeys(b.fed, "fed") | {tensor.name: "stored" for tensor in b.weights} | {"": "none"}
        (node,) = [node for node in b.nodes if node.op_type == "Clip"]
        pairs.add(tuple(kinds.get(name, "computed") for name in node.input[1:]))
    assert pairs > {("fed", "stored"), ("stored", "fed"), ("computed", "stored"), ("stored", "computed")}


@pytest.mark.parametrize(
    ("entry", "operators"),
    [
        (leftovers.half_read, {"If", "Loop", "Scan"}),
        (leftovers.reshaped_product, {"MatMul", "Reshape", "Add"}),
        (leftovers.expanded_product, {"Expand", "MatMul"}),
        (leftovers.filled_up, {"Mod", "Pad"}),
        (leftovers.zeros_before_pool, {"Relu", "Clip", "Pad", "MaxPool"}),
    ],
)
def test_what_exporters_leave_behind_is_drawn_and_goes(entry: Draw, operators: set[str]) -> None:
    """Not from every model: a Pad stays around a Clip that may return less than zero."""
    seen, fewer = set[str](), 0
    for b, made in drawn(entry, 24):
        seen |= {node.op_type for node in b.nodes}
        before = b.model([made])
        result = bnfold.optimize(before, target_opset="keep", verify=bnfold.VerifyOptions(depth="none"))
        after = result.to_proto()
        left, right = (_size(proto) for proto in (before, after))
        fewer += right < left
        feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32), **b.fed}
        sessions = [onnxruntime.InferenceSession(proto.SerializeToString()) for proto in (before, after)]
        one, other = (session.run(None, feeds)[0] for session in sessions)
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    assert seen >= operators
    assert fewer > 4


def _size(proto: onnx.ModelProto) -> int:
    return sum(1 for _ in ir.load(proto.SerializeToString()).nodes())


def test_fills_are_of_every_type() -> None:
    made = {(node.op_type, b.derived[0].dtype) for b, _ in drawn(fills.filled, 400) for node in b.nodes[:1]}
    types = {dtype for dtype, _ in fills.TYPES}
    assert {dtype for op, dtype in made if op == "ConstantOfShape"} == types
    assert {dtype for op, dtype in made if op == "Expand"} == types - {*fills.NARROW}
    assert ("Where", TensorProto.STRING) in made


def test_some_channels_are_no_numbers_and_others_are() -> None:
    seen = set()
    for b, made in drawn(far.undefined):
        array = reference.evaluate(ir.load(b.model([made])), {"x": np.ones((2, 3, 4), np.float32) / 2})[made.name]
        assert np.isfinite(array).any()
        seen |= {*array[~np.isfinite(array)].astype(str)}
    assert seen == {"nan", "inf", "-inf"}


def test_noise_of_almost_all_numbers_stands_beside_other_channels() -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    most = 0.0
    for b, made in drawn(far.noisy, 20):
        one, other = (
            reference.evaluate(ir.load(model), feeds)[made.name] for model in (b.model([made]), moved(b, made))
        )
        apart = distance.apart(one, other).max(axis=(0, 2)) / np.abs(one).max()
        assert (apart < 1e-6).sum() == 3
        most = max(most, float(np.abs(one).max() * min(apart.max(), 1.0)))
    assert most > 1e308


def moved(b: Builder, made: Drawn) -> onnx.ModelProto:
    """The model, with the next number for every factor in float32."""
    model = b.model([made])
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(np.nextafter(array, np.float32(np.inf)), tensor.name))
    return model


def test_these_are_drawn_alone_and_in_front() -> None:
    assert {far.clip, far.noisy, far.undefined, fills.filled} < {*draw.FIRST}
    ops = {node.op_type for seed in range(150) for node in draw.alone(seed)[0].graph.node}
    assert {"Clip", "Sin", "Sqrt", "ConstantOfShape", "Equal", "Slice", "If"} < ops


def filled() -> onnx.ModelProto:
    """A word for all places, compared with another one."""
    text = """<ir_version: 8, opset_import: ["" : 19]> g (float[2,3] x) => (float[2,3] y)
        { f = Expand (one, size)  e = Equal (f, other)  c = Cast <to = 1> (e)  y = Add (x, c) }"""
    model = onnx.parser.parse_model(text)
    held = {"one": np.array(["a"], object), "size": np.array([2, 3]), "other": np.array("a", object)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    return model


def test_sequences_are_as_large_as_they_say() -> None:
    ops, feeds = set(), {"x": np.ones((2, 3, 4), np.float32)}
    for b, made in drawn(sequences.sequenced, 60):
        ops |= {node.op_type for node in b.nodes}
        array = reference.evaluate(ir.load(b.model([made])), feeds | b.fed)[made.name]
        assert array.shape == made.shape
    assert {op for op, _ in sequences.PLACES} | {"SplitToSequence", "ConcatFromSequence", "SequenceLength"} < ops


CHOICE = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, bool a, bool b) => (float[2,3] y) {
    c = And (a, b)
    y = If (c) <then_branch = t () => (float[2,3] u) { u = Neg (x) },
                else_branch = e () => (float[2,3] v) { v = Abs (x) }>
}"""
SEQUENCE = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y)
    <int64 place = {1}> { n = Neg (x)  s = SequenceConstruct (x, n, x)  y = SequenceAt (s, place) }"""


@pytest.mark.parametrize(("text", "fault"), [(CHOICE, near_misses.change_logic), (SEQUENCE, sequences.change_sequence)])
def test_a_fault_that_one_boolean_or_one_place_shows_is_seen(
    text: str, fault: near_misses.Fault, tmp_path: Path
) -> None:
    """With both booleans true, And and Or are the same: one of them has to be turned."""
    feeds = {"x": np.ones((2, 3), np.float32)} | ({"a": np.array(True), "b": np.array(True)} if text is CHOICE else {})
    onnx.save(onnx.parser.parse_model(text), tmp_path / "before")
    for seed in range(4):
        model = onnx.parser.parse_model(text)
        fault(model, np.random.default_rng(seed))
        onnx.save(model, tmp_path / "after")
        assert showing.truth(tmp_path / "before", tmp_path / "after", feeds) == "shows"


@pytest.mark.parametrize("fault", [fills.change_filled, fills.store_filled])
def test_a_wrong_word_is_put_in_and_seen(fault: near_misses.Fault, tmp_path: Path) -> None:
    feeds = {"x": np.ones((2, 3), np.float32)}
    truths = set()
    onnx.save(filled(), tmp_path / "before")
    for seed in range(12):
        model = filled()
        fault(model, np.random.default_rng(seed))
        onnx.save(model, tmp_path / "after")
        truths.add(showing.truth(tmp_path / "before", tmp_path / "after", feeds))
    assert "shows" in truths
    assert truths <= {"shows", "same"}


@pytest.mark.parametrize("fed", ["low", "high"])
def test_a_bound_that_crosses_another_one_far_away_is_seen(fed: str, tmp_path: Path) -> None:
    head = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, float {fed}) => (float[2,3] y)'
    ways = "y = Clip (x, low, high)", "z = Max (x, low)  y = Min (z, high)", "z = Min (x, high)  y = Max (z, low)"
    for name, way in zip(("before", "right", "wrong"), ways, strict=True):
        model = onnx.parser.parse_model(f"{head} {{ {way} }}")
        held = {"low": np.array(-100, np.float32), "high": np.array(100, np.float32)}
        del held[fed]
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
        onnx.save(model, tmp_path / name)
    feeds = {"x": np.ones((2, 3), np.float32), fed: np.array(0.5, np.float32)}
    assert showing.truth(tmp_path / "before", tmp_path / "right", feeds) == "same"
    assert showing.truth(tmp_path / "before", tmp_path / "wrong", feeds) == "shows"


def test_what_parts_are_known_to_miss_is_not_put_in_front_of_a_root() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) { y = Sqrt (x) }'
    put = set()
    for seed in range(20):
        model = onnx.parser.parse_model(text)
        sabotage.insert(model, np.random.default_rng(seed))
        put.add(model.graph.node[0].op_type)
    assert put == {"Neg", "Tanh"}


def test_where_numbers_end_is_part_of_a_result() -> None:
    one = np.array([np.nan, np.inf, 1.0])
    assert distance.relative(one, one.copy()) == 0
    assert distance.relative(one, np.array([np.nan, np.inf, 1.5])) == 0.5
    for other in ([0.0, np.inf, 1.0], [np.nan, -np.inf, 1.0], [np.nan, 1.0, 1.0], [np.nan, np.inf, np.nan]):
        assert distance.relative(one, np.array(other)) == 1
    assert distance.relative(np.array(["a"], object), np.array(["b"], object)) == 1


def test_noise_of_one_channel_explains_no_difference_of_another() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4,1] x) => (float[4,2] y) '
        "{ m = Mul (x, k)  s = Sin (m)  y = Concat <axis = 1> (s, x) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(1.1e12, np.float32), "k"))
    feeds = {"x": np.array([[0.1], [0.2], [0.3], [0.4]], np.float32)}
    expected = reference.evaluate(ir.load(model), feeds)
    found = {"y": expected["y"] + np.array([0.0, 0.5])}
    assert condition.explains(model, feeds, expected, found)
    assert not condition.explains(model, feeds, expected, found, by_channel=True)
    assert condition.explains(model, feeds, expected, {"y": expected["y"] + np.array([0.5, 0.0])}, by_channel=True)


def test_names_are_nothing() -> None:
    model, feeds = draw.draw(3, FLOAT)
    other = onnx.ModelProto.FromString(faults.renamed(model.SerializeToString()))
    assert {node.output[0] for node in other.graph.node}.isdisjoint(
        {node.output[0] for node in model.graph.node} - {info.name for info in model.graph.output}
    )
    results = [reference.evaluate(ir.load(one), feeds) for one in (model, other)]
    assert all(np.array_equal(array, results[1][name], equal_nan=True) for name, array in results[0].items())
