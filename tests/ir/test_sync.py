"""What edits leave in the messages, and what of them stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold import analysis, ir
from bnfold.ir.storage.save import encode
from tests.ir.build import LARGE, model, weight


@pytest.mark.parametrize("before", [5, LARGE])
@pytest.mark.parametrize("after", [3, LARGE + 1])
@pytest.mark.parametrize("field", ["raw_data", "float_data"])
def test_a_new_tensor_replaces_the_content_and_keeps_the_rest(before: int, after: int, field: str) -> None:
    old = weight("w", before)
    if field == "float_data":
        old = helper.make_tensor("w", TensorProto.FLOAT, (before,), np.arange(before, dtype=np.float32))
    old.doc_string = "text"
    if hasattr(old, "metadata_props"):
        old.metadata_props.add(key="k", value="v")
    loaded = ir.load(model([], [old], outputs=["w"]))
    values = np.linspace(-1, 1, after).reshape(1, after)
    loaded.graph.values["w"].tensor = ir.Exact(TensorProto.FLOAT16, values)
    (new,) = onnx.ModelProto.FromString(encode(loaded)).graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(new), values.astype(np.float16))
    assert (new.name, new.doc_string, list(new.float_data)) == ("w", "text", [])
    assert [(entry.key, entry.value) for entry in getattr(new, "metadata_props", [])] == (
        [("k", "v")] if hasattr(new, "metadata_props") else []
    )


@pytest.mark.parametrize(
    "attributes",
    [{"value": weight("", 3)}, {"value": weight("", LARGE)}, {"value_float": 1.5}, {"value_floats": [1.0, 2.0]}],
    ids=["small", "large", "float", "floats"],
)
@pytest.mark.parametrize("size", [2, LARGE + 3])
def test_a_new_tensor_of_a_constant_node(attributes: dict[str, Any], size: int) -> None:
    loaded = ir.load(model([helper.make_node("Constant", [], ["y"], **attributes)]))
    values = np.linspace(0, 1, size)
    loaded.graph.values["y"].tensor = ir.Exact(TensorProto.FLOAT, values)
    assert analysis.constant(loaded.graph.values["y"]) is loaded.graph.values["y"].tensor
    (node,) = onnx.ModelProto.FromString(encode(loaded)).graph.node
    (attribute,) = node.attribute
    assert attribute.name == "value"
    np.testing.assert_array_equal(numpy_helper.to_array(attribute.t), values.astype(np.float32))


def test_what_is_edited_and_then_removed_leaves_nothing() -> None:
    nodes = [helper.make_node("Constant", [], ["k"], value=weight("", 3)), helper.make_node("Abs", ["x"], ["y"])]
    loaded = ir.load(model(nodes))
    loaded.graph.values["k"].tensor = ir.Exact(TensorProto.FLOAT, np.zeros(3))
    loaded.graph.remove(loaded.graph.nodes[0])
    loaded.sync()
    assert [node.op_type for node in loaded.proto.graph.node] == ["Abs"]


def test_untouched_messages_stay_as_they_were_beside_edits() -> None:
    nodes = [helper.make_node("Abs", [name], [name + name], doc_string=f"of {name}") for name in "abcd"]
    nodes[3].MergeFromString(b"\xfa\x3e\x02ok")  # a field that onnx does not have
    loaded = ir.load(model(nodes, [weight(name, 3) for name in "wvu"], inputs=list("abcd"), outputs=["aa", "cc", "dd"]))
    before = [node.SerializeToString() for node in loaded.proto.graph.node]
    loaded.graph.remove(loaded.graph.nodes[1])
    loaded.graph.remove_initializers([loaded.graph.values["v"]])
    loaded.graph.insert("Neg", [loaded.graph.values["a"]], ["n"], before=loaded.graph.nodes[0])
    loaded.sync()
    assert [node.SerializeToString() for node in loaded.proto.graph.node][1:] == [before[0], before[2], before[3]]
    assert [tensor.name for tensor in loaded.proto.graph.initializer] == ["w", "u"]


def test_the_order_of_ten_thousand_nodes() -> None:
    nodes = [helper.make_node("Abs", ["x"], [f"v{index}"]) for index in range(5_000)]
    loaded = ir.load(model(nodes, outputs=["v0"]))
    for node in loaded.graph.nodes[1::2]:
        loaded.graph.insert("Neg", [node.input(0)], [f"{node.label}_n"], before=node)
        loaded.graph.remove(node)
    for _ in range(2):
        loaded.sync()
        order = [node.op_type for node in loaded.proto.graph.node]
        assert order == ["Abs", "Neg"] * 2_500
        assert [node.proto for node in loaded.graph.nodes] == list(loaded.proto.graph.node)
