from collections.abc import Callable
from typing import Any

import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize(
    ("equation", "inputs"),
    [("ij,jk->ik", "float[2, 3] a, float[3, 4] b"), ("ij,jk", "float[2, 3] a, float[3, 4] b"),
     ("bhid,bhjd->bhij", "float[2, 3, 4, 5] a, float[2, 3, 6, 5] b"),
     ("bij,bjk->kib", "float[2, 3, 4] a, float[2, 4, 5] b"), ("i,j->ji", "float[2] a, float[3] b"),
     ("i,i->", "float[3] a, float[3] b"), ("ijk,jl->il", "float[2, 3, 4] a, float[3, 5] b"),
     ("ij,ij->ij", "float[2, 3] a, float[2, 3] b"), ("nij,jk->nik", "float[n, 3, 4] a, float[4, 5] b"),
     ("bhid,bhjd->bihj", "float[b, 3, i, 5] a, float[b, 3, j, 5] b"),
     ("b...i,ij->b...j", "float[b, 2, c, 3] a, float[3, 4] b"),
     ("...ij,...jk->...ik", "float[2, 3, 4] a, float[2, 4, 5] b"), ("...i,i->...", "float[2, 3] a, float[3] b")],
)  # fmt: skip
@pytest.mark.parametrize("target", [11, 9])
def test_two_operands(lowered: Lowered, text: Text, equation: str, inputs: str, target: int) -> None:
    source = text(13, inputs, f'y = Einsum <equation = "{equation}"> (a, b)', outputs="float[] y")
    lowered(source, target)


@pytest.mark.parametrize("equation", ["ij->ji", "ij->i", "ij->", "ij->ij", "ij"])
def test_one_operand(lowered: Lowered, text: Text, equation: str) -> None:
    lowered(text(12, "float[2, 3] a", f'y = Einsum <equation = "{equation}"> (a)', outputs="float[] y"), 11)


@pytest.mark.parametrize(
    ("equation", "inputs", "why"),
    [("ij,jk,kl->il", "float[2, 3] a, float[3, 4] b, float[4, 5] c", "more than two operands"),
     ("...i,...i->...", "float[2, 3] a, float[3] b", "axes of several numbers"),
     ("ii->i", "float[3, 3] a", "repeats an index"),
     ("ij,jk->ik", "float[2, n] a, float[m, 4] b", "1 would be another meaning"),
     ("bcij,bjk->bcik", "float[b, 2, i, 3] a, float[b, 3, 4] b", "more than one open size"),
     ("ij,jk->ik", "float[2, 3] a, float[1, 4] b", "of sizes 3 and 1")],
)  # fmt: skip
def test_what_is_refused(text: Text, equation: str, inputs: str, why: str) -> None:
    names = ", ".join("abc"[: equation.count(",") + 1])
    source = text(12, inputs, f'y = Einsum <equation = "{equation}"> ({names})', outputs="float[] y")
    with pytest.raises(ConversionBlocked, match=why):
        convert(ir.load(onnx.parser.parse_model(source)), 11)
