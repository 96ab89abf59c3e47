"""The smallest seeded faults that verification was seen to find are still found: `smallest.json` records them.

A default run tries one in twelve, and scripts/test_large all.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold.verification.tolerance import compare
from tests.conftest import sample
from tests.verification.faults import graded
from tests.verification.faults.graded import LAYERS, Graded, Seen

FAULTS = graded.faults()
RECORDED = graded.recorded()
SEEN = [
    pytest.param(fault, layer, seen, id=f"{fault.label}, {layer}")
    for fault in FAULTS
    for layer, seen in RECORDED.get(fault.label, {}).items()
]


def test_every_fault_with_a_scale_is_recorded() -> None:
    """A script records them: scripts/graded_faults.py --write."""
    assert {fault.label for fault in FAULTS} == RECORDED.keys()
    assert len(FAULTS) >= 150


def test_each_part_sees_what_is_seeded() -> None:
    unseen = {(label, layer) for label, row in RECORDED.items() for layer in LAYERS[1:] if layer not in row}
    assert unseen == set()


@pytest.mark.no_cover  # takes twice as long measured, and reaches no branch that other tests do not reach
@pytest.mark.parametrize(("fault", "layer", "seen"), sample(SEEN, every=11))
def test_a_fault_of_the_smallest_size_is_seen(fault: Graded, layer: str, seen: Seen) -> None:
    assert fault.verdict(layer, seen.share).status == "failed"


def test_a_share_of_a_fault_is_between_right_and_wrong() -> None:
    fault = FAULTS[0]
    assert fault.verdict("whole", 0.0).verified
    right, half, wrong = (
        [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
        for model in (fault.rewrite.after, fault.model(0.5), fault.wrong)
    )
    for low, middle, high in zip(right, half, wrong, strict=True):
        np.testing.assert_allclose(middle, (low + high) / 2, rtol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_tolerance_that_is_too_large_is_noticed(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "ROUNDING_FACTOR", 100 * compare.ROUNDING_FACTOR)
    monkeypatch.setattr(compare, "FLOOR", 100 * compare.FLOOR)
    statuses = [fault.verdict(layer, RECORDED[fault.label][layer].share).status for fault in FAULTS[:20]]
    assert statuses.count("failed") < 10
