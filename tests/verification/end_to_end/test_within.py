"""With a tolerance: what is compared, what is said of it, and what no tolerance covers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import bnfold
from bnfold import VerifyOptions
from bnfold.errors import BadInput, BadSetting
from bnfold.settings import Tolerance
from bnfold.verification import Verdict
from tests.verification.graphs import Weights, model

pytest.importorskip("onnxruntime")

Feeds = dict[str, np.ndarray[Any, Any]]

HEAD = "(float[4,8] x) => (float[4,8] y)"
DENSE = f"{HEAD} {{ h = MatMul (x, w)  y = Add (h, b) }}"


def weights(factor: float = 1.0) -> Weights:
    draw = np.random.default_rng(0)
    return {"w": draw.standard_normal((8, 8)) * factor, "b": draw.standard_normal(8)}


def dense(factor: float = 1.0, dtype: type = np.float32) -> onnx.ModelProto:
    return model(DENSE, weights(factor), dtype=dtype)


def alone(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Feeds) -> dict[str, tuple[float, float]]:
    """The largest and the mean error of each output as onnxruntime alone computes it."""
    import onnxruntime

    found = []
    for each in (before, after):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(each.SerializeToString(), options)
        types = {value.name: value.type for value in session.get_inputs()}
        cast = {
            name: array.astype(np.float16) if types[name] == "tensor(float16)" else array
            for name, array in feeds.items()
        }
        names = [value.name for value in session.get_outputs()]
        found.append({name: got.astype(np.float64) for name, got in zip(names, session.run(None, cast), strict=True)})
    old, new = found
    return {
        name: (
            float(np.abs(new[name] - old[name]).max() / np.abs(old[name]).max()),
            float(np.abs(new[name] - old[name]).mean() / np.abs(old[name]).max()),
        )
        for name in old
    }


def half(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same in float16, inputs and outputs too."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for info in (*copy.graph.input, *copy.graph.output):
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return copy


def recorded(folder: Path, **arrays: np.ndarray[Any, Any]) -> VerifyOptions:
    np.savez(folder / "inputs.npz", allow_pickle=False, **arrays)
    return VerifyOptions(data=folder / "inputs.npz")


def judged(body: str, first: Weights, second: Weights, tolerance: Tolerance = 0.05, **options: Any) -> Verdict:
    return bnfold.verify(model(body, first), model(body, second), tolerance=tolerance, options=VerifyOptions(**options))


def in_one_sense(verdict: Verdict) -> None:
    """What the verdict says, and what each row says, follow from one comparison."""
    beyond = [row for row in verdict.outputs if row.fault]
    assert (verdict.status == "failed") == bool(beyond)
    for row in verdict.outputs:
        assert bool(row.fault) == (row.beyond > 0)
        assert not (row.same_pattern and not row.fault and row.relative > row.allowed)


@pytest.mark.parametrize("tolerance", ["float16", 0.01])
def test_a_float16_version_is_compared_after_a_cast(tolerance: Tolerance, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    before, after = dense(), half(dense())
    verdict = bnfold.verify(before, after, tolerance=tolerance, options=recorded(tmp_path, x=x))
    assert (verdict.status, verdict.decided_by, verdict.tolerance) == ("verified", "tolerance", tolerance)
    (row,) = verdict.outputs
    assert (row.relative, row.mean) == pytest.approx(alone(before, after, {"x": x})["y"], rel=1e-6)
    assert (row.beyond, row.fault) == (0.0, "")
    in_one_sense(verdict)


def test_without_a_tolerance_its_types_are_another_interface_and_the_next_step_is_named() -> None:
    verdict = bnfold.verify(dense(), half(dense()))
    assert (verdict.status, verdict.decided_by) == ("failed", "interface")
    assert verdict.reason == "input 'x' was of type float and is of type float16"
    assert verdict.next is not None
    assert verdict.next.text.startswith('tolerance="float16" verifies it (')
    assert verdict.next.text.endswith("; AFTER is a float16 version of BEFORE")
    assert (verdict.next.options, verdict.next.tried) == (("--tolerance", "float16"), True)


QDQ = """(float[4,8] x) => (float[4,8] y) {
    q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)
    h = MatMul (d, w)  y = Add (h, b)
}"""


def quantized() -> onnx.ModelProto:
    scales: Weights = {"s": np.array(0.2), "z": np.array(3, np.int8)}
    return model(QDQ, {**weights(), **scales})


def test_of_an_int8_version_the_error_is_the_one_from_end_to_end(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    options = recorded(tmp_path, x=x)
    strict = bnfold.verify(dense(), quantized(), options=options)
    assert strict.status == "failed"
    assert strict.next is not None
    assert re.fullmatch(r"tolerance=0\.\d+ verifies it \(.* s\); AFTER is an int8 version of BEFORE", strict.next.text)
    assert bnfold.verify(dense(), quantized(), tolerance=float(strict.next.options[1]), options=options).verified
    largest, mean = alone(dense(), quantized(), {"x": x})["y"]
    for tolerance, status in ((largest * 1.01, "verified"), (largest * 0.99, "failed")):
        verdict = bnfold.verify(dense(), quantized(), tolerance=tolerance, options=options)
        (row,) = verdict.outputs
        assert verdict.status == status
        assert (row.relative, row.mean, row.allowed) == pytest.approx((largest, mean, tolerance), rel=1e-6)
        in_one_sense(verdict)


def test_a_sentence_and_a_row_have_the_same_number_and_the_caller_s_tolerance() -> None:
    verdict = judged(DENSE, weights(), weights(1.2), 0.05)
    (row,) = verdict.outputs
    assert verdict.reason.startswith(f"output 'y' differs by {row.relative:.2g}, 0.05 allowed")
    assert row.allowed == pytest.approx(0.05)


def test_a_weight_that_is_wrong_is_no_rounding() -> None:
    wrong = weights()
    wrong["w"][3, 3] *= 1.1
    assert bnfold.verify(dense(), half(model(DENSE, wrong)), tolerance="float16").status == "failed"
    assert bnfold.verify(dense(), half(dense()), tolerance="float16")


def test_bfloat16_allows_more_than_float16() -> None:
    moved = weights()
    moved["w"] = moved["w"] * (1 + 2.0**-9 * np.sign(np.random.default_rng(2).standard_normal((8, 8))))
    coarse = {name: array * (1 + 0.008) for name, array in weights().items()}
    assert judged(DENSE, weights(), coarse, "bfloat16")
    assert judged(DENSE, weights(), moved, "bfloat16")
    assert judged(DENSE, weights(), coarse, "float16").status == "failed"


PATTERNS = f"{HEAD} {{ h = MatMul (x, w)  l = Log (h)  y = Div (l, zero) }}"


@pytest.mark.parametrize(("zero", "status"), [(0.0, "unverified"), (1.0, "verified")])
def test_nan_and_infinities_agree_where_they_are_the_same(zero: float, status: str) -> None:
    """Of only infinities and NaN nothing is seen."""
    body = f"{HEAD} {{ h = Mul (x, w)  l = Log (h)  y = Div (l, zero) }}"
    first: Weights = {"w": np.ones(8), "zero": np.array(zero)}
    second: Weights = {**first, "w": np.full(8, 1.0001)}
    assert judged(body, first, second, 0.05).status == status


def test_a_nan_in_another_place_has_no_tolerance() -> None:
    body = f"{HEAD} {{ h = Add (x, w)  y = Sqrt (h) }}"
    verdict = judged(body, {"w": np.full(8, 9.0)}, {"w": np.full(8, 0.5)}, 0.9)
    (row,) = verdict.outputs
    assert (verdict.status, row.same_pattern) == ("failed", False)
    assert "NaN in 0 elements" in row.fault
    assert row.fault in verdict.reason
    assert 0 < row.beyond < 1
    in_one_sense(verdict)


def test_an_overflow_of_float16_is_no_rounding() -> None:
    big: Weights = {"w": np.full((8, 8), 2e4), "b": np.zeros(8)}
    verdict = bnfold.verify(model(DENSE, big), half(model(DENSE, big)), tolerance="float16")
    assert verdict.status == "failed"
    assert "inf in 0 elements" in verdict.reason


def test_labels_have_no_tolerance_and_how_many_differ_is_told() -> None:
    body = (
        "(float[64,8] x) => (int64[64] y, float[64,8] h) { h = MatMul (x, w)  y = ArgMax <axis = 1, keepdims = 0> (h) }"
    )
    moved = {"w": weights()["w"] * (1 + 0.2 * np.random.default_rng(3).standard_normal((8, 8)))}
    verdict = judged(body, {"w": weights()["w"]}, moved, 0.9)
    labels, numbers = verdict.outputs
    assert verdict.status == "failed"
    assert 0 < labels.beyond < 1
    assert labels.fault.endswith(" of 64 elements differ, and none may"), "of the worst sample"
    assert (labels.allowed, numbers.fault, numbers.beyond) == (0.0, "", 0.0)
    in_one_sense(verdict)


def test_labels_alone_that_agree_show_nothing() -> None:
    body = "(float[64,8] x) => (int64[64] y) { h = MatMul (x, w)  y = ArgMax <axis = 1, keepdims = 0> (h) }"
    far = {"w": weights()["w"] * 1.5}
    assert judged(body, {"w": weights()["w"]}, far).status == "unverified"
    assert judged(body, {"w": weights()["w"]}, {"w": weights()["w"]}), "nothing differs"


def test_a_saturated_output_shows_nothing() -> None:
    body = f"{HEAD} {{ h = MatMul (x, w)  y = Sign (h) }}"
    verdict = judged(body, {"w": weights()["w"]}, {"w": weights()["w"] * 1.5})
    assert verdict.status == "unverified"
    assert "no output reacts to the new weights" in verdict.reason


def test_of_zeros_nothing_is_allowed() -> None:
    body = "(float[4,8] x) => (float[4,8] y, float[4,8] z) { y = Mul (x, w)  z = Mul (x, v) }"
    first: Weights = {"w": np.full(8, 3.7), "v": np.zeros(8)}
    assert judged(body, first, first)
    verdict = judged(body, first, {**first, "v": np.full(8, 1e-30)}, 0.5)
    row = verdict.outputs[1]
    assert (verdict.status, row.scale, row.relative, row.allowed, row.beyond) == ("failed", 0.0, np.inf, 0.0, 1.0)
    zeros: Weights = {"w": np.zeros(8), "v": np.zeros(8)}
    assert (
        bnfold.verify(model(body, zeros), model(body.replace("Mul (x, v)", "Sub (x, x)"), zeros), tolerance=0.1).status
        == "unverified"
    )


def test_empty_outputs_show_nothing() -> None:
    body = "(float[4,8] x) => (float[a,8] y) { h = Mul (x, w)  y = Slice (h, nil, nil, nil) }"
    first: Weights = {"w": np.full(8, 3.7), "nil": np.zeros(1, np.int64)}
    verdict = judged(body, first, {**first, "w": np.full(8, 3.8)})
    assert (verdict.status, verdict.outputs[0].shape) == ("unverified", (0, 8))
    assert (verdict.outputs[0].mean, verdict.outputs[0].beyond) == (0.0, 0.0)


def test_each_output_has_its_own_scale() -> None:
    body = "(float[4,8] x) => (float[4,8] y, float[4,8] z) { y = Mul (x, w)  z = Mul (x, v) }"
    first: Weights = {"w": np.full(8, 1e6), "v": np.full(8, 1e-6)}
    verdict = judged(body, first, {**first, "v": np.full(8, 1.1e-6)}, 0.05)
    large, small = verdict.outputs
    assert (large.relative, large.fault) == (0.0, "")
    assert small.relative == pytest.approx(0.1, rel=1e-3)
    assert verdict.status == "failed"
    assert "'z'" in verdict.reason


def test_each_sample_has_its_own_scale(tmp_path: Path) -> None:
    """A large sample does not hide what is wrong on a small one, and shares are those of all."""
    for number, size in enumerate((1.0, 1e6)):
        folder = tmp_path / f"test_data_set_{number}"
        folder.mkdir()
        x = np.full((4, 8), size, np.float32)
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    body = f"{HEAD} {{ h = Mul (x, w)  y = Add (h, b) }}"
    first: Weights = {"w": np.linspace(0.9, 1.1, 8), "b": np.zeros(8)}
    verdict = judged(body, first, {**first, "b": np.full(8, 0.3)}, 0.05, data=tmp_path)
    (row,) = verdict.outputs
    assert (verdict.status, verdict.samples, row.beyond) == ("failed", 2, 0.5)
    assert row.relative == pytest.approx(0.3 / 1.1, rel=1e-3)
    assert row.mean == pytest.approx(0.3 / 1.1 / 2, rel=1e-3)


def test_float64_models() -> None:
    wide = DENSE.replace("float[", "double[")
    before = model(wide, weights(), dtype=np.float64)
    assert bnfold.verify(before, dense(), tolerance=1e-6)
    assert bnfold.verify(before, dense(), tolerance=1e-9).status == "failed"
    assert bnfold.verify(before, model(wide, weights(1 + 1e-12), dtype=np.float64), tolerance=1e-11)


@pytest.mark.parametrize("kept", [True, False])
def test_a_renamed_output_is_paired_by_position_whatever_its_width(kept: bool) -> None:
    renamed = model(DENSE.replace("y", "probabilities"), weights())
    verdict = bnfold.verify(dense(), renamed if kept else half(renamed), tolerance="float16")
    assert verdict, verdict.reason
    assert "outputs are paired by position: y = probabilities" in verdict.notes


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (DENSE.replace("float[4,8] y", "float[4,8] y, float[4,8] h"), "only the second has 'h'"),
        ("(int32[4,8] x) => (float[4,8] y) { f = Cast <to = 1> (x)  h = MatMul (f, w)  y = Add (h, b) }", "type int32"),
        ("(float[4,8] x) => (float[4,8] y) { y = Nowhere (x) }", "runs the original, but not"),
    ],
)
def test_no_tolerance_is_for_the_interface(body: str, said: str) -> None:
    verdict = bnfold.verify(dense(), model(body, weights()), tolerance=0.9)
    assert verdict.status != "verified"
    assert said in verdict.reason
    assert not verdict.outputs


def test_one_that_runs_only_at_other_inputs_has_failed() -> None:
    open_sizes = HEAD.replace("[4,8]", "[N,8]")
    before = model(f"{open_sizes} {{ h = MatMul (x, w)  y = Add (h, b) }}", weights())
    fixed = {**weights(), "s": np.array([7, 8], np.int64)}
    after = model(f"{open_sizes} {{ h = MatMul (x, w)  r = Reshape (h, s)  y = Add (r, b) }}", fixed)
    verdict = bnfold.verify(before, after, tolerance=0.1)
    assert (verdict.status, verdict.decided_by) == ("failed", "tolerance")
    assert "runs the original, but not the rewritten model" in verdict.reason


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("(float[4,8] x) => (float[4,8] y) <float16[8,8] h> { y = MatMul (x, h) }", "failed", "but not the rewritten"),
        ("(float[4,8] x) => (float[4,8] y) { y = Relu <alpha = 1> (x) }", "failed", "but not the rewritten"),
        ("(float[4,8] x) => (float[4,8] y) { y = com.example.Dense (x) }", "unverified", "takes it"),
    ],
)
def test_one_that_the_runtime_refuses_has_failed(body: str, status: str, said: str) -> None:
    """Unless another runtime may have the operator."""
    after = model(body, weights() | {"h": np.ones((8, 8), np.float16)} if "h>" in body else weights())
    after.opset_import.add(domain="com.example", version=1)
    verdict = bnfold.verify(dense(), after, tolerance=0.5)
    assert verdict.status == status
    assert said in verdict.reason


@pytest.mark.parametrize("asked", ["float16", "bfloat16", 0.01])
@pytest.mark.parametrize("runtime", ["onnxruntime", "none"])
def test_models_without_weights_differ_by_what_one_rounding_explains(asked: Any, runtime: Any) -> None:
    """There is nothing to move: eight roundings of the type are allowed."""
    head = "(float[4,8] x) => (float[4,8] y)"
    options = VerifyOptions(runtime=runtime)
    before = model(f"{head} {{ y = Tanh (x) }}", {})
    half = model(f"{head} {{ h = Cast <to = 10> (x)  z = Tanh (h)  y = Cast <to = 1> (z) }}", {})
    assert bnfold.verify(before, half, tolerance=asked, options=options).verified
    wrong = bnfold.verify(before, model(f"{head} {{ y = Sin (x) }}", {}), tolerance=asked, options=options)
    assert (wrong.status, wrong.decided_by) == ("failed", "tolerance")
    assert wrong.outputs[0].fault


def test_our_kernels_refuse_nothing_that_they_do_not_know() -> None:
    after = model("(float[4,8] x) => (float[4,8] y) { y = com.example.Dense (x) }", weights())
    verdict = bnfold.verify(dense(), after, tolerance=0.5, options=VerifyOptions(runtime="none"))
    assert verdict.status == "unverified"
    assert "did not run the rewritten model" in verdict.reason


def test_one_that_draws_random_numbers_cannot_be_compared() -> None:
    body = f"{HEAD} {{ r = RandomNormalLike (x)  y = Add (x, r) }}"
    verdict = judged(body, {}, {}, 0.1)
    assert verdict.status == "unverified"
    assert "draws random numbers" in verdict.reason


@pytest.mark.parametrize("runtime", ["onnxruntime", "none"])
def test_what_the_runtime_lacks_is_computed_by_our_kernels(runtime: Literal["onnxruntime", "none"]) -> None:
    """The BatchNormalization of opset 6, which onnxruntime does not run."""
    body = "(float[2,3,4] x) => (float[2,3,4] y) { y = BatchNormalization <is_test = 1> (x, s, b, m, v) }"
    first: Weights = {"s": np.full(3, 1.7), "b": np.full(3, 0.3), "m": np.full(3, 0.1), "v": np.full(3, 1.9)}
    pair = [model(body, {**first, "s": np.full(3, scale)}, opset=6, ir_version=4) for scale in (1.7, 1.75)]
    verdict = bnfold.verify(*pair, tolerance=0.1, options=VerifyOptions(runtime=runtime))
    assert verdict, verdict.reason
    assert "bnfold's kernels" in verdict.reason
    assert any("does not run the original" in note for note in verdict.notes) == (runtime != "none")
    assert bnfold.verify(*pair, tolerance=0.01, options=VerifyOptions(runtime=runtime)).status == "failed"


def test_what_rounding_would_hide_is_not_verified() -> None:
    """The difference of two large numbers: rounding to float16 may change it by all that it is."""
    body = f"{HEAD} {{ h = MatMul (x, w)  g = MatMul (x, v)  y = Sub (h, g) }}"
    first: Weights = {"w": weights()["w"], "v": weights()["w"] * (1 + 1e-4)}
    verdict = judged(body, first, {**first, "v": first["v"] + 1e-6}, "float16")
    assert verdict.status == "unverified", verdict.reason
    assert "would hide a fault" in verdict.reason


@pytest.mark.parametrize("tolerance", [0, 0.0, -0.1, float("nan"), float("inf"), "float32", "much", "0.05", True])
def test_a_tolerance_that_is_none_is_refused_in_a_line(tolerance: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: VerifyOptions(tolerance=tolerance),
        lambda: bnfold.verify(dense(), dense(), tolerance=tolerance),
    ]
    for call in calls:
        with pytest.raises(BadSetting, match="tolerance: ") as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("tolerance", [np.float32(0.5), 1, "bfloat16"])
def test_any_number_is_taken(tolerance: Any) -> None:
    assert bnfold.verify(dense(), dense(1.001), tolerance=tolerance)


def test_it_is_for_whole_models_that_others_made(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="the depth local compares none"):
        VerifyOptions(tolerance=0.1, depth="local")
    with pytest.raises(BadSetting, match="bnfold's own rewrites have none"):
        bnfold.optimize(dense(), verify=VerifyOptions(tolerance=0.1))
    with pytest.raises(BadInput, match="has no array for input 'x'"):
        bnfold.verify(dense(), dense(), tolerance=0.1, options=recorded(tmp_path, other=np.zeros(3, np.float32)))


def test_recorded_outputs_decide_nothing(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    for name, array in (("input_0", x), ("output_0", x)):
        (tmp_path / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    assert judged(DENSE, weights(), weights(1.01), 0.1, data=tmp_path)


def test_more_samples_are_of_ordinary_numbers() -> None:
    """Of a float16 version, very large numbers overflow, which says nothing about ordinary ones."""
    verdict = bnfold.verify(dense(), half(dense()), tolerance="float16", options=VerifyOptions(samples=12))
    assert (verdict.status, verdict.samples) == ("verified", 12)
    assert verdict.outputs[0].scale < 100
