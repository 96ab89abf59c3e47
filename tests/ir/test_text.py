from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.errors import MalformedModel


def test_a_text_that_is_not_utf8_is_a_damaged_model() -> None:
    with pytest.raises(MalformedModel, match="a damaged model") as caught, ir.utf8("m.onnx"):
        b"a\xfb".decode()
    assert str(caught.value).startswith("m.onnx: ")
    assert "in it is not UTF-8" in str(caught.value)
