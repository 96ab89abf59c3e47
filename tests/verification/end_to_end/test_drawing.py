from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.end_to_end import drawing
from bnfold.verification.end_to_end.drawing import Sample
from bnfold.verification.inputs.choices import Choice
from bnfold.verification.inputs.drawing import SAMPLE_KINDS
from tests.verification.graphs import model


@pytest.mark.parametrize(
    ("body", "index", "again"),
    [
        ("y = Div (x, x)", 3, True),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 2, True),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 3, False),
        ("l = Log (x)  y = Concat <axis = 0> (x, l)", 1, True),  # large: it may overflow
    ],
)
def test_a_sample_of_nan_is_drawn_again_unless_a_log_makes_it(
    body: str, index: int, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def drawn(_request: Any, _pair: Any, _choice: Any, number: int, **_: bool) -> Sample:
        asked.append(number)
        return Sample({}, {"y": np.array([np.nan if number == index else 1.0])})

    monkeypatch.setattr(drawing, "drawn", drawn)
    loaded = ir.load(model(f"(float[2,3,4,4] x) => (float[A,B,C,D] y) {{ {body} }}", {}))
    pair = cast(Any, SimpleNamespace(outputs=["y"]))
    first = Sample({}, {"y": np.ones(1)})
    found = drawing.drawn_in_range(cast(Any, None), pair, Choice({"x": (2, 3, 4, 4)}, loaded), first, index)
    assert asked == ([index, 2 * len(SAMPLE_KINDS) * index] if again else [index])
    assert bool(np.isnan(found.expected["y"]).any()) is not again


@pytest.mark.parametrize("legal", [True, False])
def test_a_flag_is_turned_where_one_of_its_values_fits_nothing(legal: bool) -> None:
    """As of a body that only one of two shapes fits."""
    squeezed, negated = "t () => (float[A] p) { p = Squeeze (x) }", "e () => (float[A] q) { q = Neg (x) }"
    first, second = (squeezed, negated) if legal else (negated, squeezed)
    text = (
        "(float[1,3,4] x, bool c) => (float[M,4] y)"
        f" {{ a = If (c) <then_branch = {first}, else_branch = {second}>  b = MatMul (a, w)  y = Gemm (b, v) }}"
    )
    weights = {"w": np.eye(4), "v": np.eye(4) * 2, "one": np.ones(1)}
    texts = text, text.replace("MatMul (a, w)", "Mul (a, one)")
    before, after = (ir.load(model(each, weights)) for each in texts)
    verdict = verify(before, after, runtime="none", depth="full", samples=3)
    assert "identical" in verdict.reason, verdict.reason
