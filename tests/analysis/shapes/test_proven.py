"""What is proven of values in the body of a Loop: that of what it captures, and nothing of what it carries."""

from __future__ import annotations

import onnx.parser
import pytest

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven

BODY = """
    y, z = Loop (n, b, x) <body = l (int64 i, bool c, float[R, 3] p) => (bool d, float[A, B] q, float[E, F] r) {
        d = Identity (c)  q = Concat <axis = 0> (p, p)  s = Abs (x)  m = MatMul (p, w)
        r = Add (s, s)  t = Shape (m)  u = Shape (s)
    }>
"""


def body_of(op_type: str = "Loop") -> tuple[Proven, ir.Graph]:
    head = '<ir_version: 8, opset_import: ["" : 15]> g (float[N, 3] x, int64 n, bool b) => (float[J, K] y)'
    model = ir.load(onnx.parser.parse_model(f"{head} <float[3,4] w = {{{', '.join('1' * 12)}}}> {{ {BODY} }}"))
    (node,) = [node for node in model.graph.nodes if node.is_op(op_type)]
    return Proven(model), node.bodies[0]


@pytest.mark.parametrize(
    ("name", "dims"),
    [("s", ("0:0", 3)), ("r", ("0:0", 3)), ("p", None), ("q", None)],
)
def test_what_a_body_captures_has_its_dims_there(name: str, dims: object) -> None:
    known, body = body_of()
    assert known.dims(body.values[name]) == dims


def test_sizes_of_what_is_captured_are_followed_in_the_body() -> None:
    known, body = body_of()
    of_captured, of_carried = known.integers(body.values["u"]), known.integers(body.values["t"])
    assert of_captured is not None
    assert of_captured.items == ["0:0", 3]
    assert of_carried is None


def test_results_of_a_loop_are_not_known() -> None:
    known, body = body_of()
    assert body.parent is not None
    y, z = body.parent.outputs
    assert known.dims(y) is None
    assert known.dims(z) is None
