"""What is fed first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.settings import VerifyOptions
from bnfold.verification.inputs import candidates as module
from bnfold.verification.inputs.candidates import candidates, sizes_of
from tests.verification.graphs import model

DYNAMIC = "(float[N,3] x, float[M,3] w) => (float[A,B] y) { y = Add (x, w) }"
STATIC = "(float[2,3] x) => (float[2,3] y) { y = Neg (x) }"


def test_sizes_that_inference_contradicts_come_last() -> None:
    loaded = ir.load(model("(float[N,3] x, float[N,M] w) => (float[A,B] y) { y = Add (x, w) }", {}))
    for feeds in [each for each, *_ in candidates(loaded, VerifyOptions())][:3]:
        assert feeds["w"].shape[1] in (1, 3)


def test_the_samples_are_those_that_were_asked_for() -> None:
    loaded = ir.load(model(STATIC, {}))
    (drawn,) = candidates(loaded, VerifyOptions(samples=3))
    assert len(drawn) == 3
    (first,) = candidates(loaded, VerifyOptions(samples=3), numbers=lambda _: [2])
    assert np.array_equal(first[0]["x"], drawn[2]["x"])


def test_recorded_inputs_are_the_only_ones(tmp_path: Path) -> None:
    recorded = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "data.npz", x=recorded)
    loaded = ir.load(model(STATIC, {}))
    ((feeds,),) = candidates(loaded, VerifyOptions(data=tmp_path / "data.npz"))
    assert np.array_equal(feeds["x"], recorded)


def test_what_memory_does_not_hold_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fits(elements: int, _: Any = None) -> bool:
        return elements < 20

    monkeypatch.setattr(module, "fits_memory", fits)
    loaded = ir.load(model(DYNAMIC, {}))
    drawn = [*candidates(loaded, VerifyOptions(samples=1))]
    assert drawn
    assert all(sum(array.size for array in feeds.values()) < 20 for feeds, *_ in drawn)
    assert len([*sizes_of(loaded, VerifyOptions())[1]]) > len(drawn)
