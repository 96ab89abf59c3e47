"""Gemm, MatMul and Einsum."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import compute, floats


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (3, 1), (3, 5)])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm(opset: int, shape: tuple[int, ...], trans_a: int, trans_b: int) -> None:
    a, b, c = floats(1, 3, 4), floats(2, 4, 5), floats(3, *shape)
    expected = 0.5 * (a.astype(np.longdouble) @ b.astype(np.longdouble)) + 3 * c.astype(np.longdouble)
    y = compute(
        "Gemm",
        opset,
        [a.T if trans_a else a, b.T if trans_b else b, c],
        alpha=0.5,
        beta=3.0,
        transA=trans_a,
        transB=trans_b,
    )
    np.testing.assert_allclose(y, expected.astype(float), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_broadcasts_c_only_when_told(opset: int) -> None:
    a, b, c = floats(1, 3, 4), floats(2, 4, 5), floats(3, 5)
    expected = a.astype(float) @ b.astype(float) + c
    np.testing.assert_allclose(compute("Gemm", opset, [a, b, c], broadcast=1), expected, rtol=1e-13)
    with pytest.raises(reference.CannotEvaluate, match="broadcast is not set"):
        compute("Gemm", opset, [a, b, c])


def test_gemm_without_c() -> None:
    a, b = floats(1, 3, 4), floats(2, 4, 5)
    np.testing.assert_allclose(compute("Gemm", 11, [a, b]), a.astype(float) @ b.astype(float), rtol=1e-13)
    np.testing.assert_allclose(compute("Gemm", 13, [a, b, None]), a.astype(float) @ b.astype(float), rtol=1e-13)


def test_gemm_of_integers() -> None:
    a, b, c = np.array([[1, 2]]), np.array([[3], [4]]), np.array([5])
    y = compute("Gemm", 11, [a, b, c])
    assert [y.dtype, y.tolist()] == [np.int64, [[16]]]


def test_gemm_refuses_operands_that_are_no_matrices() -> None:
    with pytest.raises(reference.CannotEvaluate, match="operands of shapes"):
        compute("Gemm", 9, [floats(1, 3, 4, 1, 1), floats(2, 4, 5), floats(3, 5)])
    with pytest.raises(reference.CannotEvaluate, match="would stretch"):
        compute("Gemm", 9, [floats(1, 3, 4), floats(2, 4, 5), floats(3, 2, 3, 5)])


def test_matmul_and_einsum() -> None:
    a, b = floats(1, 2, 3, 4), floats(2, 4, 5)
    expected = np.einsum("bij,jk->bik", a.astype(np.longdouble), b.astype(np.longdouble)).astype(float)
    np.testing.assert_allclose(compute("MatMul", 9, [a, b]), expected, rtol=1e-13)
    np.testing.assert_allclose(compute("Einsum", 12, [a, b], equation="bij, jk -> bik"), expected, rtol=1e-13)
