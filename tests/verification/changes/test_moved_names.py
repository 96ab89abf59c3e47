"""Names that a tool gave to other values: no fault by themselves, and no excuse for one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.verification.changes.new_names import with_original_names
from tests.verification.graphs import Array, Depth

RNG = np.random.default_rng(5)
WEIGHT = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
SCALE = RNG.uniform(0.5, 2, 4).astype(np.float32)


def _model(nodes: list[onnx.NodeProto], outputs: list[str], **weights: npt.ArrayLike) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "names",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("somewhere", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _original() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "b", "one"], ["n"], epsilon=0.0),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Sigmoid", ["n"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    return _model(nodes, ["y", "z"], w=WEIGHT, s=SCALE, b=np.zeros(4), one=np.ones(4))


def _folded(scale: Array) -> onnx.ModelProto:
    """Return the fold as other tools write it: ``c`` is what was ``n``."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Sigmoid", ["c"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    return _model(nodes, ["y", "z"], w=WEIGHT * scale.reshape(-1, 1, 1, 1))


@pytest.mark.parametrize("depth", ["auto", "local", "full"])
def test_a_fold_under_the_name_of_the_convolution_is_verified(depth: Depth) -> None:
    assert bnfold.verify(_original(), _folded(SCALE), options=bnfold.VerifyOptions(depth=depth)).verified
    wrong = SCALE * np.array([1, 1, 1.02, 1])
    assert bnfold.verify(_original(), _folded(wrong), options=bnfold.VerifyOptions(depth=depth)).status == "failed"


def test_the_value_gets_the_original_s_name() -> None:
    renamed = with_original_names(ir.load(_original()), ir.load(_folded(SCALE)), by_others=True)
    assert [[value.name for value in node.outputs if value] for node in renamed.graph.nodes] == [
        ["n"],
        ["r"],
        ["y"],
        ["z"],
    ]


def test_names_stay_where_consumers_disagree_or_others_read_the_value() -> None:
    for change in (("Relu", "c", "w"), ("Neg", "r", "c")):  # only one consumer reads it; a third one does
        after = _folded(SCALE)
        op_type, old, new = change
        node = next(node for node in after.graph.node if node.op_type == op_type)
        assert [*node.input] == [old]
        node.input[0] = new
        model = ir.load(after)
        assert with_original_names(ir.load(_original()), model, by_others=True) is model
        assert not bnfold.verify(_original(), after).verified


def test_a_moved_name_before_what_cannot_be_compared_is_not_called_a_fault() -> None:
    """The first output shows that the value is another one under the same name; the second one cannot be computed."""
    own = helper.make_node("Own", ["n"], ["z"], domain="somewhere")
    before = _model(
        [
            helper.make_node("Mul", ["x", "two"], ["c"]),
            helper.make_node("Add", ["c", "one"], ["n"]),
            helper.make_node("Neg", ["n"], ["y"]),
            own,
        ],
        ["y", "z"],
        two=2.0,
        one=1.0,
    )
    own_after = helper.make_node("Own", ["c"], ["z"], domain="somewhere")

    def after(factor: float) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Mul", ["x", "two"], ["m"]),
            helper.make_node("Add", ["m", "one"], ["c"]),
            helper.make_node("Mul", ["c", "minus"], ["y"]),
            own_after,
        ]
        return _model(nodes, ["y", "z"], two=2.0, one=1.0, minus=factor)

    assert bnfold.verify(before, after(-1)).status == "unverified"
    assert bnfold.verify(before, after(-1.5)).status == "failed"


def test_a_name_that_an_integer_had_may_mean_a_float_before_a_rounding() -> None:
    """Types that the file declares show it: the rounding is not fed the original's integers."""

    def declared(float_name: str, integer_name: str) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Cast", ["x"], [integer_name], to=TensorProto.INT64),
            helper.make_node("Cast", [integer_name], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["x", "f"], [float_name]),
            helper.make_node("Round", [float_name], ["y"]),
        ]
        made = _model(nodes, ["y"])
        for name, kind in ((integer_name, TensorProto.INT64), (float_name, TensorProto.FLOAT)):
            made.graph.value_info.append(helper.make_tensor_value_info(name, kind, [2, 3, 8, 8]))
        return made

    assert bnfold.verify(declared("s", "t"), declared("t", "i"), options=bnfold.VerifyOptions(depth="full")).verified
