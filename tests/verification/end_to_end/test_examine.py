"""What comparing whole models shows, and when it shows nothing."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.errors import Unsupported
from bnfold.verification import policy, verify
from bnfold.verification.claims import Evidence
from bnfold.verification.comparing.outputs import Compared
from bnfold.verification.end_to_end import examine, ort_check
from bnfold.verification.end_to_end.examine import ignores_inputs
from bnfold.verification.end_to_end.runtime_rejects import RuntimeOpinion
from bnfold.verification.end_to_end.samples import Sample, Samples
from bnfold.verification.parts import Parts
from bnfold.verification.tolerance.compare import Difference
from bnfold.verification.tolerance.storage import StorageErrors
from tests.verification.graphs import model, single


class Outputs:
    outputs = ("y",)


def sample(number: float, *, fed: bool = True, is_hollow: bool = False) -> Sample:
    return Sample({"x": np.zeros(2)} if fed else {}, {"y": np.full(2, number)}, is_hollow=is_hollow)


@pytest.mark.parametrize(
    ("chosen", "another", "ignores"),
    [
        ([sample(1.0), sample(1.0)], sample(1.0), True),
        ([sample(1.0), sample(2.0)], sample(1.0), False),
        ([sample(1.0), sample(1.0), sample(2.0)], sample(1.0), False),
        ([sample(1.0), sample(1.0)], None, False),  # recorded inputs are what they are
        ([sample(1.0, fed=False), sample(1.0, fed=False)], sample(1.0), False),
        ([sample(1.0)], sample(1.0), False),
        ([sample(1.0, is_hollow=True)], sample(1.0), True),
        ([sample(1.0, is_hollow=True)], sample(2.0), False),
    ],
)
def test_outputs_that_no_input_changes_show_nothing(
    chosen: list[Sample], another: Sample | None, ignores: bool
) -> None:
    drawn = Samples(chosen, None if another is None else lambda _number: another)
    assert bool(ignores_inputs(cast(Any, Outputs()), drawn)) is ignores


def test_a_second_sample_on_which_the_original_does_not_run_shows_nothing() -> None:
    def refused(_number: int) -> Sample:
        raise Unsupported("a Reshape does not fit")

    told = ignores_inputs(cast(Any, Outputs()), Samples([sample(1.0, is_hollow=True)], refused))
    assert told.startswith("the original runs on no second sample")


BODY = "(float[N,3] x) => (float[N,3] y) { a = Relu (x)  y = Neg (a) }"


def test_what_a_runtime_refuses_although_it_takes_the_original_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Float64 and the parts agree; what nobody can run is no result all the same."""
    real = policy._whole

    def refused(request: Any, draws: Any, *, differed: bool) -> Any:
        from dataclasses import replace

        whole, obstacle = real(request, draws, differed=differed)
        assert whole is not None
        return replace(whole, opinion=RuntimeOpinion("refused", "it runs the original only")), obstacle

    before, after = ir.load(model(BODY, {})), ir.load(model(BODY.replace("Relu (x)", "Max (x, z)"), {"z": np.zeros(1)}))
    assert verify(before, after, runtime="none").verified
    monkeypatch.setattr(policy, "_whole", refused)
    verdict = verify(before, after, runtime="none")
    assert (verdict.status, verdict.decided_by) == ("failed", "runtime")
    assert verdict.reason == "it runs the original only"
    row = Evidence("Max a", "", ("a",), "failed", 1.0, 0.0, "differs")
    monkeypatch.setattr(policy, "_parts", lambda *_: Parts(announced=(row,)))
    assert verify(before, after, runtime="none").decided_by == "local", "a part that differs is worse"


def test_values_that_had_another_meaning_are_left_out_of_what_has_to_show() -> None:
    """``v`` is another number of the same sign, so that both take the same branch, of equal ones."""
    head = "(float[N,S] x) => (float[A,B,C] y)"
    text = (
        "r = Relu (x)  {s} = Shape (r)  {g} = Gather ({s}, c4)  v = Mul ({g}, c6)  {a} = Greater (v, c8)"
        "  {b} = Greater (v, c4)  {o} = Or ({a}, {b})"
        "  {i} = If ({o}) <else_branch = eb () => (float[D,E,F] e) {{ e = Unsqueeze (r, at) }},"
        " then_branch = tb () => (float[D,E,F] t) {{ t = Unsqueeze (r, at) }}>  y = Mul ({i}, c16)"
    )
    names = dict.fromkeys("sgaboi", "")
    old, new = ({name: f"{prefix}{name}" for name in names} for prefix in ("old_", "new_"))
    weights = {"c4": np.array(0), "c6": np.array(2), "c8": np.array(2), "at": np.array([0]), "c16": np.array([1.5])}
    before = model(f"{head} {{ {text.format(**old)} }}", weights)
    after = model(f"{head} {{ {text.format(**new)} }}", {**weights, "c6": np.array(5)})
    assert verify(ir.load(before), ir.load(after), runtime="none").status != "failed"


def test_where_a_part_differs_tiny_numbers_decide_before_a_runtime_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("tiny numbers show the difference")

    head = "(float[N,4] x) => (float[N,4] y)"
    before = ir.load(model(f"{head} {{ s = Mul (x, x)  a = Add (s, e)  y = Log (a) }}", {"e": np.array(1e-10)}))
    after = ir.load(model(f"{head} {{ s = Mul (x, x)  y = Log (s) }}", {}))
    monkeypatch.setattr(ort_check, "LITTLE_TIME", 0.0)
    monkeypatch.setattr(examine, "start_runtimes", asked)
    assert verify(before, after, runtime="none").status == "failed"
    right = ir.load(model(f"{head} {{ s = Mul (x, x)  a = Add (e, s)  y = Log (a) }}", {"e": np.array(1e-10)}))
    assert verify(before, right, runtime="none").verified


@pytest.mark.parametrize(
    ("relative", "own", "shows"),
    [(0.01, 0.01 / 7, True), (0.01, 0.01 / 9, False), (0.24, 0.24, True), (0.26, 0.26, False), (9e-5, 0.0, True)],
)
def test_noise_is_believed_as_far_as_the_original_errs(relative: float, own: float, *, shows: bool) -> None:
    found = Compared("y", 0, Difference(scale=1.0, max_abs=relative), onnx.TensorProto.FLOAT, (4,))
    assert (examine._inconclusive_reason([found], {"y": StorageErrors(own, own, 0)}) is None) == shows


def test_moves_of_a_weight_and_a_bias_do_not_cancel() -> None:
    """What rounding may do is the same, whatever directions the names of the weights draw."""
    rng = np.random.default_rng(3)
    a, c, b, d = (single(number) for number in rng.uniform(1.1, 1.9, 4))
    arrays = {"a": a, "c": c, "b": b, "d": d}
    before = model(
        "(float[1,1] x) => (float[1,1] y) { p = Mul (x, a)  q = Mul (p, c)  r = Add (b, d)  y = Sub (q, r) }", arrays
    )
    allowed = []
    for name in "efghijkl":
        stored = {"w": single(a * c), name: single(b + d)}
        after = model(f"(float[1,1] x) => (float[1,1] y) {{ q = Mul (x, w)  y = Sub (q, {name}) }}", stored)
        (row,) = verify(ir.load(before), ir.load(after), depth="full", runtime="none").outputs
        allowed.append(row.typical_allowed)
    assert max(allowed) < 1.01 * min(allowed)
    assert min(allowed) > 2e-7, "more than the floor"
