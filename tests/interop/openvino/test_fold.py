"""Folding through the real package: OpenVINO builds the model, bnfold folds it, OpenVINO runs both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("openvino")

from bnfold.report.reasons import Reason
from tests.conftest import MODELS
from tests.interop.openvino.runtime import (
    HALF,
    ROUNDING,
    check,
    constant,
    core,
    draw,
    norm,
    ov,
    refold,
    run,
    save,
    types,
    v5,
)

ONE, ZERO = [1, 1], [0, 0]


def convolution(x: Any) -> Any:
    return v5.convolution(x, constant(draw(6, 4, 3, 2)), [2, 1], [1, 0], [0, 1], ONE, name="home")


def grouped(x: Any) -> Any:
    return v5.group_convolution(x, constant(draw(2, 3, 2, 3, 2)), ONE, ZERO, ONE, [1, 2], name="home")


def depthwise(x: Any) -> Any:
    return v5.group_convolution(x, constant(draw(4, 1, 1, 2, 3)), ONE, ONE, ONE, ONE, name="home")


def backprop(x: Any) -> Any:
    return v5.convolution_backprop_data(x, constant(draw(4, 6, 3, 2)), [2, 3], name="home")


def backprop_to_shape(x: Any) -> Any:
    return v5.convolution_backprop_data(
        x, constant(draw(4, 6, 3, 2)), [2, 3], output_shape=constant(np.array([19, 23])), name="home"
    )


def grouped_backprop(x: Any) -> Any:
    return v5.group_convolution_backprop_data(x, constant(draw(2, 2, 3, 3, 2)), [2, 1], name="home")


ABSORBERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "Convolution": (convolution, 6),
    "GroupConvolution": (grouped, 6),
    "depthwise": (depthwise, 4),
    "ConvolutionBackpropData": (backprop, 6),
    "output_shape": (backprop_to_shape, 6),
    "GroupConvolutionBackpropData": (grouped_backprop, 6),
}


@pytest.mark.parametrize("version", [0, 5])
@pytest.mark.parametrize("bias", ["none", "right", "left", "two"])
@pytest.mark.parametrize("kind", ABSORBERS)
def test_absorbers(tmp_path: Path, kind: str, bias: str, version: int) -> None:
    build, channels = ABSORBERS[kind]
    x = v5.parameter([3, 4, 9, 7], np.float32, name="x")
    made = build(x)
    if bias != "none":
        shift = constant(draw(1, channels, 1, 1))
        made = v5.add(shift, made) if bias == "left" else v5.add(made, shift)
    if bias == "two":
        made = v5.multiply(made, constant(draw(channels, 1, 1, seed=2)))
    path = save(tmp_path / "m.xml", [v5.relu(norm(made, channels, version=version))], [x])
    outcome, target = refold(path)
    (event,) = outcome.report.batchnorms
    assert (event.verdict, event.into, event.version) == ("folded", ("home",), version)
    assert event.operators == (build(x).get_type_name(),)
    kinds = types(target)
    assert "BatchNormInference" not in kinds
    assert kinds.count("Add") == 1
    assert "Multiply" not in kinds
    check(path, target, draw(3, 4, 9, 7, seed=5))


@pytest.mark.parametrize("version", [0, 5])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_matmul(tmp_path: Path, version: int, transposed: bool, bias: bool) -> None:
    x = v5.parameter([5, 3], np.float32, name="x")
    weight = draw(7, 3) if transposed else draw(3, 7)
    made = v5.matmul(x, constant(weight), False, transposed, name="home")
    if bias:
        made = v5.add(made, constant(draw(1, 7)))
    path = save(tmp_path / "m.xml", [norm(made, 7, version=version)], [x])
    outcome, target = refold(path)
    assert [event.verdict for event in outcome.report.batchnorms] == ["folded"]
    assert [kind for kind in types(target) if kind in ("MatMul", "Add", "BatchNormInference")] == ["MatMul", "Add"]
    check(path, target, draw(5, 3, seed=5))


def test_a_constant_on_the_left_of_a_matmul_gives_its_rows(tmp_path: Path) -> None:
    x = v5.parameter([2, 3, 5], np.float32, name="x")
    made = v5.matmul(constant(draw(3, 7)), x, True, False, name="home")
    path = save(tmp_path / "m.xml", [norm(made, 7)], [x])
    outcome, target = refold(path, exchange="always")
    assert [event.verdict for event in outcome.report.batchnorms] == ["exchanged"]
    check(path, target, draw(2, 3, 5, seed=5))


def test_channels_that_are_not_the_columns_of_a_matmul(tmp_path: Path) -> None:
    """Rank 3, and 7 columns beside 7 channels: sizes that agree prove nothing."""
    x = v5.parameter([2, 7, 3], np.float32, name="x")
    path = save(tmp_path / "m.xml", [norm(v5.matmul(x, constant(draw(3, 7)), False, False), 7)], [x])
    outcome, target = refold(path)
    (event,) = outcome.report.batchnorms
    assert (event.verdict, event.reason) == ("kept", Reason.AXIS)
    check(path, target, draw(2, 7, 3, seed=5))


@pytest.mark.parametrize("kind", ["Convolution", "GroupConvolution", "GroupConvolutionBackpropData"])
def test_into_what_reads_it(tmp_path: Path, kind: str) -> None:
    """At the front, where nothing stands before it: no padding, so the shift goes through as well."""
    x = v5.parameter([3, 4, 9, 7], np.float32, name="x")
    front = norm(x, 4)
    made = {
        "Convolution": lambda: v5.convolution(front, constant(draw(6, 4, 3, 2)), ONE, ZERO, ZERO, ONE, name="home"),
        "GroupConvolution": lambda: v5.group_convolution(
            front, constant(draw(2, 3, 2, 3, 2)), ONE, ZERO, ZERO, ONE, name="home"
        ),
        "GroupConvolutionBackpropData": lambda: v5.group_convolution_backprop_data(
            front, constant(draw(2, 2, 3, 1, 1)), ONE, name="home"
        ),
    }[kind]()
    path = save(tmp_path / "m.xml", [made], [x])
    outcome, target = refold(path)
    assert [event.verdict for event in outcome.report.batchnorms] == ["folded"]
    check(path, target, draw(3, 4, 9, 7, seed=5))


def test_padding_dilutes_a_shift(tmp_path: Path) -> None:
    """What is added before the padding stays, as an Add in the place of the whole operator."""
    x = v5.parameter([3, 4, 9, 7], np.float32, name="x")
    made = v5.convolution(norm(x, 4), constant(draw(6, 4, 3, 3)), ONE, ZERO, ZERO, ONE, auto_pad="same_upper")
    path = save(tmp_path / "m.xml", [made], [x])
    _, target = refold(path, exchange="always")
    assert [kind for kind in types(target) if kind in ("Convolution", "Add")] == ["Add", "Convolution"]
    check(path, target, draw(3, 4, 9, 7, seed=5))


def test_a_path_through_other_layers(tmp_path: Path) -> None:
    """Concat of two, a Split behind it, pooling, a mean over the image, a MatMul at the end."""
    x = v5.parameter([2, 4, 8, 6], np.float32, name="x")
    arms = [norm(convolution(x), 6, name="a", version=0), convolution(x)]
    joined = norm(v5.concat(arms, -3), 12, name="b")
    pooled = v5.avg_pool(joined, ONE, ZERO, ZERO, [2, 2], False, "floor", "explicit")
    flat = v5.squeeze(
        v5.reduce_mean(norm(pooled, 12, name="c", seed=3), constant(np.array([-1, -2])), True), constant([2, 3])
    )
    path = save(tmp_path / "m.xml", [v5.matmul(flat, constant(draw(5, 12)), False, True)], [x])
    outcome, target = refold(path)
    assert [event.verdict for event in outcome.report.batchnorms] == ["folded"] * 3
    check(path, target, draw(2, 4, 8, 6, seed=5))


def test_weights_that_others_read_stay(tmp_path: Path) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    shared = constant(draw(6, 4, 3, 2))
    first, second = (v5.convolution(x, shared, ONE, ZERO, ZERO, ONE, name=name) for name in ("first", "second"))
    path = save(tmp_path / "m.xml", [norm(first, 6), v5.relu(second)], [x])
    outcome, target = refold(path, max_growth=10_000)
    assert outcome.report.batchnorms[0].verdict == "folded"
    check(path, target, draw(2, 4, 9, 7, seed=5))


def test_several_readers_keep_what_they_read(tmp_path: Path) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    made = convolution(x)
    path = save(tmp_path / "m.xml", [norm(made, 6), v5.relu(made)], [x])
    outcome, target = refold(path)
    assert outcome.report.batchnorms[0].reason == Reason.SHARED_VALUE
    check(path, target, draw(2, 4, 9, 7, seed=5))


@pytest.mark.parametrize("form", ["mul_add", "sub_mul_add", "depthwise_conv"])
@pytest.mark.parametrize("version", [0, 5])
def test_what_cannot_be_folded_is_kept_with_its_reason_and_can_be_decomposed(
    tmp_path: Path, form: str, version: int
) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    path = save(tmp_path / "m.xml", [v5.sigmoid(norm(v5.tanh(convolution(x)), 6, version=version))], [x])
    kept, target = refold(path, target_opset="keep")
    (event,) = kept.report.batchnorms
    assert (event.verdict, event.reason, event.version) == ("kept", Reason.NO_HANDLER, version)
    assert "Tanh" in event.detail or "Sigmoid" in event.detail
    assert types(target).count("BatchNormInference") == 1
    outcome, target = refold(path, decompose="remaining", decompose_form=form)
    assert outcome.report.batchnorms[0].verdict == "decomposed"
    assert "BatchNormInference" not in types(target)
    assert ("GroupConvolution" in types(target)) == (form == "depthwise_conv")
    check_runs(path, target)


def check_runs(path: Path, target: Path, bound: float = ROUNDING) -> None:
    feeds = draw(2, 4, 9, 7, seed=5)
    for before, after in zip(run(path, feeds), run(target, feeds), strict=True):
        assert np.abs(before - after).max() < bound * np.abs(before).max()


def test_parameters_that_are_computed_are_decomposed_at_run_time(tmp_path: Path) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    gamma = v5.parameter([4], np.float32, name="gamma")
    vectors = [gamma, *map(constant, (draw(4), draw(4), np.abs(draw(4)) + 0.5))]
    path = save(tmp_path / "m.xml", [v5.batch_norm_inference(x, *vectors, 1e-3)], [x, gamma])
    outcome, target = refold(path)
    assert outcome.report.batchnorms[0].reason == Reason.DYNAMIC_PARAMETERS
    outcome, target = refold(path, decompose="remaining")
    assert outcome.report.batchnorms[0].verdict == "decomposed"
    check(path, target, draw(2, 4, 9, 7), draw(4, seed=3))


def test_open_sizes(tmp_path: Path) -> None:
    x = v5.parameter([-1, 4, -1, -1], np.float32, name="x")
    path = save(tmp_path / "m.xml", [norm(convolution(x), 6)], [x])
    outcome, target = refold(path)
    assert outcome.report.batchnorms[0].verdict == "folded"
    for dims in ((1, 4, 9, 7), (3, 4, 5, 8)):
        check(path, target, draw(*dims, seed=5))


def test_compressed_weights_stay_compressed_and_are_rounded_once(tmp_path: Path) -> None:
    x = v5.parameter([2, 4, 9, 7], np.float32, name="x")
    path = save(tmp_path / "m.xml", [v5.relu(norm(grouped(x), 6))], [x], compress=True)
    outcome, target = refold(path)
    assert outcome.report.batchnorms[0].verdict == "folded"
    check(path, target, draw(2, 4, 9, 7, seed=5), bound=HALF)
    found = {node.get_friendly_name(): node for node in core().read_model(target).get_ordered_ops()}
    stored = [node for node in found.values() if node.get_type_name() == "Constant"]
    assert {node.get_element_type().get_type_name() for node in stored} == {"f16"}
    kernel = draw(2, 3, 2, 3, 2).astype(np.float16).astype(np.float64)
    gamma, *_, variance = (held.astype(np.float16).astype(np.float64) for held in _statistics())
    exact = kernel * (gamma / np.sqrt(variance + np.float64(np.float32(1e-3)))).reshape(2, 3, 1, 1, 1)
    weight = next(node for node in stored if list(node.shape) == [2, 3, 2, 3, 2])
    np.testing.assert_array_equal(weight.data, exact.astype(np.float16))


def _statistics() -> list[Any]:
    from tests.interop.openvino.text import statistics

    return statistics(6, 0)


def branches(*, compress: bool, folder: Path) -> Path:
    """An If: one branch convolves and normalises, the other only normalises."""
    x, condition = v5.parameter([2, 4, 9, 7], np.float32, name="x"), v5.parameter([], bool, name="condition")
    inner, other = v5.parameter([2, 4, 9, 7], np.float32), v5.parameter([2, 4, 9, 7], np.float32)
    first = ov.Model([v5.result(norm(depthwise(inner), 4, name="inside", version=0))], [inner], "then")
    second = ov.Model([v5.result(v5.relu(norm(v5.tanh(other), 4, name="beside")))], [other], "else")
    branch = v5.if_op(condition)
    branch.set_friendly_name("branch")
    branch.set_then_body(first)
    branch.set_else_body(second)
    branch.set_input(x.output(0), inner, other)
    made = branch.set_output(first.results[0], second.results[0])
    return save(folder / "m.xml", [v5.relu(made)], [x, condition], compress=compress)


@pytest.mark.parametrize("compress", [False, True])
def test_bodies_are_visited(tmp_path: Path, compress: bool) -> None:
    path = branches(compress=compress, folder=tmp_path)
    outcome, target = refold(path, decompose="remaining")
    found = {event.name: event for event in outcome.report.batchnorms}
    assert found["inside"].verdict == "folded"
    assert found["inside"].graph == "branch.then_body"
    assert found["inside"].version == 0
    assert found["beside"].verdict == "decomposed"
    (inner,) = (node for node in core().read_model(target).get_ordered_ops() if node.get_type_name() == "If")
    for index in (0, 1):
        assert "BatchNormInference" not in [node.get_type_name() for node in inner.get_function(index).get_ops()]
    for condition in (True, False):
        feeds = draw(2, 4, 9, 7, seed=5), np.array(condition)
        (before,), (after,) = run(path, *feeds), run(target, *feeds)
        assert np.abs(before - after).max() < (HALF if compress else ROUNDING) * np.abs(before).max()


def loaded_models() -> list[str]:
    return sorted(path.name for path in MODELS.glob("*.onnx"))


@pytest.mark.parametrize("name", loaded_models())
def test_models_that_openvino_reads_from_onnx(tmp_path: Path, name: str) -> None:
    """Its ONNX frontend keeps BatchNormalization, always as version 5; convert_model takes it out itself."""
    try:
        model = core().read_model(MODELS / name)
    except RuntimeError as error:
        pytest.skip(f"OpenVINO does not read it: {str(error).splitlines()[0]}")
    path = tmp_path / "m.xml"
    ov.serialize(model, path)
    before = types(path).count("BatchNormInference")
    outcome, target = refold(path)
    here = [event for event in outcome.report.batchnorms if not event.graph]
    assert len(here) == before
    after = types(target).count("BatchNormInference")
    assert after == sum(event.verdict in ("kept", "upgraded") for event in here)
    feeds = []
    for port in model.inputs:
        dims = [size.get_length() if size.is_static else 8 for size in port.partial_shape]
        kind = port.element_type.to_dtype()
        value = np.abs(draw(*dims)) + 0.1 if dims else np.array(1)
        feeds.append((value > 0.5 if kind == bool else value).astype(kind))  # noqa: E721 - a numpy type
    try:
        expected = run(path, *feeds)
    except RuntimeError as error:
        pytest.skip(f"OpenVINO does not run it: {str(error).splitlines()[0]}")
    half = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in onnx.load(MODELS / name).graph.initializer)
    for old, new in zip(expected, run(target, *feeds), strict=True):
        assert np.abs(old.astype(float) - new).max() <= (HALF if half else ROUNDING) * np.abs(old.astype(float)).max()


def test_what_convert_model_makes_has_nothing_to_fold(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    ov.save_model(ov.convert_model(MODELS / "resnet_opset6.onnx"), path)
    outcome, target = refold(path)
    assert outcome.report.batchnorms == []
    assert types(path) == types(target)
