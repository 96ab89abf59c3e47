from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.verification.inputs.sized import sized
from tests.verification.graphs import model


def test_a_copy_is_indexed_once_with_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ir.load(model("(float[N,3] x) => (float[N,3] y) { a = Relu (x)  y = Neg (a) }", {}))
    indexed: list[ir.Model] = []
    reindex = ir.Model.reindex

    def watched(one: ir.Model) -> None:
        indexed.append(one)
        reindex(one)

    monkeypatch.setattr(ir.Model, "reindex", watched)
    copy = sized(original, {"x": (2, 3)})
    assert indexed == [copy]
    assert copy.graph.values["a"].shape == (2, 3)
    assert original.graph.values["x"].shape == ("N", 3)
