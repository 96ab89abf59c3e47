"""What adapters are made of."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting.context import ConversionContext, Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.semantics import Policy


def conversion(body: str, *, target: int = 15, weights: str = "", inputs: str = "float[2, 3, 4] x") -> NodeConversion:
    text = f'<ir_version: 8, opset_import: ["" : 9]> g ({inputs}) => (float[] y) {weights} {{ {body} }}'
    model = ir.load(onnx.parser.parse_model(text))
    return NodeConversion(model.graph.nodes[0], ConversionContext(target, Policy(), Types(target)))


def test_what_is_not_known_is_an_error() -> None:
    unknown = conversion("p = my.Op (x) q = Relu (p) y = my.Op (q)")
    made = unknown.output()
    with pytest.raises(Inexpressible, match="rank of 'p'"):
        unknown.rank(made)
    with pytest.raises(Inexpressible, match="element type of 'p'"):
        unknown.dtype(made)
    with pytest.raises(Inexpressible, match="no input 1"):
        unknown.input(1)


def test_an_attribute_is_taken_once() -> None:
    taken = conversion("y = Clip <min = 0.5> (x)")
    assert taken.take("min") == 0.5
    assert taken.take("min", "none left") == "none left"


def test_equal_constants_of_one_upgrade_are_one_value() -> None:
    place = conversion("y = Relu (x)")
    assert place.ints([1, 2], "a") is place.ints([1, 2], "b")
    assert place.ints([1, 2], "a") is not place.ints([2, 1], "a")
    assert place.constant(np.zeros(1, np.float32), "c") is not place.constant(np.zeros(1, np.float64), "c")


def test_scalars_have_the_type_of_the_data() -> None:
    place = conversion("y = Relu (x)", inputs="float16[2] x")
    assert place.scalar(0.5, place.input(0), "half").dtype == onnx.TensorProto.FLOAT16


def test_axes_have_the_form_of_the_opset_that_is_written() -> None:
    early, late = conversion("y = Relu (x)", target=15), conversion("y = Relu (x)", target=18)
    first, second = (place.reduce_mean(place.input(0), [1], "mean").producer for place in (early, late))
    assert first is not None
    assert first.attr("axes") == [1]
    assert second is not None
    assert len(second.inputs) == 2


def test_a_reshaped_constant_loses_an_annotation_of_its_old_dims() -> None:
    place = conversion("y = Add (x, w)", weights="<float[3] w = {1, 2, 3}>")
    weight = place.input(1)
    place.graph.proto.value_info.add(name="w")
    assert place.reshape(weight, [3, 1], "column") is weight
    place.graph.model.sync()
    assert weight.shape == (3, 1)
    assert not place.graph.proto.value_info
    assert list(place.graph.proto.initializer[0].dims) == [3, 1]


@pytest.mark.parametrize(
    ("inputs", "ops"),
    [
        ("float[2, 3, 4] x", ["Relu", "Reshape"]),
        ("float[n, 3, 4] x", ["Relu", "Reshape"]),
        ("float[n, 3, w] x", ["Shape", "Relu", "Reshape"]),
        ("float[0, 3, 4] x", ["Relu", "Reshape"]),
        ("float[0, 3, 0] x", ["Shape", "Relu", "Reshape"]),
    ],
)
def test_a_shape_is_restored_from_what_is_known_of_it(inputs: str, ops: list[str]) -> None:
    place = conversion("y = Relu (x)", inputs=inputs)
    output = place.output()
    place.restore_shape(place.divert(0, "flat"), place.input(0), output)
    assert [node.op_type for node in place.graph.nodes] == ops
    assert output.producer is place.graph.nodes[-1]
