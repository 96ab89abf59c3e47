from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold.verification.tolerance.storage import GROWTH, StorageErrors, agrees, errors, growth_fault

F32 = onnx.TensorProto.FLOAT


def test_errors_are_relative_to_the_scale_and_the_worst_sample_counts() -> None:
    truth = [{"y": np.array([2.0, -4.0])}, {"y": np.array([1.0, 0.5])}]
    results = [{"y": np.array([2.0, -4.4])}, {"y": np.array([1.0, 0.5])}]
    found = errors(truth, results, "y")
    assert found is not None
    assert found.largest == pytest.approx(0.1)
    assert found.rms == pytest.approx(0.1 / np.sqrt(2))
    assert found.broken == 0


def test_elements_that_break_are_counted() -> None:
    truth = [{"y": np.array([1.0, 2.0, np.inf, np.nan])}]
    found = errors(truth, [{"y": np.array([np.nan, np.inf, 5.0, 1.0])}], "y")
    assert found is not None
    assert found.broken == 2


def test_what_is_missing_or_misshapen_is_no_measure() -> None:
    truth = [{"y": np.ones(3)}]
    assert errors(truth, [{"y": np.array(["b", "b", "b"], object)}], "y") is None
    assert errors(truth, [{}], "y") is None
    assert errors(truth, [{"y": np.ones(4)}], "y") is None
    assert errors([{"y": [np.ones(3)]}], [{"y": np.ones(3)}], "y") is None
    assert errors([{"y": np.array(["a"], dtype=object)}], [{"y": np.array(["a"], dtype=object)}], "y") is None


def test_growth_beyond_the_factor_is_a_fault() -> None:
    small = StorageErrors(1e-6, 1e-7, 0)
    assert not growth_fault("y", F32, small, StorageErrors(GROWTH * 1e-6, GROWTH * 1e-7, 0))
    found = growth_fault("y", F32, small, StorageErrors(1e-4, 1e-5, 0))
    assert found is not None
    assert "grew" in found.sentence


def test_rounding_after_an_exact_original_is_no_fault() -> None:
    assert not growth_fault("y", F32, StorageErrors(0.0, 0.0, 0), StorageErrors(2e-7, 5e-8, 0))


def test_one_bad_element_among_good_ones_is_a_draw_of_rounding() -> None:
    assert not growth_fault("y", F32, StorageErrors(1e-6, 1e-7, 0), StorageErrors(6e-6, 1e-7, 0))


def test_newly_broken_elements_are_a_fault_whatever_the_errors() -> None:
    found = growth_fault("y", F32, StorageErrors(0.0, 0.0, 0), StorageErrors(0.0, 0.0, 1))
    assert found is not None
    assert "overflow" in found.sentence
    assert not growth_fault("y", F32, StorageErrors(0.0, 0.0, 3), StorageErrors(0.0, 0.0, 2))


def test_agreement_scales_with_the_type() -> None:
    assert agrees(StorageErrors(1e-4, 1e-5, 0), F32)
    assert not agrees(StorageErrors(1e-2, 1e-3, 0), F32)
    assert agrees(StorageErrors(1e-2, 1e-3, 0), onnx.TensorProto.FLOAT16)
    assert not agrees(StorageErrors(0.3, 0.1, 0), onnx.TensorProto.FLOAT16)
    assert not agrees(StorageErrors(0.0, 0.0, 1), F32)
