from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.errors import ConversionBlocked
from tests.converting.conftest import run

Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("target", [8, 9, 10, 11, 13, 15, 28])
def test_upsample_1(upgraded: Converted, text: Text, mode: str, target: int) -> None:
    call = f'y = Upsample <height_scale = 2.0, width_scale = 1.5, mode = "{mode}"> (x)'
    upgraded(text(1, "float[1, 2, 3, 4] x", call), target)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", ["1.0, 1.0, 2.0, 3.0", "1.0, 1.0, 1.7, 1.0", "1.0, 1.0, 1.0, 1.0"])
@pytest.mark.parametrize("target", [9, 10, 11, 15])
def test_upsample_7(upgraded: Converted, text: Text, mode: str, scales: str, target: int) -> None:
    call = f'y = Upsample <scales = [{scales}], mode = "{mode}"> (x)'
    outcome = upgraded(text(7, "float[n, 2, 3, 4] x", call), target)
    assert outcome.ops == ["Upsample" if target == 9 else "Resize"]


@pytest.mark.parametrize(("opset", "op_type"), [(9, "Upsample"), (10, "Resize")])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("target", [11, 15])
def test_scales_that_are_computed(
    upgraded: Converted, text: Text, opset: int, op_type: str, mode: str, target: int
) -> None:
    call = f'y = {op_type} <mode = "{mode}"> (x, s)'
    scales = np.array([1, 1, 2, 1.7], np.float32)
    outcome = upgraded(text(opset, "float[2, 3, 4, 5] x, float[4] s", call), target, feeds={"s": scales})
    expected = 2 if (op_type, mode) == ("Resize", "nearest") else 1
    assert outcome.ops.count("Resize") == expected


@pytest.mark.parametrize("scales", ["1, 1, 2, 3", "1, 1, 0.6, 0.6", "1, 1, 2, 0.5", "1, 1, 1, 1"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_10_shrinks_and_grows_each_axis_in_its_own_way(
    upgraded: Converted, text: Text, scales: str, mode: str
) -> None:
    head = text(10, "float[1, 1, 4, 6] x", "").removesuffix("{  }")
    source = f'{head} <float[4] s = {{{scales}}}> {{ y = Resize <mode = "{mode}"> (x, s) }}'
    shrinks = "0." in scales and mode == "nearest"
    outcome = upgraded(source, compare=not shrinks)  # the referee does not choose a neighbour for shrinking axes
    node = outcome.model.graph.nodes[-1]
    assert node.attr("coordinate_transformation_mode") == "asymmetric"
    assert outcome.ops.count("Resize") == (2 if scales == "1, 1, 2, 0.5" and mode == "nearest" else 1)
    if mode == "nearest":
        assert node.attr("nearest_mode") == ("ceil" if shrinks else "floor")


def test_resize_10_shrinks_as_onnxs_own_test_says(upgraded: Converted, text: Text) -> None:
    """Case test_resize_downsample_nearest of onnx 1.5 (opset 10): [[1, 2, 3, 4], [5, 6, 7, 8]] by .6 gives [[1, 3]]."""
    from bnfold import reference

    head = text(10, "float[1, 1, 2, 4] x", "").removesuffix("{  }")
    source = f'{head} <float[4] s = {{1, 1, 0.6, 0.6}}> {{ y = Resize <mode = "nearest"> (x, s) }}'
    outcome = upgraded(source, compare=False)
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    np.testing.assert_array_equal(reference.evaluate(outcome.model, {"x": x})["y"], [[[[1, 3]]]])


def test_upsample_written_at_an_opset_that_has_withdrawn_it(upgraded: Converted, text: Text) -> None:
    head = text(11, "float[1, 1, 4, 6] x", "").removesuffix("{  }")
    source = f"{head} <float[4] s = {{1, 1, 2, 2}}> {{ y = Upsample (x, s) }}"
    assert upgraded(source, compare=False).ops == ["Resize"]


STORED, MADE = "<float[4] s = {1, 1, 2, 1.7}> { ", "{ s = Constant <value = float[4] {1, 1, 2, 1.7}> () "


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("target", [8, 7])
@pytest.mark.parametrize("scales", [STORED, MADE])
def test_upsample_9_states_its_scales(lowered: Converted, text: Text, mode: str, target: int, scales: str) -> None:
    source = text(9, "float[1, 2, 3, n] x", f'y = Upsample <mode = "{mode}"> (x, s)').replace("{ ", scales, 1)
    outcome = lowered(source, target)
    assert outcome.ops == ["Upsample"]
    assert outcome.model.graph.nodes[0].attr("scales") == pytest.approx([1, 1, 2, np.float32(1.7)], abs=0)


@pytest.mark.parametrize("value", ["", " = {1, 1, 2, 1.7}"])
def test_scales_that_callers_give_or_override_are_no_attribute(text: Text, value: str) -> None:
    source = text(9, f"float[1, 2, 3, 4] x, float[4] s{value}", "y = Upsample (x, s)")
    with pytest.raises(ConversionBlocked, match="scales that are not constant"):
        upgrade(ir.load(onnx.parser.parse_model(source)), 8)


def test_missing_scales_are_named(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="no height_scale"):
        upgraded(text(1, "float[1, 2, 3, 4] x", "y = Upsample (x)"))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("target", [17, 13, 12, 11])
@pytest.mark.parametrize(
    ("inputs", "weights"),
    [
        ("x, , f", "float[4] f = {1, 1, 2, 1.5}"),
        ("x, , , z", "int64[4] z = {1, 2, 7, 5}"),
        ("x, , f, ", "float[2] f = {1.5, 2}"),
        ("x, , , z", "int64[2] z = {7, 5}"),
    ],
)
def test_down_to_every_axis(lowered: Converted, text: Text, mode: str, target: int, inputs: str, weights: str) -> None:
    axes = "axes = [-1, 2], " if "[2]" in weights else ""
    node = f'Resize <{axes}mode = "{mode}"> ({inputs.removesuffix(", ")})'
    source = text(18, "float[1, 2, 3, 4] x", f"y = {node}").replace(") { ", f") <{weights}> {{ ", 1)
    assert lowered(source, target).ops == ["Resize"]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ('<mode = "linear", antialias = 1> (x, , f)', "attribute antialias is newer"),
        ('<keep_aspect_ratio_policy = "not_larger"> (x, , , z)', "attribute keep_aspect_ratio_policy is newer"),
    ],
)
def test_resizes_that_are_refused(text: Text, node: str, reason: str) -> None:
    inputs = "float[1, 2, 3, 4] x, float[4] f, int64[k] z"
    with pytest.raises(ConversionBlocked, match=reason):
        upgrade(ir.load(onnx.parser.parse_model(text(18, inputs, f"y = Resize {node}"))), 17)


@pytest.mark.parametrize("target", [17, 13, 11])
@pytest.mark.parametrize(("given", "numbers"), [("scales", [2.0, 3.0]), ("sizes", [6, 4])])
def test_computed_numbers_of_some_axes(
    lowered: Converted, text: Text, given: str, numbers: list[float], target: int
) -> None:
    kind = "float" if given == "scales" else "int64"
    body = f"y = Resize <axes = [3, -2]> (x, , {'s' if given == 'scales' else ', s'})"
    source = text(18, f"float[1, 2, 3, 4] x, {kind}[2] s", body, outputs="float[a, b, c, d] y")
    dtype = np.float32 if given == "scales" else np.int64
    lowered(source, target, feeds={"s": np.array(numbers, dtype)})


NONE = "n = Constant <value_ints = [0]> () e = Slice (w, n, n) e64 = Cast <to = 7> (e)"
FILLED = "n = Constant <value = int64[1] {0}> () e = ConstantOfShape (n) e64 = Cast <to = 7> (e)"
GIVEN = "f = Constant <value = float[4] {1, 1, 2, 1.5}> () z = Constant <value = int64[4] {1, 2, 6, 6}> ()"


@pytest.mark.parametrize("empty", [NONE, FILLED])
@pytest.mark.parametrize("target", [13, 19])
@pytest.mark.parametrize(("inputs", "kept"), [("e, z", ["x", "e", "", "z"]), ("f, e64", ["x", "e", "f"])])
def test_empty_scales_or_sizes_are_left_out(
    upgraded: Converted, text: Text, empty: str, target: int, inputs: str, kept: list[str]
) -> None:
    """With both, neither the checker nor onnxruntime takes it from 13 on, unless the empty one is stored."""
    source = text(12, "float[1, 2, 3, 4] x, float[4] w", f"{empty} {GIVEN} y = Resize (x, e, {inputs})")
    outcome = upgraded(source.replace("float[] y", "float[1, 2, 6, 6] y"), target)
    assert list(outcome.model.proto.graph.node[-1].input) == kept
    np.testing.assert_allclose(run(outcome.model.proto, outcome.feeds)["y"], outcome.results["y"], atol=1e-6)


@pytest.mark.parametrize("dims", ["0", "k"])
def test_scales_of_callers_are_empty_beside_sizes(upgraded: Converted, text: Text, dims: str) -> None:
    source = text(11, f"float[1, 2, 3, 4] x, float[{dims}] e", f"{GIVEN} y = Resize (x, e, e, z)")
    outcome = upgraded(source, 13, feeds={"e": np.zeros(0, np.float32)})
    assert list(outcome.model.proto.graph.node[-1].input) == ["x", "e", "", "z"]


def test_scales_and_sizes_of_which_either_may_be_empty(text: Text) -> None:
    source = text(11, "float[1, 2, 3, 4] x, float[0] e, int64[0] z", "y = Resize (x, e, e, z)")
    with pytest.raises(ConversionBlocked, match="not known which of them is empty"):
        upgrade(ir.load(onnx.parser.parse_model(source)), 13)


def test_scales_beside_sizes_are_an_error_in_either_version(upgraded: Converted, text: Text) -> None:
    source = text(11, "float[1, 2, 3, 4] x, float[0] e", f"{GIVEN} y = Resize (x, e, f, z)")
    assert len(upgraded(source, 13, compare=False).model.graph.nodes[-1].inputs) == 4


WHOLE, BROKEN, SMALLER = "1.0, 1.0, 2.0, 3.0", "1.0, 1.0, 1.5, 2.0", "1.0, 1.0, 0.5, 1.0"
FLOOR = 'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
CEIL = 'coordinate_transformation_mode = "asymmetric", nearest_mode = "ceil"'
LINEAR = 'coordinate_transformation_mode = "asymmetric", mode = "linear"'
MIDDLE = 'coordinate_transformation_mode = "half_pixel"'


@pytest.mark.parametrize(
    ("attrs", "scales"),
    [(FLOOR, WHOLE), (FLOOR, BROKEN), (CEIL, SMALLER), (LINEAR, WHOLE), (LINEAR, SMALLER), (MIDDLE, WHOLE)],
)
@pytest.mark.parametrize("target", [10, 9, 8])
def test_points_that_version_10_knows(lowered: Converted, text: Text, attrs: str, scales: str, target: int) -> None:
    body = f"s = Constant <value = float[4] {{{scales}}}> () y = Resize <{attrs}> (x, , s)"
    source = text(13, "float[1, 2, 4, 4] x", body)
    last = "Resize" if target == 10 else "Identity" if scales == SMALLER else "Upsample"
    assert lowered(source, target).ops[-1] == last


@pytest.mark.parametrize(("attrs", "scales"), [(MIDDLE, BROKEN), (CEIL, WHOLE), (FLOOR, SMALLER)])
def test_other_points_are_stored(lowered: Converted, text: Text, attrs: str, scales: str) -> None:
    body = f"s = Constant <value = float[4] {{{scales}}}> () y = Resize <{attrs}> (x, , s)"
    assert "Gather" in lowered(text(13, "float[1, 2, 4, 4] x", body), 10).ops


@pytest.mark.parametrize("size", [8, 6])
def test_sizes_that_are_multiples(lowered: Converted, text: Text, size: int) -> None:
    body = f"s = Constant <value = int64[4] {{1, 2, {size}, 4}}> () y = Resize <{FLOOR}> (x, , , s)"
    source = text(13, "float[1, 2, 4, 4] x", body)
    assert lowered(source, 9).ops[-1] == ("Upsample" if size == 8 else "Identity")
