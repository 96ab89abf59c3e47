"""What draws random numbers says so."""

from __future__ import annotations

from typing import Any

import pytest

from bnfold import reference
from tests.reference.models import Array, compute, floats


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attrs"),
    [
        ("RandomNormal", 1, [], {"shape": [2, 3]}),
        ("RandomUniform", 22, [], {"shape": [2, 3], "seed": 1.0}),
        ("RandomNormalLike", 1, [floats(1, 2)], {}),
        ("RandomUniformLike", 22, [floats(1, 2)], {}),
        ("Multinomial", 7, [floats(1, 2, 3)], {}),
        ("Bernoulli", 15, [floats(1, 2, 3)], {}),
    ],
)
def test_random(op: str, opset: int, inputs: list[Array], attrs: dict[str, Any]) -> None:
    with pytest.raises(reference.Random, match="random numbers") as error:
        compute(op, opset, [*inputs], **attrs)
    assert (error.value.op, error.value.node) == (op, "node")
