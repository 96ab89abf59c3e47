from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize(
    ("attributes", "made"),
    [("", "float"), ("<k = 1>", "float"), ("<k = -2>", "float"), ("<k = 9>", "float"), ("<dtype = 7>", "int64")],
)
@pytest.mark.parametrize("shape", ["3, 5", "4, 2"])
def test_the_diagonal_of_known_sizes(lowered: Lowered, text: Text, attributes: str, made: str, shape: str) -> None:
    source = text(9, f"float[{shape}] x", f"y = EyeLike {attributes} (x)", outputs=f"{made}[] y")
    assert lowered(source, 8).ops == ["Identity"]


@pytest.mark.parametrize("kind", ["int32", "double"])
def test_the_diagonal_has_the_type_of_the_input(lowered: Lowered, text: Text, kind: str) -> None:
    lowered(text(22, f"{kind}[2, 3] x", "y = EyeLike (x)", outputs=f"{kind}[] y"), 8)


@pytest.mark.parametrize(
    ("shape", "why"), [("2, n", "of unknown sizes"), ("2048, 1024", "2048 by 1024, too large to be stored")]
)
def test_a_diagonal_that_is_refused(lowered: Lowered, text: Text, shape: str, why: str) -> None:
    source = text(9, f"float[{shape}] x", "y = EyeLike (x)")
    with pytest.raises(ConversionBlocked, match=why):
        lowered(source, 8)
