"""Every tolerance from both sides, in numbers: a little less is accepted, and a little more is not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification.tolerance import bits, rounding
from bnfold.verification.tolerance.compare import Difference, compare_values
from bnfold.verification.tolerance.discontinuities import discontinuous_slots
from bnfold.verification.tolerance.floats import float_type, ulps
from bnfold.verification.tolerance.rounding import disturb, is_short
from bnfold.verification.tolerance.storage import StorageErrors, agrees, errors, growth_fault
from tests.verification.graphs import model

T = onnx.TensorProto


@pytest.mark.parametrize(
    ("dtype", "moved", "allowed"),
    [
        (T.FLOAT, 0.0, 2 * 2.0**-24),  # two roundings of the largest number
        (T.FLOAT16, 0.0, 2 * 2.0**-11),
        (T.DOUBLE, 0.0, 1e-12),  # what float64's own arithmetic makes
        (T.FLOAT, 1e-3, 8 * 0.5e-3),  # eight times what half a unit of the weights moves
    ],
)
def test_how_far_a_result_may_be_off(dtype: int, moved: float, allowed: float) -> None:
    expected = np.array([1.0, 0.5])
    for share, is_accepted in ((0.9, True), (1.1, False)):
        actual = expected + share * allowed
        rounds = [[actual + moved]] if moved else []
        assert (compare_values(expected, actual, rounds, dtype, by_channel=False).excess <= 1) == is_accepted


@pytest.mark.parametrize(
    ("excess", "relative", "is_in_doubt"),
    [
        (0.9, 1.0, False),
        (1.1, 1.0, True),
        (900.0, 1.0, True),
        (1100.0, 1.0, False),
        (1e9, 9e-7, True),
        (1e9, 2e-6, False),
    ],
)
def test_which_differences_another_draw_may_explain(excess: float, relative: float, *, is_in_doubt: bool) -> None:
    assert Difference(scale=1.0, max_abs=relative, excess=excess).is_in_doubt() == is_in_doubt


@pytest.mark.parametrize(("rounds", "excess", "is_in_doubt"), [(2, 1e9, True), (3, 1e9, False), (1, np.inf, False)])
def test_a_gross_difference_is_one_after_three_rounds(rounds: int, excess: float, *, is_in_doubt: bool) -> None:
    """In two, the moves of a few weights may cancel; another shape is never explained."""
    assert Difference(scale=1.0, max_abs=1.0, excess=excess).is_in_doubt(rounds) == is_in_doubt


@pytest.mark.parametrize(
    ("dtype", "before", "allowed"),
    [
        (T.FLOAT, 0.0, 2.0**-19),
        (T.FLOAT, 1e-5, 4e-5 + 2.0**-19),
        (T.FLOAT16, 0.0, 8 * 2.0**-11),
        (T.FLOAT16, 1e-2, 4e-2 + 8 * 2.0**-11),
    ],
)
def test_how_far_errors_may_grow(dtype: int, before: float, allowed: float) -> None:
    for share, is_accepted in ((0.95, True), (1.05, False)):
        after = StorageErrors(share * allowed, share * allowed, 0)
        assert (growth_fault("y", dtype, StorageErrors(before, 0.0, 0), after) is None) == is_accepted


@pytest.mark.parametrize(("dtype", "allowed"), [(T.FLOAT, 2.0**-10), (T.FLOAT16, 0.25), (T.BFLOAT16, 0.25)])
def test_how_well_a_runtime_has_to_agree(dtype: int, allowed: float) -> None:
    assert agrees(StorageErrors(0.95 * allowed, 0.0, 0), dtype)
    assert not agrees(StorageErrors(1.05 * allowed, 0.0, 0), dtype)


def test_beside_a_truth_of_zeros_errors_are_absolute() -> None:
    found = errors([{"y": np.zeros(3)}], [{"y": np.full(3, 1e-3)}], "y")
    assert found is not None
    assert [found.largest, found.rms] == pytest.approx([1e-3, 1e-3])


def test_of_float64_no_error_is_measured() -> None:
    """It is as precise as what it would be measured against."""
    assert growth_fault("y", T.DOUBLE, StorageErrors(0.0, 0.0, 0), StorageErrors(0.5, 0.5, 0)) is None


def test_small_elements_do_not_count_in_ulps() -> None:
    size, delta = np.array([1.0, 0.07, 0.06]), np.array([0.0, 1e-6, 1e-6])
    kind = float_type(T.FLOAT)
    assert ulps(delta, size, 1.0, kind) == pytest.approx(1e-6 / 2.0**-27)
    assert ulps(delta[[0, 2]], size[[0, 2]], 1.0, kind) == 0


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.full(64, 1 + 2.0**-11, np.float32), True),
        (np.full(65, 1 + 2.0**-11, np.float32), False),
        (np.full(1, 1 + 2.0**-12, np.float32), False),
        (np.full(1, 1 + 2.0**-4, np.float16), True),
        (np.full(1, 1 + 2.0**-5, np.float16), False),
    ],
)
def test_numbers_that_were_not_rounded(array: np.ndarray, *, expected: bool) -> None:
    assert is_short(ir.Inline(onnx.numpy_helper.from_array(array))) == expected


DISCONTINUOUS = {
    "RoiAlign": ["rois"], "MaxRoiPool": ["rois"], "GridSample": ["grid"], "NonMaxSuppression": ["boxes", "scores"],
    "Greater": ["A", "B"], "Less": ["A", "B"], "GreaterOrEqual": ["A", "B"], "LessOrEqual": ["A", "B"],
    "Equal": ["A", "B"], "Mod": ["A", "B"], "Round": ["X"], "ArgMax": ["data"],
}  # fmt: skip


@pytest.mark.parametrize("op_type", DISCONTINUOUS)
def test_the_operands_of_discontinuous_operators(op_type: str) -> None:
    inputs = [parameter.name for parameter in onnx.defs.get_schema(op_type, 16).inputs]
    names = ", ".join(f"x{index}" for index in range(len(inputs)))
    head = ", ".join(f"float[a,b,c,d] x{index}" for index in range(len(inputs)))
    (node,) = ir.load(model(f"({head}) => (float[e,f,g,h] y) {{ y = {op_type} ({names}) }}", {}, opset=16)).nodes()
    assert [inputs[slot] for slot in discontinuous_slots(node)] == DISCONTINUOUS[op_type]


@pytest.mark.parametrize("piece", [8, 64, 1 << 20])
def test_the_size_of_a_piece_changes_no_result(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """These sizes are chosen for the processor's cache."""
    values = np.random.default_rng(0).normal(size=999).astype(np.float32)
    fill, near = np.broadcast_to(np.float32(0.3), 999), np.full(999, 0.3, np.float32)
    near[998] = 0.31

    def results() -> list[object]:
        tensors = [ir.tensor.InMemory(T.FLOAT, array) for array in (fill, near, near.copy(), np.full(999, 0.3, "f4"))]
        sames = [bits.same(one, other) for one in tensors for other in tensors]
        return [sames, disturb(values, T.FLOAT, 3).tolist(), disturb(near, T.FLOAT, 4).tolist()]

    expected = results()
    monkeypatch.setattr(bits, "_PIECE", piece)
    monkeypatch.setattr(rounding, "_BLOCK", piece)
    assert results() == expected


@pytest.mark.parametrize("actual", [np.zeros((1, 2)), np.zeros(2, np.int64)])
def test_all_of_a_result_of_another_form_is_beyond(actual: np.ndarray) -> None:
    found = compare_values(np.zeros(2), actual, (), T.FLOAT, by_channel=False)
    assert (found.beyond, found.excess) == (1.0, np.inf)
