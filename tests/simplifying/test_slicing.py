"""Slice: one for two, at every size."""

from __future__ import annotations

import onnx
import pytest

from tests.simplifying.small import assert_equal, model, operators, simplified

MOST = 2**63 - 1
CASES = {
    "other axes": ("[1]", "[7]", "[1]", "[1]", "[0]", "[3]", "[2]", "[1]", 1),
    "a step each": ("[0]", "[9]", "[1]", "[2]", "[5]", "[-9]", "[2]", "[-1]", 1),
    "axes from behind": ("[1]", "[-1]", "[-1]", "[1]", "[0]", "[3]", "[-2]", "[1]", 1),
    "one axis counted from both ends": ("[1]", "[9]", "[-1]", "[1]", "[2]", "[4]", "[2]", "[1]", 1),
    "one axis": ("[1]", "[4]", "[1]", "[1]", "[1]", "[2]", "[1]", "[1]", 1),
    "one axis, past its end": ("[3]", "[5]", "[1]", "[1]", "[1]", "[9]", "[1]", "[1]", 1),
    "one axis to the end": ("[1]", "[-1]", "[1]", "[1]", "[1]", f"[{MOST}]", "[1]", "[1]", 1),
    "one axis, then others": ("[1, 0]", "[4, 2]", "[1, 2]", "[1, 1]", "[1]", "[3]", "[1]", "[1]", 1),
    "to the last but one": ("[1]", "[4]", "[1]", "[1]", "[0]", "[-1]", "[1]", "[1]", 2),
    "from the last but one": ("[1]", "[4]", "[1]", "[1]", "[-2]", "[9]", "[1]", "[1]", 2),
    "all but the last, then some": ("[0]", "[-1]", "[1]", "[1]", "[0]", "[2]", "[1]", "[1]", 2),
    "every second of one axis": ("[0]", "[9]", "[1]", "[2]", "[1]", "[9]", "[1]", "[1]", 2),
    "backward, then some": ("[9]", "[-9]", "[1]", "[-1]", "[0]", "[2]", "[1]", "[1]", 2),
}


def numbers(name: str, text: str) -> str:
    """The constant of a name, out of a list."""
    return f"int64[{text.count(',') + 1}] {name} = {{{text.strip('[]')}}}"


@pytest.mark.parametrize("case", CASES)
def test_two_in_a_row(case: str) -> None:
    """One is left where it takes the same at every size, two where that depends on the size."""
    *texts, left = CASES[case]
    constants = ", ".join(numbers(f"k{place}", text) for place, text in enumerate(texts))
    body = "a = Slice (x, k0, k1, k2, k3) b = Slice (a, k4, k5, k6, k7) y = Relu (b)"
    before = model("(float[A,B,C] x) => (float[D,E,F] y)", body, constants)
    after, report = simplified(before)
    assert operators(after) == ["Slice"] * left + ["Relu"]
    assert [event.rewrite.title for event in report.simplified] == ["Slice after another"] * (2 - left)
    assert_equal(before, after, *((2, size, other) for size in range(1, 7) for other in (1, 4, 6)))


def test_axes_that_may_be_one() -> None:
    """Without a rank nobody knows whether -1 is 1."""
    constants = ", ".join(
        numbers(name, text) for name, text in {"s": "[1]", "e": "[3]", "a": "[1]", "b": "[-1]"}.items()
    )
    body = "u = Reshape (x, shape) a1 = Slice (u, s, e, a) b1 = Slice (a1, s, e, b) y = Relu (b1)"
    head = "(float[A,B,C] x, int64[R] shape) => (float y)"
    after, _ = simplified(model(head, body, constants))
    assert operators(after) == ["Reshape", "Slice", "Slice", "Relu"]


def test_another_reads_what_is_between() -> None:
    """The first Slice stays then, and two read what one read."""
    constants = ", ".join(
        numbers(name, text) for name, text in {"s": "[1]", "e": "[3]", "a": "[1]", "b": "[2]"}.items()
    )
    body = "m = Slice (x, s, e, a) n = Slice (m, s, e, b) k = ReduceSum (m) y = Add (n, k)"
    after, _ = simplified(model("(float[A,B,C] x) => (float[D,E,F] y)", body, constants))
    assert operators(after) == ["Slice", "Slice", "ReduceSum", "Add"]


@pytest.mark.parametrize("opset", [9, 10, 13])
def test_the_form_of_each_opset(opset: int) -> None:
    """Below 10 the places are attributes; what takes all goes, and two in a row are one."""
    first, second = "starts = [1], ends = [9], axes = [1]", "starts = [2], ends = [5], axes = [1]"
    if opset < 10:
        body = f"a = Slice <starts = [0], ends = [2147483647]> (x) b = Slice <{first}> (a) y = Slice <{second}> (b)"
        constants = ""
    else:
        body = "a = Slice (x, zero, most) b = Slice (a, one, nine, one) y = Slice (b, two, five, one)"
        constants = (
            "int64[1] zero = {0}, int64[1] most = {2147483647}, int64[1] one = {1}, int64[1] nine = {9},"
            " int64[1] two = {2}, int64[1] five = {5}"
        )
    before = model("(float[N,M] x) => (float[N,K] y)", body, constants, opset=opset)
    after, _ = simplified(before)
    onnx.checker.check_model(after, full_check=True)
    assert operators(after) == ["Slice"]
    assert len(after.graph.node[0].attribute) == (3 if opset < 10 else 0)
    assert_equal(before, after, (2, 12), (1, 3), (3, 6))
