from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("given", ["x", ""])
@pytest.mark.parametrize("target", [17, 14, 9])
def test_what_has_an_element_is_known(lowered: Lowered, text: Text, given: str, target: int) -> None:
    source = text(18, "float[2] x", f"y = OptionalHasElement ({given})", outputs="bool y")
    assert "OptionalHasElement" not in lowered(source, target).ops


@pytest.mark.parametrize("target", [17, 14, 9])
def test_a_tensor_is_its_own_element(lowered: Lowered, text: Text, target: int) -> None:
    assert lowered(text(18, "float[2] x", "y = OptionalGetElement (x)"), target).ops == ["Identity"]


def test_an_optional_needs_opset_15(upgraded: Lowered, text: Text) -> None:
    source = text(18, "optional(float[2]) x", "y = OptionalGetElement (x)", outputs="float[2] y")
    with pytest.raises(ConversionBlocked, match="does not exist before opset 15"):
        upgraded(source, 14, compare=False)
