"""The referee against every result that the onnx package records or computes by itself."""

from __future__ import annotations

from typing import Any

import pytest

from bnfold import ir, reference
from bnfold.reference.registry import registered
from tests.reference.recorded import Case, differences, node_cases, stored_cases

LEGACY = """
    Add AveragePool BatchNormalization Clip Concat Conv ConvTranspose Div Elu Exp Flatten Gemm LeakyRelu LogSoftmax
    MatMul MaxPool Mul PRelu Pad Pow ReduceMean ReduceSum Relu Reshape Selu Sigmoid Slice Softmax Softplus Split Squeeze
    Sub Tanh Transpose
"""
REFUSED = ("test_gradient", "test_strnorm")

# Their results were computed in 16 bits, or lie on a tie of a rounding that float64 breaks the other way.
ROUNDED = ("bf16", "bfloat16", "BFLOAT16", "fp16", "to_FLOAT16", "dynamicquantizelinear")


def evaluate(case: Case) -> list[Any] | None:
    """The results; None where the referee refuses, which it may for what no network with BatchNormalization holds."""
    try:
        return list(reference.evaluate(ir.load(case.model), case.feeds).values())
    except reference.CannotEvaluate:
        return None


def faults(case: Case, results: list[Any]) -> list[str]:
    parts = [differences(one, other, case.rtol, case.atol) for one, other in zip(results, case.results, strict=True)]
    return [f"{case.name}: {part}" for part in parts if part]


@pytest.fixture(scope="module")
def stored() -> list[Case]:
    cases = list(stored_cases())
    if not cases:
        pytest.skip("this onnx package brings no recorded results")
    return cases


@pytest.fixture(scope="module")
def nodes() -> list[Case]:
    return list(node_cases())


def test_everything_recorded_from_pytorch(stored: list[Case]) -> None:
    covered: set[str] = set()
    for case in stored:
        results = evaluate(case)
        if results is None:
            assert case.name.startswith(REFUSED), f"{case.name} is refused"
            continue
        assert not faults(case, results)
        covered |= case.operators
    assert not set(LEGACY.split()) - covered


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.large
def test_everything_the_package_computes_for_operators_with_a_kernel(nodes: list[Case]) -> None:
    ours = {op for domain, op, _ in registered() if not domain}
    wrong: list[str] = []
    compared = 0
    for case in nodes:
        results = evaluate(case)
        if results is None or any(mark in case.name for mark in ROUNDED):
            continue
        compared += case.operators <= ours
        wrong += faults(case, results)
    assert not wrong
    assert compared > 1300


@pytest.mark.large
@pytest.mark.parametrize(
    "op", ["BatchNormalization", "InstanceNormalization", "GroupNormalization", "Conv", "ConvTranspose", "Gemm"]
)
def test_no_case_of_the_operators_at_the_heart_is_refused(nodes: list[Case], op: str) -> None:
    mine = [case for case in nodes if case.operators == {op}]
    assert len(mine) > 1
    assert [case.name for case in mine if evaluate(case) is None] == []
