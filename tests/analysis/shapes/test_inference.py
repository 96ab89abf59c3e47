"""What shape inference adds to what the file says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bnfold import analysis, ir
from bnfold.analysis.shapes.weights import contradicts_weights
from tests.ir.build import info, model, weight


def test_values_without_a_type_get_one_and_the_file_does_not() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["v"]), helper.make_node("Relu", ["v"], ["y"])]
    proto = model(nodes, [weight("w", 40, 60)])
    proto.graph.input[0].CopyFrom(info("x", "N", 40))
    proto.graph.output[0].CopyFrom(info("y", None, None))
    loaded = ir.load(proto)
    before = loaded.proto.SerializeToString()
    assert not loaded.graph.values["v"].shape
    analysis.infer_shapes(loaded)
    assert loaded.graph.values["v"].shape == ("N", 60)
    assert loaded.graph.values["y"].shape == ("N", 60)
    assert loaded.graph.values["v"].dtype == TensorProto.FLOAT
    assert loaded.proto.SerializeToString() == before


def test_no_size_follows_from_a_declared_one_of_zero() -> None:
    """Of an unknown image, padding is not all that there is."""
    pool = helper.make_node("MaxPool", ["x"], ["v"], kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    proto = model([pool, helper.make_node("Relu", ["v"], ["y"])])
    proto.graph.input[0].CopyFrom(info("x", 2, 3, 0, 4))
    loaded = ir.load(proto)
    analysis.infer_shapes(loaded)
    assert not isinstance((loaded.graph.values["v"].shape or ())[2], int)
    assert loaded.graph.values["x"].shape == (2, 3, None, 4)


def test_a_model_that_imports_no_opset_is_of_opset_1_here_too() -> None:
    source = model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])])
    del source.opset_import[:]
    loaded = ir.load(source)
    analysis.infer_shapes(loaded)
    assert loaded.graph.values["y"].shape == loaded.graph.values["x"].shape
    assert not loaded.proto.opset_import


def test_what_the_file_says_is_kept_where_inference_knows_no_more() -> None:
    nodes = [helper.make_node("Unknown", ["x"], ["u"], domain="d"), helper.make_node("Relu", ["u"], ["y"])]
    loaded = ir.load(model(nodes, value_info=[info("u", 3, "M")]))
    analysis.infer_shapes(loaded)
    assert loaded.graph.values["u"].shape == (3, "M")


def test_subgraphs_learn_too() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["b"])]
    branch = helper.make_graph(nodes, "branch", [], [onnx.ValueInfoProto(name="b")])
    proto = model([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], inputs=["x", "c"])
    proto.graph.input[0].CopyFrom(info("x", 2, 5))
    proto.graph.input[1].CopyFrom(info("c", dtype=TensorProto.BOOL))
    proto.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    loaded = ir.load(proto)
    analysis.infer_shapes(loaded)
    for graph in loaded.graph.nodes[0].subgraphs["then_branch"]:
        assert graph.values["t"].shape == (2, 5)


@pytest.mark.parametrize("trouble", ["ranks do not fit", "no such operator", "cycle"])
def test_a_model_that_onnx_gives_up_on_is_left_as_it_is(trouble: str) -> None:
    nodes = {
        "ranks do not fit": [helper.make_node("Concat", ["x", "w"], ["y"], axis=7)],
        "no such operator": [helper.make_node("Nonsense", ["x"], ["y"])],
        "cycle": [helper.make_node("Abs", ["y"], ["v"]), helper.make_node("Abs", ["v"], ["y"])],
    }[trouble]
    loaded = ir.load(model(nodes, [weight("w", 2, 3, dtype=np.float64)]))
    analysis.infer_shapes(loaded)
    assert loaded.graph.values["y"].shape == ("N",)


@pytest.mark.parametrize("constant", [False, True])
def test_a_shape_whose_bytes_lie_outside_is_read(tmp_path: Path, constant: bool) -> None:
    """Not the token that stands for them, which would give some random shape."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4,6] x) => (float[a,b,c] y) <int64[3] s = {2, 3, 4}>'
    if constant:
        text = text.partition(" <int64")[0] + " { s = Constant <value = int64[3] {2, 3, 4}> ()  y = Reshape (x, s) }"
    else:
        text += " { y = Reshape (x, s) }"
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    tensor = proto.graph.node[0].attribute[0].t if constant else proto.graph.initializer[0]
    tensor.raw_data = onnx.numpy_helper.to_array(tensor).tobytes()
    tensor.ClearField("int64_data")
    onnx.save(
        proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True, location="d"
    )
    model = ir.load(tmp_path / "m.onnx")
    assert model.origin.has_external_data
    analysis.infer_shapes(model)
    assert model.graph.values["y"].shape == (2, 3, 4)


def test_factors_whose_bytes_lie_outside_are_read(tmp_path: Path) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,2,4,6,3,5] x) => (float[a,b,c,d,e,f] y)'
        " <float[6] s = {1, 1, 2, 3, 1, 1}> { y = Resize (x, , s) }"
    )
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    tensor = proto.graph.initializer[0]
    tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), "s"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="d")
    model = ir.load(tmp_path / "m.onnx")
    assert model.origin.has_external_data
    analysis.infer_shapes(model)
    assert model.graph.values["y"].shape == (1, 2, 8, 18, 3, 5)


def test_what_is_computed_from_constants_is_shown_to_inference() -> None:
    """It looks at initializers, and at little else: not behind an Identity, say."""
    text = (
        '<ir_version: 8, opset_import: ["" : 13]> g (float[N,5,7,2] x) => (float[a,b,c,d] y)'
        " <int64[8] s = {1, 0, 1, 1, 1, 0, 2, 0}> { p = Identity (s)  y = Pad (x, p) }"
    )
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    loaded = ir.load(proto)
    before = loaded.proto.SerializeToString()
    analysis.infer_shapes(loaded)
    shape = loaded.graph.values["y"].shape
    assert shape is not None
    assert shape[1:] == (5, 10, 3)
    assert loaded.proto.SerializeToString() == before


@pytest.mark.parametrize(
    ("opset", "node", "size"),
    [
        (17, "y = Resize (x, , s)", None),
        (10, "y = Resize (x, s)", None),
        (9, "y = Upsample (x, s)", None),
        (7, "y = Upsample <scales = [1.0, 1.0, 1.4]> (x)", None),
        (19, "y = Resize <axes = [2]> (x, , t)", None),
        (19, 'y = Resize <axes = [2], keep_aspect_ratio_policy = "not_larger"> (x, , , i)', None),
        (17, 'y = Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, s, h)', None),
        (17, "y = Resize (x, , h)", 7),
        (17, "y = MaxPool <kernel_shape = [1], strides = [4], ceil_mode = 1> (x)", 2),
        (17, "y = MaxPool <kernel_shape = [1], strides = [3], ceil_mode = 1> (x)", None),
        (22, 'y = MaxPool <kernel_shape = [2], dilations = [2], auto_pad = "SAME_LOWER"> (x)', None),
        (22, 'y = MaxPool <kernel_shape = [2], dilations = [1], auto_pad = "SAME_LOWER"> (x)', 5),
        (22, 'y = MaxPool <kernel_shape = [2], dilations = [2], auto_pad = "VALID"> (x)', 3),
        (22, 'y = AveragePool <kernel_shape = [2], dilations = [2], auto_pad = "SAME_UPPER"> (x)', None),
        (22, 'y = LpPool <kernel_shape = [2], strides = [2], ceil_mode = 1, auto_pad = "SAME_UPPER"> (x)', None),
        (22, 'y = LpPool <kernel_shape = [2], strides = [2], auto_pad = "SAME_UPPER"> (x)', 3),
        (17, 'y = MaxPool <kernel_shape = [2], strides = [2], ceil_mode = 1, auto_pad = "VALID"> (x)', None),
        (17, 'y = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1, auto_pad = "VALID"> (x)', 3),
        (17, 'y = AveragePool <kernel_shape = [2], pads = [0, 0], auto_pad = "SAME_UPPER"> (x)', None),
        (17, 'y = AveragePool <kernel_shape = [2], pads = [1, 1], auto_pad = "NOTSET"> (x)', 6),
        (17, 'y = Conv <pads = [0, 1], auto_pad = "SAME_LOWER"> (x, w)', None),
        (17, 'y = Conv <dilations = [2], auto_pad = "SAME_LOWER"> (x, w)', 5),
        (17, 'y = ConvTranspose <strides = [2], output_padding = [1], auto_pad = "SAME_LOWER"> (x, w)', None),
        (17, 'y = ConvTranspose <strides = [2], auto_pad = "SAME_LOWER"> (x, w)', 10),
        (17, "y = ConvTranspose <strides = [2], output_shape = [9]> (x, w)", 9),
        (17, "y = Slice (x, b, e, a, d)", None),
        (17, "y = Slice (x, b, f, a, d)", 5),
        (17, "y = Slice (x, f, e, a, u)", 5),
    ],
)
@pytest.mark.parametrize("is_annotated", [False, True])
def test_a_size_that_runtimes_compute_differently_is_unknown(
    opset: int, node: str, size: int | None, is_annotated: bool
) -> None:
    """5 × 1.4 is 7 in float32 and less in float64: 6, as the file may say, too."""
    constants = "float[3] s = {1, 1, 1.4}, float[1] t = {1.4}, float[3] h = {1, 1, 1.5}, int64[1] i = {6}"
    constants += ", int64[1] a = {2}, int64[1] b = {-1}, int64[1] e = {9223372036854775807}, int64[1] f = {-9}"
    constants += f", int64[1] d = {{-1}}, int64[1] u = {{1}}, float[3,3,2] w = {{{', '.join('1' * 18)}}}"
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[1,3,5] x) => (float[1,3,6] z) <{constants}>'
    proto = onnx.parser.parse_model(f"{text} {{ {node} z = Relu (y) }}")
    if is_annotated:
        proto.graph.value_info.append(info("y", 1, 3, 6))
    else:
        proto.graph.output[0].type.tensor_type.ClearField("shape")
    if size is not None:
        proto.graph.output[0].type.tensor_type.ClearField("shape")
        del proto.graph.value_info[:]
    loaded = ir.load(proto)
    analysis.infer_shapes(loaded)
    for name in ("y", "z"):
        shape = loaded.graph.values[name].shape
        assert shape is not None
        assert (shape[2] if isinstance(shape[2], int) else None) == size


def test_no_rank_is_stated_axis_inference_stops_half_way() -> None:
    """Of a ConvTranspose whose ``output_shape`` is below the input's, onnx tells two axes."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,5] x) => (float[a,b,c] z)'
        f" <float[3,3,2] w = {{{', '.join('1' * 18)}}}>"
        " { y = ConvTranspose <strides = [2], output_shape = [4]> (x, w) z = Relu (y) }"
    )
    loaded = ir.load(onnx.parser.parse_model(text))
    analysis.infer_shapes(loaded)
    assert [loaded.graph.values[name].shape for name in ("y", "z")] == [None, None]


@pytest.mark.parametrize("image", [30, 3, -3])
def test_a_slice_of_a_negative_size_does_not_end_the_process(image: int) -> None:
    """Onnx 1.23 aborts in C++ where a Slice reads a Conv whose kernel is larger than its image (issue 19)."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[7, 7]),
        helper.make_node("Slice", ["a", "start", "end", "axis"], ["b"]),
        helper.make_node("Slice", ["b", "start", "end", "axis"], ["y"]),
    ]
    numbers = {"start": 1, "end": 3, "axis": 2}
    weights = [onnx.numpy_helper.from_array(np.array([number]), name) for name, number in numbers.items()]
    proto = model(nodes, [*weights, weight("w", 2, 2, 7, 7)])
    proto.graph.input[0].CopyFrom(info("x", 1, 2, image, image))
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    loaded = ir.load(proto)
    analysis.infer_shapes(loaded)
    assert loaded.graph.values["y"].shape == ((1, 2, 1, 24) if image == 30 else None)


@pytest.mark.parametrize("declared", ["float[N,7]", "float[N,4,H,W]"])
def test_a_declared_rank_counts_unless_weights_contradict_it(declared: str) -> None:
    """Runtimes warn of an output of another rank than declared, and go on."""
    text = f"""<ir_version: 8, opset_import: ["": 13]>
        g (float[N,3,H,W] x) => ({declared} c, float y) <float[2,3,1,1] w>
        {{ a = Conv (x, w)  c = Concat <axis = 1> (a, a)  b = Relu (c)  y = ReduceSum <keepdims = 0> (b) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w"))
    model = ir.load(proto)
    assert contradicts_weights(model) == (declared == "float[N,7]")
    analysis.infer_shapes(model)
    assert [len(model.graph.values[name].shape or ()) for name in ("c", "b")] == [4, 4]


def test_the_axes_of_a_slice_may_be_an_output_without_a_shape() -> None:
    """Onnx takes the first axis then."""
    constants = {"first": [0], "last": [7], "axes": [1]}
    stored = [helper.make_tensor(name, TensorProto.INT64, [1], held) for name, held in constants.items()]
    proto = model([helper.make_node("Slice", ["x", "first", "last", "axes"], ["y"])], stored)
    proto.graph.input[0].CopyFrom(info("x", 3, 15))
    proto.graph.output[0].CopyFrom(info("y", None, None))
    proto.graph.output.append(helper.make_tensor_value_info("axes", TensorProto.INT64, None))
    loaded = ir.load(proto)
    analysis.infer_shapes(loaded)
    assert loaded.graph.values["y"].shape == (3, 7)
