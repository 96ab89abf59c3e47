from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.runtimes.hazards import hazards
from tests.verification.graphs import model, numbers, statistics

STATS = statistics(numbers(0), 4)
MATMUL = (
    "(float[4,4] x) => (float[4,4] y) { c = MatMul (x, W)  {between}  y = BatchNormalization (d, scale, B, mean, var) }"
)
WEIGHT = {"W": numbers(1).normal(size=(4, 4))}


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("d = Transpose (c)", True),
        ("r = Transpose (c)  d = Transpose (r)", True),
        ("d = Relu (c)", False),
        ("r = Relu (c)  d = Transpose (r)", False),
    ],
)
def test_a_matmul_behind_a_transpose(between: str, found: bool) -> None:
    notes = hazards(ir.load(model(MATMUL.replace("{between}", between), {**WEIGHT, **STATS})))
    assert bool(notes) is found
    assert all("MatMul" in note for note in notes)


@pytest.mark.parametrize(
    ("parameters", "training", "found"),
    [
        ("scale, B, mean, scale", 1, True),
        ("scale, B, B, var", 1, True),
        ("scale, B, B, var", 0, False),
        ("scale, B, mean, var", 1, False),
    ],
)
def test_training_with_one_initializer_for_two(parameters: str, training: int, found: bool) -> None:
    outputs = "y, m, v" if training else "y"
    node = f"{outputs} = BatchNormalization <training_mode = {training}> (x, {parameters})"
    body = f"(float[N,4,L] x) => (float[N,4,L] y) {{ {node} }}"
    notes = hazards(ir.load(model(body, STATS, opset=15)))
    assert bool(notes) is found


def test_they_are_notes_of_a_verdict() -> None:
    proto = model(MATMUL.replace("{between}", "d = Transpose (c)"), {**WEIGHT, **STATS})
    verdict = verify(ir.load(proto), ir.load(proto), runtime="none")
    assert any("MatMul" in note for note in verdict.notes)
