"""No damaged conversion is called verified, unless the damage changes nothing: verification as by default."""

from __future__ import annotations

import numpy as np
import pytest

import bnfold
from bnfold import ir
from bnfold.verification import verify
from tests.conftest import sample
from tests.converting import faults

UNCHECKED = bnfold.VerifyOptions(depth="none")
SEEDS = sample(range(4), every=4)


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("opset", "target", "inputs", "body"), faults.MODELS, ids=[f"{row[3]} {row[0]} {row[1]}" for row in faults.MODELS]
)
def test_a_damaged_conversion_is_not_verified(opset: int, target: int, inputs: str, body: str, seed: int) -> None:
    before = faults.parsed(opset, inputs, body)
    outcome = bnfold.convert(before, opset=target, verify=UNCHECKED)
    rng = np.random.default_rng([seed, opset, target, len(body)])
    fault = faults.damaged(before, outcome.to_proto(), rng)
    assert fault is not None
    is_seen = faults.shows(before, fault.model, rng)
    if is_seen is None:
        pytest.skip("onnxruntime has no kernel for the original")
    verdict = verify(ir.load(before), ir.load(fault.model), cuts=outcome.report.cuts)
    assert not (is_seen and verdict.verified), f"{fault.name}: {verdict.reason}"


@pytest.mark.parametrize(
    ("opset", "target", "inputs", "body"), faults.MODELS, ids=[f"{row[3]} {row[0]} {row[1]}" for row in faults.MODELS]
)
def test_the_conversion_itself_is(opset: int, target: int, inputs: str, body: str) -> None:
    assert bnfold.convert(faults.parsed(opset, inputs, body), opset=target).status == "verified"
