import onnx
import pytest

from bnfold import ir
from bnfold.errors import BadInput
from bnfold.upgrade import imports
from bnfold.upgrade.versions import newest_opset


def test_target() -> None:
    assert imports.resolve_target(6, None) == 15
    assert imports.resolve_target(17, None) == 17
    assert imports.resolve_target(17, 13) == 13
    assert imports.resolve_target(6, newest_opset()) == newest_opset()
    with pytest.raises(BadInput, match=str(newest_opset())):
        imports.resolve_target(6, newest_opset() + 1)


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [("ints", [1, 2], "INTS"), ("f", 0.5, "FLOAT"), ("s", b"x", "STRING"), ("i", 3, "INT"), (None, None, "INTS")],
)
def test_attribute_types_are_told_by_the_field_or_the_operator(field: str | None, value: object, kind: str) -> None:
    node = onnx.NodeProto(op_type="Conv", input=["x", "w"], output=["y"])
    attribute = node.attribute.add(name="pads")
    if isinstance(value, list):
        attribute.ints.extend(value)
    elif field is not None:
        setattr(attribute, field, value)
    graph = onnx.helper.make_graph([node], "g", [], [onnx.helper.make_tensor_value_info("y", 1, None)])
    model = ir.load(onnx.ModelProto(ir_version=1, graph=graph))
    imports.state_attribute_types(model)
    assert onnx.AttributeProto.AttributeType.Name(model.graph.nodes[0].proto.attribute[0].type) == kind
