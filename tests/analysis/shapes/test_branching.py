"""What is known of the results of If: what branches have in common, and the rank that readers take."""

from __future__ import annotations

import math

import onnx.parser
import pytest

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.ir.value import Dim

HEAD = "(float[N,3,4] x, bool c) => (float[A] y)"
STORED = "int64[1] front = {0}"
SIDES = """
    then_branch = t () => (float[P] p) <int64[1] zero = {0}> { p = YES },
    else_branch = e () => (float[Q] q) <int64[1] zero = {0}> { q = NO }
"""
LSTM = "h, y = LSTM <hidden_size = 2> ({}, w, v)"


def dims(body: str, value: str = "a") -> tuple[Dim, ...] | None:
    text = f'<ir_version: 8, opset_import: ["": 15]> g {HEAD} <{STORED}> {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    for name, sizes in (("w", [1, 8, 4]), ("v", [1, 8, 2]), ("k", [5, 3, 1])):
        proto.graph.initializer.add(name=name, data_type=1, dims=sizes, raw_data=bytes(4 * math.prod(sizes)))
    model = ir.load(proto.SerializeToString())
    return Proven(model).dims(model.graph.values[value])


def choice(made: str, yes: str, no: str, condition: str = "c") -> str:
    return f"{made} = If ({condition}) <{SIDES.replace('YES', yes).replace('NO', no)}>"


@pytest.mark.parametrize(
    ("yes", "no", "known"),
    [
        ("Neg (x)", "Relu (x)", ("0:0", 3, 4)),
        ("Concat <axis = 1> (x, x)", "Relu (x)", ("0:0", None, 4)),
        ("Concat <axis = 0> (x, x)", "Relu (x)", (None, 3, 4)),
        ("Unsqueeze (x, zero)", "Relu (x)", None),
    ],
)
def test_what_branches_have_in_common(yes: str, no: str, known: tuple[Dim, ...] | None) -> None:
    assert dims(f"{choice('a', yes, no)}  y = Abs (a)") == known


ONE_OF_TWO = choice("a", "Unsqueeze (x, zero)", "Relu (x)")


@pytest.mark.parametrize(
    ("body", "rank"),
    [
        (f"{ONE_OF_TWO}  {LSTM.format('a')}", 3),
        (f"{ONE_OF_TWO}  b = Neg (a)  d = Squeeze (b, front)  {LSTM.format('d')}", 4),
        (f"{ONE_OF_TWO}  {choice('b', 'Squeeze (a, zero)', 'Squeeze (a, zero)')}  {LSTM.format('b')}", 4),
        # One branch takes 3 axes and the other one 2, of which the value has 3.
        (f"{ONE_OF_TWO}  {choice('b', 'Identity (a)', 'Unsqueeze (a, zero)')}  {LSTM.format('b')}", 3),
        # Either of them may be right.
        (f"{ONE_OF_TWO}  {choice('b', 'Identity (a)', 'Squeeze (a, zero)')}  {LSTM.format('b')}", None),
        # One branch does not read the value.
        (f"{ONE_OF_TWO}  {choice('b', 'Identity (a)', 'Identity (x)')}  {LSTM.format('b')}", None),
        # Nothing reads what the LSTM makes: no runtime computes it.
        (f"{ONE_OF_TWO}  h, z = LSTM <hidden_size = 2> (a, w, v)  y = Abs (a)", None),
        # Only one branch reads it, which may not be taken.
        (f"{ONE_OF_TWO}  {choice('b', 'Neg (a)', 'Neg (x)')}  y = Abs (b)", None),
    ],
)
def test_the_rank_that_is_read(body: str, rank: int | None) -> None:
    found = dims(body)
    assert (None if found is None else len(found)) == rank


def test_what_a_weight_tells_behind_an_if() -> None:
    body = f"{ONE_OF_TWO}  b = Conv (a, k)  s = Sigmoid (b)  y = Abs (s)"
    assert dims(body, "b") == (None, 5, None)
    assert (dims(body, "s") or ())[1] == 5
