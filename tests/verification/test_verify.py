"""The verdict as callers see it: depths, budgets, notes, JSON, and any two models that somebody has."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.errors import BadInput
from bnfold.settings import ESTIMATE, PHASES
from bnfold.verification import request, sentences, verify
from bnfold.verification.inputs import drawing
from bnfold.verification.sentences import stress
from bnfold.verification.verdict import Verdict
from tests.verification.graphs import Weights, affine, along, model, numbers, single, statistics

HEAD = "(float[N,3,H,W] x) => (float[N,4,P,Q] y)"


def pair(shift: float = 0.0, tail: str = "y = Relu (z)") -> tuple[ir.Model, ir.Model, list[ir.Cut]]:
    rng = numbers(41)
    stats, weight = statistics(rng, 4), single(rng.normal(size=(4, 3, 3, 3)))
    s, t = affine(stats)
    nodes = f"c = Conv (x, W)  z = BatchNormalization (c, scale, B, mean, var)  {tail}"
    before = model(f"{HEAD} {{ {nodes} }}", {"W": weight, **stats})
    after = model(f"{HEAD} {{ z = Conv (x, W, b)  {tail} }}", {"W": weight * along(s, 0, 4), "b": t + shift})
    return ir.load(before), ir.load(after), [ir.Cut("", ("x",), ("z",), "fold z")]


def test_a_verdict_has_everything() -> None:
    before, after, cuts = pair()
    verdict = verify(before, after, cuts=cuts, samples=3, seed=7)
    assert (verdict.status, verdict.decided_by, verdict.seed) == ("verified", "float64", 7)
    assert verdict.samples == 3 + 3, "three more at other sizes of the open dims"
    assert verdict.verified
    (row,) = verdict.outputs
    assert (row.name, row.dtype, row.shape[1], row.same_pattern) == ("y", "float", 4, True)
    assert 0 < row.rms <= row.max_abs
    assert row.relative == pytest.approx(row.max_abs / row.scale)
    assert 0 < row.relative < row.allowed < 1e-5
    assert row.ulps > 0
    assert [item.status for item in verdict.local] == ["verified"]
    assert {"weights", "referee", "witness", "local"} <= set(verdict.seconds)


def test_json_is_plain() -> None:
    before, after, cuts = pair(np.nan)
    document = verify(before, after, cuts=cuts, runtime="none").to_json()
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text)["status"] == "failed"


def test_paths_and_models_are_alike(tmp_path: Path) -> None:
    before, after, _ = pair()
    ir.save(before, tmp_path / "before.onnx")
    ir.save(after, tmp_path / "after.onnx")
    from_paths = verify(tmp_path / "before.onnx", str(tmp_path / "after.onnx"))
    assert from_paths.outputs == verify(before, after).outputs
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.onnx", "before.onnx"]


def test_the_same_question_has_the_same_answer() -> None:
    def answer(seed: int) -> Any:
        before, after, cuts = pair()
        document = verify(before, after, cuts=cuts, runtime="none", seed=seed).to_json()
        return {key: value for key, value in document.items() if key != "seconds"}

    assert answer(3) == answer(3)
    assert answer(3) != answer(4)


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    before, after, cuts = pair()
    verify(before, after, cuts=cuts, progress=lambda *step: told.append(step))
    assert {"float64", "rewrites"} <= {phase for phase, _, _ in told} <= PHASES.keys()
    assert all(0 <= done <= total or not total for _, done, total in told)


@pytest.mark.parametrize(("long", "wanted"), [(0.0, 1), (3600.0, 0)])
def test_what_will_take_long_is_told_once(monkeypatch: pytest.MonkeyPatch, long: float, wanted: int) -> None:
    """What has been done tells how long the rest takes."""
    monkeypatch.setattr(request, "LONG", long)
    monkeypatch.setattr(request, "_EARLY", 0.0)
    told: list[str] = []
    before, after, _ = pair()
    verify(before, after, runtime="none", progress=lambda phase, _done, _total: told.append(phase))
    assert told.count(ESTIMATE) == wanted


def test_what_ends_soon_is_not_called_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "LONG", 0.0)
    told: list[str] = []
    before, after, _ = pair()
    verify(before, after, runtime="none", progress=lambda phase, _done, _total: told.append(phase))
    assert ESTIMATE not in told


def test_an_output_that_does_not_react_proves_nothing() -> None:
    """Saturated far beyond what any weight could change."""
    tail = "k = Constant <value_float = 1e6> ()  h = Abs (z)  a = Add (h, k)  y = Tanh (a)"
    before, wrong, cuts = pair(0.5, tail)
    blind = verify(before, wrong, depth="full", runtime="none")
    assert (blind.status, blind.decided_by) == ("unverified", "nothing")
    assert "reacts" in blind.reason
    assert verify(before, wrong, cuts=cuts, runtime="none").status == "failed"
    assert verify(before, wrong, runtime="none").status == "failed"
    _, right, _ = pair(0.0, tail)
    assert verify(before, right, cuts=cuts, runtime="none").decided_by == "local"


def test_a_model_that_cannot_be_fed_is_unverified_unless_nothing_changed() -> None:
    body = (
        "(seq(float[N]) x) => (int64 n, float y)"
        " { n = SequenceLength (x)  k = Constant <value_float = 0.3> ()  y = Neg (k) }"
    )
    before = ir.load(model(body, {}))
    changed = ir.load(model(body.replace("0.3", "0.4"), {}))
    assert verify(before, before, runtime="none").status == "verified"
    assert "--data" in verify(before, before, depth="full", runtime="none").reason
    assert verify(before, changed, runtime="none").status == "failed"


def test_a_model_that_never_ran_cannot_be_verified_whole() -> None:
    body = "(float[2,3] x) => (float[2,4] y) { y = MatMul (x, W) }"
    broken = ir.load(model(body, {"W": np.ones((5, 4))}))
    verdict = verify(broken, broken, depth="full", runtime="none")
    assert verdict.status == "unverified"
    assert "cannot be run at the shapes that it declares" in verdict.reason


def test_shapes_that_nothing_fits_can_be_given() -> None:
    body = "(float[N,K] x) => (float[N,4] y) { r = Reshape (x, s)  y = MatMul (r, W) }"
    awkward = ir.load(model(body, {"s": np.array([-1, 4099], np.int64), "W": np.ones((4099, 4))}))
    assert "no input shape tried fits" in verify(awkward, awkward, depth="full", runtime="none").reason
    given = verify(awkward, awkward, depth="full", runtime="none", inputs={"x": (5, 4099)})
    assert given.status == "verified"


def test_a_rewritten_model_that_does_not_run_has_failed() -> None:
    body = "(float[N,3] x) => (float[N,4] y) { y = MatMul (x, W) }"
    before, after = ir.load(model(body, {"W": np.ones((3, 4))})), ir.load(model(body, {"W": np.ones((5, 4))}))
    verdict = verify(before, after, inputs={"x": (2, 3)}, runtime="none")
    assert verdict.status == "failed"
    assert "does not run" in verdict.reason


def test_too_much_work_leaves_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.verification.request.time.monotonic", lambda: 0.0)
    before, after, cuts = pair()
    verdict = verify(before, after, cuts=cuts, runtime="none", budget_seconds=0.1, inputs={"x": (64, 3, 512, 512)})
    assert (verdict.status, verdict.decided_by) == ("verified", "local")


def enough_seconds(verdict: Verdict) -> int:
    """The largest limit that a claim names for which there was no time."""
    return max(int(row.data.get("verify_seconds", 0)) for row in verdict.ledger)


def test_too_little_time_is_told_with_a_limit_that_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: what is begun follows from counted work, on any machine."""
    monkeypatch.setattr("bnfold.verification.request.time.monotonic", lambda: 0.0)
    monkeypatch.setattr("bnfold.verification.subgraphs.shapes.LARGEST_FEED", 0)  # no part can be compared
    monkeypatch.setattr("bnfold.verification.inputs.cost.PRODUCTS_A_SECOND", 1e8)
    before, after, cuts = pair()

    def within(seconds: float) -> Verdict:
        shapes = {"x": (8, 3, 192, 192)}
        return verify(before, after, cuts=cuts, runtime="none", budget_seconds=seconds, inputs=shapes)

    verdict = within(1.0)
    assert verdict.status == "unverified"
    found = re.match(r"running both models needs about (\d+) s, and there are 1 s for it;", verdict.reason)
    assert found is not None, verdict.reason
    seconds, enough = int(found[1]), enough_seconds(verdict)
    assert 2 * seconds <= enough <= 3 * seconds + 5
    again = within(enough)
    assert again.verified, again.reason


def test_an_evaluation_that_takes_longer_than_expected_names_a_limit() -> None:
    nodes = " ".join(f"v{n + 1} = Sin (v{n})" for n in range(200))
    before = ir.load(model(f"(float[600,600] x) => (float[600,600] y) {{ v0 = Abs (x) {nodes} y = Neg (v200) }}", {}))
    after = ir.load(model(f"(float[600,600] x) => (float[600,600] y) {{ v0 = Relu (x) {nodes} y = Neg (v200) }}", {}))
    verdict = verify(before, after, runtime="none", depth="full", budget_seconds=0.2)
    assert verdict.status == "unverified"
    assert re.search(r"did not end within 0\.\d+ s \(at node 'v\d+'\)$", verdict.reason), verdict.reason
    assert enough_seconds(verdict) >= 1
    generous = 100 * enough_seconds(verdict)  # a busy machine may need more than what is named
    assert verify(before, after, runtime="none", depth="full", budget_seconds=generous).status == "failed"


def test_unknown_inputs_and_absent_files_are_the_callers_mistake(tmp_path: Path) -> None:
    before, after, _ = pair()
    with pytest.raises(BadInput, match="no input "):
        verify(before, after, inputs={"q": (1,)}, runtime="none")
    with pytest.raises(BadInput):
        verify(tmp_path / "absent.onnx", after)


def test_a_witness_that_disagrees_on_the_original_is_reported() -> None:
    """Five outputs at opset 9: onnxruntime returns the inverse deviation where the text says variance."""
    stats = statistics(numbers(5), 3)
    outputs = "float[N,3,L] y, float[3] m, float[3] v, float[3] sm, float[3] sv"
    body = f"(float[N,3,L] x) => ({outputs}) {{ y, m, v, sm, sv = BatchNormalization (x, scale, B, mean, var) }}"
    proto = model(body, stats, opset=9)
    verdict = verify(ir.load(proto), ir.load(proto))
    assert verdict.status == "verified"
    (row,) = verdict.witnesses
    assert row.agrees is False
    assert any("'sv'" in note and "original" in note for note in row.notes)
    lenient = verify(ir.load(proto), ir.load(proto), policy=reference.Policy(saved_var="inv-std"))
    assert lenient.witnesses[0].agrees is True


def test_a_weight_tells_the_size_behind_an_operator_that_nobody_knows() -> None:
    """As behind the dynamically quantised LSTM that reads text: an upgraded Add, the other summand without a shape."""
    weights = {"W": numbers(10).normal(size=8210)}
    before, after = (
        model("(float[N,K] x) => (float y) { u = DynamicQuantizeLSTM (x)  y = Add (u, W) }", weights, opset=opset)
        for opset in (12, 15)
    )
    for proto in (before, after):
        proto.graph.node[0].domain = "com.microsoft"
        proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        proto.graph.output[0].type.tensor_type.ClearField("shape")
    verdict = verify(ir.load(before), ir.load(after), runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", "local"), verdict.reason


def test_frames_of_sound_that_only_fit_at_512_samples_are_found() -> None:
    """As in detectors of speech: a convolution over samples, strided, and a layer for exactly that many frames."""
    weights = {"W": numbers(8).normal(size=(4, 1, 256)), "G": numbers(9).normal(size=(16, 3)), "one": np.array([1])}
    nodes = "u = Unsqueeze (x, one)  c = Conv <strides = [80]> (u, W)  f = Flatten (c)  y = Gemm (f, G)"
    loaded = ir.load(model(f"(float[batch,samples] x) => (float[batch,3] y) {{ {nodes} }}", weights))
    verdict = verify(loaded, loaded, runtime="none", depth="full")
    assert (verdict.status, verdict.outputs[0].shape) == ("verified", (1, 3)), verdict.reason


def test_where_no_runtime_has_a_kernel_our_own_give_the_errors() -> None:
    stats = statistics(numbers(6), 3)
    body = "(float[N,3,L] x) => (float[N,3,L] y) { y = BatchNormalization <is_test = 1> (x, scale, B, mean, var) }"
    proto = model(body, stats, opset=6)
    verdict = verify(ir.load(proto), ir.load(proto))
    assert verdict.status == "verified"
    assert not verdict.witnesses[0].ran_before
    assert "cannot run either model" in verdict.witnesses[0].notes[0]
    assert verdict.outputs[0].error_before is not None
    assert any("own kernels" in note for note in verdict.notes)


def test_activations_that_overflow_in_half_precision_fail_the_test_in_storage_precision() -> None:
    """Equal in float64; between the two factors the rewritten model leaves what float16 can hold."""
    half = {"a": np.array(2.0**-12, np.float16), "b": np.array(2.0**12, np.float16)}
    head = "(float16[N,3] x) => (float16[N,3] y)"
    before = model(f"{head} {{ h = Add (x, x)  z = Mul (h, a)  w = Mul (z, b)  y = Mul (w, b) }}", half)
    after = model(f"{head} {{ h = Add (x, x)  z = Mul (h, b)  w = Mul (z, b)  y = Mul (w, a) }}", half)
    witnesses: tuple[Literal["onnxruntime", "none"], ...] = ("onnxruntime", "none")
    for witness in witnesses:
        verdict = verify(ir.load(before), ir.load(after), runtime=witness)
        assert (verdict.status, verdict.decided_by) == ("failed", "storage precision")
        assert "overflow" in verdict.reason


def test_nan_patterns_are_part_of_it() -> None:
    head = "(float[N,3] x) => (float[N,3] y)"
    before, after = (model(f"{head} {{ a = {op} (x)  y = Sqrt (a) }}", {}) for op in ("Neg", "Abs"))
    verdict = verify(ir.load(before), ir.load(after), runtime="none")
    assert verdict.status == "failed"
    assert not verdict.outputs[0].same_pattern
    assert verify(ir.load(before), ir.load(before), runtime="none").status == "verified"


def test_old_exports_whose_weights_are_all_inputs(corpus: Path) -> None:
    path = next(corpus.rglob("*TestModels.test_ops*.onnx"))
    verdict = verify(path, path)
    assert verdict.status == "verified", verdict.reason


@pytest.mark.parametrize(
    "name", ["rapidocr__models__ch_ppocr_mobile_v2.0_cls_mobile", "onnx__pfld", "test__mnist__pytorch"]
)
def test_real_models_agree_with_themselves_and_the_witness(corpus: Path, name: str) -> None:
    path = next(corpus.rglob(f"{name}*.onnx"))
    verdict = verify(path, path, depth="full")
    assert (verdict.status, verdict.decided_by) == ("verified", "float64"), verdict.reason
    assert verdict.witnesses[0].agrees, verdict.witnesses[0].notes


def test_a_real_model_with_one_weight_changed_fails(corpus: Path, tmp_path: Path) -> None:
    path = next(corpus.rglob("mnist_cnn*.onnx"))
    proto = onnx.load(path)
    weight = next(tensor for tensor in proto.graph.initializer if len(tensor.dims) == 4)
    array = onnx.numpy_helper.to_array(weight).copy()
    array.flat[0] *= 1.001
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    onnx.save(proto, tmp_path / "changed.onnx")
    assert verify(path, tmp_path / "changed.onnx", runtime="none").status == "failed"


def test_open_dims_of_many_axes_are_not_tried_at_image_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five open axes of 299 each would be gigabytes, and no size fits this model anyway."""
    proto = model("(float[A,6,B,C,D] x) => (float[E,F] y) { y = MatMul (x, W) }", {"W": np.ones((3, 2), np.float32)})
    drawn: list[int] = []
    plain = drawing.random_value

    def watched(value: ir.Value, shape: tuple[int, ...], seed: int, sample: int, **more: Any) -> Any:
        drawn.append(int(np.prod(shape, dtype=np.int64)))
        return plain(value, shape, seed, sample, **more)

    monkeypatch.setattr(drawing, "random_value", watched)
    verify(ir.load(proto), ir.load(proto), depth="full", runtime="none")
    assert drawn
    assert max(drawn) <= 1 << 25


@pytest.mark.parametrize("depth", ["full", "auto"])
def test_inputs_that_no_machine_can_hold_are_unverified(depth: Any) -> None:
    proto = model("(float[4611686018427387904, 3] x) => (float[N,3] y) { y = Relu (x) }", {})
    verdict = verify(ir.load(proto), ir.load(proto), depth=depth, runtime="none")
    assert depth != "full" or verdict.status == "unverified"
    assert depth != "full" or "GiB of memory" in verdict.reason


def test_a_branch_whose_condition_is_no_single_truth_does_not_run() -> None:
    text = """(bool[2] c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] a) { a = Relu (x) },
                    else_branch = e () => (float[3] b) { b = Abs (x) }> }"""
    proto = model(text, {})
    with pytest.raises(reference.Misfit, match="do not fit"):
        reference.evaluate(ir.load(proto), {"c": np.array([True, False]), "x": np.ones(3)})
    assert verify(ir.load(proto), ir.load(proto), depth="full", runtime="none").status == "unverified"


@pytest.mark.parametrize("seed", range(20))
def test_a_model_that_takes_very_few_numbers_is_compared_on_more_than_one_sample(seed: int) -> None:
    """Two numbers are both negative in every fourth draw, and a Relu then hides what came before it."""
    before = model("(float[2] x) => (float[2] y) { y = Relu (x) }", {})
    after = model("(float[2] x) => (float[2] y) { t = Tanh (x)  y = Relu (t) }", {})
    verdict = verify(ir.load(before), ir.load(after), runtime="none", seed=seed)
    assert (verdict.status, verdict.samples) == ("failed", 10)


@pytest.mark.parametrize("declared", ["int64", "complex128", "float4e2m1", "string"])
def test_what_is_computed_counts_not_the_type_that_an_output_declares(declared: str) -> None:
    before, after, cuts = pair()
    _, wrong, _ = pair(1e-3)
    for side in (before, after, wrong):
        side.proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(declared.upper())
    before, after, wrong = (ir.load(ir.encode(side)) for side in (before, after, wrong))
    assert verify(before, after, cuts=cuts, runtime="none").status == "verified"
    assert verify(before, wrong, cuts=cuts, runtime="none").status == "failed"


def test_sizes_that_leave_nothing_of_the_input_acquit_nobody() -> None:
    """Of all sizes tried, only those fit the Reshape of which the Slice leaves no elements: then padding is all."""
    bounds = {"first": np.array([1]), "last": np.array([999]), "axis": np.array([2])}
    constants = {**bounds, "amounts": np.array([0, 0, 0, 0, 0, 1]), "shape": np.array([1, 4])}
    plain = "(float[1,4,L] x) => (float[1,4] y) { c = Slice (x, first, last, axis) TAIL y = Reshape (p, shape) }"
    before, after = (
        ir.load(model(plain.replace("TAIL", tail), constants))
        for tail in ("p = Pad (c, amounts)", "r = Relu (c)  p = Pad (r, amounts)")
    )
    verdict = verify(before, after, depth="full", runtime="none")
    assert (verdict.status, verdict.reason.split(" at ")[0]) == ("unverified", "no output depends on the inputs")
    assert verify(before, after, runtime="none").status == "unverified"  # an inner value differs, and no output can
    assert verify(before, before, runtime="none").status == "verified"


@pytest.mark.parametrize(("depth", "decided_by"), [("auto", "local"), ("full", "float64")])
def test_by_default_nobody_waits_for_what_was_estimated_to_be_quick(
    monkeypatch: pytest.MonkeyPatch, depth: Any, decided_by: str
) -> None:
    """Sizes that nothing tells count nothing, so an estimate may be far too low."""
    monkeypatch.setattr("bnfold.verification.end_to_end.samples._LONG", 0.0)
    monkeypatch.setattr("bnfold.verification.end_to_end.samples._SURPRISE", 0.0)
    head = "(float[N,3] x) => (float[N,3] y)"
    before = ir.load(model(f"{head} {{ a = Neg (x)  y = Sub (x, a) }}", {}))
    after = ir.load(model(f"{head} {{ y = Add (x, x) }}", {}))
    verdict = verify(before, after, depth=depth, runtime="none")
    assert (verdict.status, verdict.decided_by) == ("verified", decided_by), verdict.reason


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("sizes", ["2] x, float[3", "n] x, float[m"])
def test_a_sequence_may_hold_arrays_of_several_shapes(depth: Any, sizes: str) -> None:
    body = f"(float[{sizes}] z) => (seq(float) y) {{ a = Neg (x)  y = SequenceConstruct (a, z) }}"
    before, wrong = ir.load(model(body, {}, opset=17)), ir.load(model(body.replace("Neg", "Abs"), {}, opset=17))
    assert verify(before, ir.load(model(body, {}, opset=17)), depth=depth, runtime="none").verified
    assert verify(before, wrong, depth=depth, runtime="none").status == "failed"


@pytest.mark.parametrize("made", ["y = SequenceConstruct (x, n)", "q = SequenceConstruct (x, n)  y = Identity (q)"])
def test_a_sequence_in_place_of_an_array_is_a_difference(made: str) -> None:
    head = "(float[2,3] x) => (float[2,3] y) { n = Neg (x)"
    before = model(f"{head}  s = SequenceConstruct (x, n)  y = SequenceAt (s, i) }}", {"i": np.array(0)})
    verdict = verify(ir.load(before), ir.load(model(f"{head}  {made} }}", {})), runtime="none")
    assert (verdict.status, verdict.reason.split(":")[0]) == ("failed", "output 'y'")


@pytest.mark.parametrize("depth", ["auto", "local"])
def test_a_place_in_a_sequence_may_be_fed(depth: Any) -> None:
    head, weights = "(float[6,4] x, int64 i) => (float[a,b] y) { p = Mul (x, w)", {"w": np.array([[0.7]])}
    read = "q = SequenceConstruct (d, p)  y = SequenceAt (q, i) }"
    before = model(f"{head}  d = Add (x, z)  {read}", {**weights, "z": np.zeros((1, 1))})
    after = model(f"{head}  {read.replace('(d', '(x')}", weights)
    assert verify(ir.load(before), ir.load(after), depth=depth, runtime="none").verified


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_sizes_that_a_table_bounds_need_not_be_equal(depth: Any) -> None:
    """The first sizes are beyond its end, and the next ones equal."""
    head = "(float[3,5,N,4] x, float[6,3,M,2] z) => (float[a,b,c,d] y)"
    weights = {"t": np.array([1.5, 1.25, 1.75, 1.0, 2.0, 0.5, 3.0]), "two": np.array(2)}
    body = "{{ s = Shape ({0})  i = Gather (s, two)  k = Gather (t, i)  h = Mul (z, k)  y = Mul (h, h) }}"
    before, after = (ir.load(model(f"{head} {body.format(read)}", weights)) for read in ("z", "x"))
    assert verify(before, after, depth=depth, runtime="none").status == "failed"
    assert verify(before, before, depth=depth, runtime="none").verified


@pytest.mark.parametrize("depth", ["auto", "full"])
def test_a_truth_of_a_size_that_is_combined_in_another_way_is_seen(depth: Any) -> None:
    head = "(float[N,7,2] x, bool a) => (float[p,q,r] y) { s = Size (x)  g = Greater (s, most)"
    branches = [f"_branch = {op} () => (float[p,q,r] {op}1) {{ {op}1 = {op} (x) }}" for op in ("Neg", "Exp")]
    choice = f"y = If (c) <then{branches[0]}, else{branches[1]}> }}"
    texts = (f"{head}  c = {op} (a, g)  {choice}" for op in ("And", "Or", "Xor"))
    models = [ir.load(model(text, {"most": np.array(42)})) for text in texts]
    for one, other in permutations(models, 2):
        assert verify(one, other, depth=depth, runtime="none").status == "failed"


def test_a_loop_without_end_keeps_nobody_waiting() -> None:
    head = "(float[2] x) => (float[2] y) <int64 trips = {1000000000}, bool on = {1}>"
    step = "(int64 i, bool going, float[2] a) => (bool more, float[2] b) { more = Identity (going)  b = Abs (a) }"
    before = ir.load(model(f"{head} {{ y = Loop <body = step {step}> (trips, on, x) }}", {}))
    after = ir.load(model(f"{head} {{ m = Neg (x)  n = Neg (m)  y = Loop <body = step {step}> (trips, on, n) }}", {}))
    verdict = verify(before, after, cuts=[ir.Cut("", ("x",), ("y",), "rewrite")], runtime="none", budget_seconds=0.3)
    assert (verdict.status, verdict.decided_by) == ("unverified", "nothing")
    assert "did not end within" in verdict.reason


def test_outputs_of_one_loop_share_its_runs() -> None:
    head = "(float[3] x) => (float[3] y, float[n,3] z) <int64 trips = {7}, bool on = {1}>"
    step = "(int64 i, bool going, float[3] a) => (bool more, float[3] b, float[3] c) { more = Identity (going) BODY }"
    text = f"{head} {{ y, z = Loop <body = step {step}> (trips, on, x) }}"
    before = ir.load(model(text.replace("BODY", "b = Tanh (a)  c = Add (b, b)"), {}))
    after = ir.load(
        model(
            text.replace("BODY", "b = Tanh (a)  t = Neg (b)  d = Sub (b, t)").replace("float[3] c)", "float[3] d)"), {}
        )
    )
    wrong = ir.load(
        model(
            text.replace("BODY", "b = Tanh (a)  t = Neg (b)  d = Add (b, t)").replace("float[3] c)", "float[3] d)"), {}
        )
    )
    verdict = verify(before, after, depth="local", runtime="none")
    assert (verdict.status, [row.outputs for row in verdict.local]) == ("verified", [("y", "z")]), verdict.reason
    verdict = verify(before, wrong, depth="local", runtime="none")
    assert verdict.status == "failed"
    assert "'z'" in verdict.reason


def test_a_spent_limit_ends_everything_and_is_named() -> None:
    before, after, cuts = pair()
    verdict = verify(before, after, cuts=cuts, runtime="none", depth="local", budget_seconds=0.0)
    assert verdict.status == "unverified"
    assert "the limit of 0 s struck" in verdict.reason
    assert enough_seconds(verdict) >= 1


def test_a_weight_of_which_no_output_shows_the_changed_element_proves_nothing() -> None:
    """The largest of seven rows: what happens to another one is not seen, though the others' biases are."""
    bias = np.array([[0.5], [9.0], [0.3], [-0.7], [1.1], [-0.2], [-1.3]], np.float32)
    body = "(float[7,200] x) => (float[1,1100] y) { v = Gemm (x, W, b)  y = ReduceMax <axes = [0]> (v) }"
    weight = single(numbers(13).normal(size=(200, 1100)) * 0.03)
    before, after = (
        model(body, {"W": weight, "b": bias}),
        model(body, {"W": weight, "b": bias - bias * (bias < -1) / 3}),
    )
    verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
    assert (verdict.status, verdict.reason.split(" on ")[0]) == ("unverified", "no output reacts to the new weights")
    assert verify(ir.load(before), ir.load(after), runtime="none").status == "failed"


def test_other_batches_are_tried_before_a_batch_of_one_hides_what_broadcasts() -> None:
    rng = numbers(17)
    weights = {"b": single(rng.normal(size=(3, 1))), "W": single(rng.normal(size=(1, 5)))}
    nodes = "m = ReduceMax <axes = [1], keepdims = KEEP> (x)  s = Add (b, m)  t = Mul (s, W)  y = Relu (t)"
    body = f"(float[N,2] x) => (float[A,5] y) {{ {nodes} }}"
    before, after = (ir.load(model(body.replace("KEEP", keep), weights)) for keep in ("1", "0"))
    assert verify(before, before, depth="full", runtime="none").outputs[0].shape == (3, 5)
    assert verify(before, after, depth="full", runtime="none").status == "failed"


@pytest.mark.parametrize("depth", ["full", "local"])
def test_what_float64_itself_errs_by_accuses_nobody(depth: Literal["full", "local"]) -> None:
    """A normaliser takes out the new weight, and what rounding it does; what is left of large numbers is noise."""
    rng = numbers(23)
    first, second = (rng.normal(size=(1, 3, 1)) + 1e3 for _ in range(2))
    weights = {"t": first, "u": second, "both": first + second, "g": np.ones(3), "b": np.array([0.5, -0.7, 1.1])}
    head = "(double[2,3,4] x) => (double[2,3,4] y)"
    before = model(f"{head} {{ a = Add (x, t)  c = Add (a, u)  y = InstanceNormalization (c, g, b) }}", weights)
    after, wrong = (
        model(f"{head} {{ {scaled}  c = Add (a, both)  y = InstanceNormalization (c, g, b) }}", {**weights, **more})
        for scaled, more in (("a = Identity (x)", {}), ("a = Mul (x, s)", {"s": np.array([[[1.001], [1], [1]]])}))
    )
    cut = ir.Cut("", ("x",), ("y",), "fold")
    for side, failed in ((after, False), (wrong, True)):
        verdict = verify(ir.load(before), ir.load(side), cuts=[cut], depth=depth, runtime="none")
        assert (verdict.status == "failed") == failed, verdict.reason


def test_an_output_that_never_moves_acquits_nobody() -> None:
    """One place of three hundred is the largest: nobody draws that, and the sign of a zero is no difference."""
    head = "(float[300] x) => (float[1] y) <int64[1] place = {7}>"
    before = model(f"{head} {{ h = Hardmax <axis = 0> (x)  y = Gather (h, place) }}", {}, opset=15)
    after = model(f"{head} {{ h = Hardmax <axis = 0> (x)  n = Neg (h)  y = Gather (n, place) }}", {}, opset=15)
    assert verify(ir.load(before), ir.load(after), depth="full", runtime="none").status == "unverified"
    assert verify(ir.load(before), ir.load(after), runtime="none").status == "failed"
    assert verify(ir.load(before), ir.load(before), runtime="none").status == "verified"


def test_a_constant_of_a_narrower_type_than_the_network_is_rounded_to_it() -> None:
    """What is dequantized is float32 before it is cast; whoever stores it as float64 stores what it was rounded to."""
    stored, scale = np.array([-769743, -1048576, 566583], np.int32), np.array(7.805141e-07, np.float32)
    head = "(double[N,3] x) => (double[N,3] y)"
    before = model(
        f"{head} {{ d = DequantizeLinear (q, s)  w = Cast <to = 11> (d)  y = Mul (x, w) }}", {"q": stored, "s": scale}
    )
    for off, failed in ((0.0, False), (1e-6, True)):
        folded = (stored * scale).astype(np.float32).astype(np.float64) + off
        after = model(f"{head} {{ y = Mul (x, w) }}", {"w": folded}, dtype=np.float64)
        verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
        assert (verdict.status == "failed") == failed, verdict.reason


def test_the_line_is_about_a_typical_sample_and_the_stress_behind_it() -> None:
    before, after, _ = pair()
    found = verify(before, after, depth="full", runtime="none", samples=4)
    (row,) = found.outputs
    assert 0 < row.typical <= row.relative
    count = f"{found.samples} samples"
    assert (
        f"outputs agree on all {count}, on ordinary numbers to {row.typical:.1e} (relative; float64)." in found.summary
    )
    assert found.summary.endswith(f"Rounding the new weights allows {row.typical_allowed:.1e}.")
    said = stress(found.outputs, found.samples)
    assert said.startswith(f"outputs agree to {row.relative:.1e} (relative; float64, all {count}")


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_a_weight_that_was_nan_is_not_verified_as_an_infinity(depth: Any) -> None:
    stored = np.ones((3, 4), np.float32)
    stored[0, 0] = np.nan
    body = "(float[N,3,4] x) => (float[N,3,4] y) { y = Mul (x, w) }"
    before, after = (ir.load(model(body, {"w": np.nan_to_num(stored, nan=value)})) for value in (np.nan, np.inf))
    assert verify(before, after, depth=depth, runtime="none").status == "failed"


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "BFLOAT16"])
@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_nan_where_the_original_has_it_is_no_difference(name: str, depth: Any) -> None:
    """Beyond the largest number a Cast that does not saturate makes NaN, of some types."""
    to = onnx.TensorProto.DataType.Value(name)
    setting = f"to = {to}" if name == "BFLOAT16" else f"to = {to}, saturate = 0"
    nodes = f"l = Log (x) h = Mul (x, many) r = Add (l, h) y = Cast <{setting}> (r)"
    body = f"(float[2,5] x) => ({name.lower()}[2,5] y) {{ {nodes} }}"
    weights = {"many": np.array([1.0, 3.0, 9.0, 1e6, 1e6])}
    before, after = (ir.load(model(body, weights, opset=opset)) for opset in (19, 21))
    verdict = verify(before, after, depth=depth, runtime="none", samples=3)
    assert verdict.verified, verdict.reason
    other = {"many": np.array([1.0, 3.0, 9.0, 1e6, 1.0])}
    changed = ir.load(model(body, other, opset=21))
    assert verify(before, changed, depth=depth, runtime="none", samples=3).status == "failed"


def test_the_reason_and_the_summary_give_one_figure() -> None:
    """On an ordinary sample, if it shows a difference: very large, tiny and constant ones may differ by more."""
    before, after, cuts = pair()
    verdict = verify(before, after, cuts=cuts, runtime="none", samples=8)
    (row,) = verdict.outputs
    assert 0 < row.typical < row.relative
    figures = [re.search(r"ordinary numbers to (\S+)", text) for text in (verdict.reason, verdict.summary)]
    assert [found[1] for found in figures if found is not None] == [f"{row.typical:.1e}"] * 2


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_a_result_that_rounding_turns_into_any_other_proves_nothing(depth: Any) -> None:
    """However much the original errs by itself: the constant is another one, and so is every number."""
    body = "(float[5,4] x) => (float[5,4] y) { h = Mul (x, far) y = Sin (h) }"
    before, after = (ir.load(model(body, {"far": np.array(number)})) for number in (1.739e12, 1.912e12))
    verdict = verify(before, after, depth=depth, runtime="none")
    assert not verdict.verified, verdict.reason


@pytest.mark.parametrize("samples", [1, 7])
def test_a_sentence_and_the_row_of_its_output_have_one_measure(samples: int) -> None:
    """The row is that of the worst sample; so is the sentence, whichever sample showed the fault first."""
    body = "(float[2,40] x) => (float[2,40] y, float[2,40] z) { h = Mul (x, w)  y = Add (h, b)  z = Neg (x) }"
    rng = numbers(7)
    first: Weights = {"w": rng.normal(size=40), "b": rng.normal(size=40)}
    before, after = (ir.load(model(body, {**first, "b": first["b"] * factor})) for factor in (1.0, 1.001))
    found = verify(before, after, samples=samples, depth="full")
    wrong, right = found.outputs
    assert found.status == "failed"
    assert found.reason.startswith(sentences.differs("output 'y'", wrong.relative, wrong.allowed))
    assert wrong.relative > wrong.allowed
    assert 0 < wrong.beyond <= 1
    assert (right.fault, right.relative, right.beyond) == ("", 0.0, 0.0)


def test_outputs_that_hide_a_difference_inside_are_no_evidence() -> None:
    """Behind Round both models use the original's values, so that the outputs agree; the verdict is about the input."""
    body = "(float[4,8] x) => (float[4,8] y) { h = Mul (x, w)  r = Round (h)  y = Mul (r, v) }"
    first: Weights = {"w": np.full(8, 20.0), "v": np.full(8, 1.5)}
    before, after = (ir.load(model(body, {**first, "w": np.full(8, size)})) for size in (20.0, 21.0))
    found = verify(before, after, depth="full", runtime="none")
    assert (found.status, "value 'h' differs" in found.reason) == ("failed", True)
    assert found.outputs == ()


def test_a_difference_that_prints_like_what_is_allowed_has_more_digits() -> None:
    assert sentences.differs("y", 0.0501, 0.05) == "y differs by 0.0501, 0.05 allowed"
    assert sentences.differs("y", 0.05000004, 0.05) == "y differs by 0.05000004, 0.05 allowed"
    assert sentences.differs("y", 0.5, 1e-7) == "y differs by 0.5, 1e-07 allowed"
