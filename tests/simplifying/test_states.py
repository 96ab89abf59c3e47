"""Initial states that are zero are left out, and all others stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from tests.simplifying.small import assert_equal, model, operators, simplified

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
HIDDEN = 3
NUMBERS = (
    "int64 zero = {0}, int64 one = {1}, int64[1] front = {0}, int64[1] two = {2}, int64[1] three = {3}, "
    "int64[1] four = {4}, int64[1] five = {5}, int64[1] end = {9223372036854775807}, float none = {0}, float some = {1}"
)
BATCH = "s = Shape (x) g = Gather (s, one) n = Unsqueeze (g, front)"
WAYS = {
    "a fill": (f"{BATCH} d = Concat <axis = 0> (two, n, three) h = ConstantOfShape (d)", True),
    "an expanded 0": (f"{BATCH} d = Concat <axis = 0> (two, n, three) h = Expand (none, d)", True),
    "a half": (
        f"{BATCH} d = Concat <axis = 0> (four, n, three) f = ConstantOfShape (d) h = Slice (f, two, four, front)",
        True,
    ),
    "an expanded 1": (f"{BATCH} d = Concat <axis = 0> (two, n, three) h = Expand (some, d)", False),
    "what the caller feeds": ("h = Identity (y)", False),
    "as much as another input has": (
        f"{BATCH.replace('x', 'y', 1)} d = Concat <axis = 0> (two, n, three) h = ConstantOfShape (d)",
        False,
    ),
    "of other sizes": (f"{BATCH} d = Concat <axis = 0> (two, n, five) h = ConstantOfShape (d)", False),
    "of another rank": (f"{BATCH} d = Concat <axis = 0> (n, three) h = ConstantOfShape (d)", False),
}


def recurrent(operator: str, way: str, attributes: str = "", more: str = "") -> onnx.ModelProto:
    """A network of two directions, its state made in one of several ways."""
    body, _ = WAYS[way]
    states = "h, h" if operator == "LSTM" else "h"
    before = model(
        "(float[S,N,2] x, float[2,M,3] y) => (float[A,2,N,3] z, float[2,N,3] e)",
        f'{body} z, e = {operator} <direction = "bidirectional", hidden_size = 3{attributes}> (x, w, r, , , {states}) '
        + more,
        NUMBERS,
    )
    rows, rng = GATES[operator] * HIDDEN, np.random.default_rng(0)
    for name, inputs in (("w", 2), ("r", HIDDEN)):
        weight = rng.normal(size=(2, rows, inputs)).astype(np.float32)
        before.graph.initializer.append(numpy_helper.from_array(weight, name))
    return before


def _inputs(proto: onnx.ModelProto) -> int:
    return max(len(node.input) for node in proto.graph.node if node.op_type in GATES)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("way", WAYS)
def test_states(way: str, operator: str) -> None:
    before = recurrent(operator, way)
    after, report = simplified(before)
    goes = WAYS[way][1]
    assert (_inputs(after) == 3) == goes
    assert (f"{operator} from zeros" in {event.rewrite.title for event in report.simplified}) == goes
    if goes:
        assert operators(after) == [operator]
        y = np.zeros((2, 1, 3), np.float32)
        assert_equal(before, after, (4, 5, 2), (1, 1, 2), y=y)
        assert bnfold.verify(before, after).status == "verified"


def test_one_of_two_states() -> None:
    before = recurrent("LSTM", "a fill")
    before.graph.node[-1].input[5] = "y"
    after, _ = simplified(before)
    assert [*after.graph.node[-1].input] == ["x", "w", "r", "", "", "y"]
    before.graph.node[-1].input[5:] = ["h", "y"]
    after, _ = simplified(before)
    assert [*after.graph.node[-1].input] == ["x", "w", "r", "", "", "", "y"]
    assert_equal(before, after, (4, 5, 2), y=np.ones((2, 5, 3), np.float32))


def test_peepholes_stay_where_they_are() -> None:
    before = recurrent("LSTM", "a fill")
    before.graph.node[-1].input.append("p")
    before.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3 * HIDDEN), np.float32), "p"))
    after, _ = simplified(before)
    assert [*after.graph.node[-1].input] == ["x", "w", "r", "", "", "", "", "p"]
    assert bnfold.optimize(before).status == "verified"


def test_a_batch_that_is_first_stays() -> None:
    before = recurrent("GRU", "a fill", ", layout = 1")
    assert _inputs(simplified(before)[0]) == 6


@pytest.mark.parametrize(("number", "goes"), [(0.0, True), (0.5, False), (-0.0, False)])
def test_stored_states(number: float, goes: bool) -> None:
    before = recurrent("GRU", "what the caller feeds")
    del before.graph.node[0]
    before.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    before.graph.initializer.append(numpy_helper.from_array(np.full((2, 4, 3), number, np.float32), "h"))
    assert (_inputs(simplified(before)[0]) == 3) == goes


def test_a_stored_state_of_one_batch_beside_a_dynamic_batch_stays() -> None:
    before = recurrent("GRU", "what the caller feeds")
    del before.graph.node[0]
    before.graph.initializer.append(numpy_helper.from_array(np.zeros((2, 4, 3), np.float32), "h"))
    assert _inputs(simplified(before)[0]) == 6


def test_a_state_in_a_branch() -> None:
    """The branch is the first consumer of sizes that the outer graph computes."""
    before = recurrent("GRU", "a fill")
    *made, node = [onnx.NodeProto.FromString(node.SerializeToString()) for node in before.graph.node]
    node.output[:] = ["z0"]
    ends = [helper.make_tensor_value_info(name, 1, None) for name in ("z0", "z1")]
    taken = helper.make_graph([node], "taken", [], ends[:1])
    other = helper.make_graph([helper.make_node("Unsqueeze", ["x", "front"], ["z1"])], "other", [], ends[1:])
    both = helper.make_node("If", ["c"], ["z"], then_branch=taken, else_branch=other)
    del before.graph.node[:], before.graph.output[1:]
    before.graph.node.extend([*made, both])
    before.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    after, _ = simplified(before)
    assert operators(after) == ["If"]
    assert_equal(before, after, (4, 5, 2), y=np.zeros((2, 1, 3), np.float32), c=np.array(True))
    assert bnfold.verify(before, after).status == "verified"


def quantized(fill: float = 0.0) -> onnx.ModelProto:
    """As onnxruntime quantizes an LSTM."""
    before = recurrent("LSTM", "a fill")
    node = before.graph.node[-1]
    node.op_type, node.domain = "DynamicQuantizeLSTM", "com.microsoft"
    before.opset_import.add(domain="com.microsoft", version=1)
    for name, rows in (("w", 2), ("r", HIDDEN)):
        place = next(at for at, tensor in enumerate(before.graph.initializer) if tensor.name == name)
        weight = np.arange(2 * rows * 12, dtype=np.uint8).reshape(2, rows, 12)
        before.graph.initializer[place].CopyFrom(numpy_helper.from_array(weight, name))
    node.input.append("")
    for name in ("w", "r"):
        node.input.extend([f"{name}_scale", f"{name}_zero"])
        before.graph.initializer.append(numpy_helper.from_array(np.full(2, 0.01, np.float32), f"{name}_scale"))
        before.graph.initializer.append(numpy_helper.from_array(np.full(2, 100, np.uint8), f"{name}_zero"))
    next(made for made in before.graph.node if made.output[0] == "h").attribute.append(
        helper.make_attribute("value", numpy_helper.from_array(np.array([fill], np.float32)))
    )
    return before


def test_an_lstm_of_onnxruntime() -> None:
    before = quantized()
    outcome = bnfold.optimize(before)
    assert outcome.status == "verified"
    after = outcome.to_proto()
    assert operators(after) == ["DynamicQuantizeLSTM"]
    assert [*after.graph.node[0].input[5:9]] == ["", "", "", "w_scale"]


def test_an_lstm_of_onnxruntime_from_other_numbers_stays() -> None:
    assert "h" in simplified(quantized(0.5))[0].graph.node[-1].input


def test_an_operator_of_the_name_in_another_domain_stays() -> None:
    before = quantized()
    before.graph.node[-1].domain = before.opset_import[1].domain = "elsewhere"
    assert "h" in simplified(before)[0].graph.node[-1].input


@pytest.mark.parametrize("way", ["an expanded 1", "what the caller feeds"])
def test_a_state_that_is_left_out_wrongly_is_found(way: str) -> None:
    before = recurrent("GRU", way)
    after = onnx.ModelProto.FromString(before.SerializeToString())
    del after.graph.node[-1].input[3:]
    assert bnfold.verify(before, after).status != "verified"
