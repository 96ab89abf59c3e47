from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from tests.verification.graphs import Weights, model

NODES = (
    "c = Concat <axis = 0> (p, z)  r = Reshape (c, rows)  b = Slice (r, last, first, axes, back)"
    " t = Transpose <perm = [1, 0]> (b)  q = Reshape (t, all)  y = Pad <mode = {mode}> (x, q)"
)
CHAIN: Weights = {
    "p": np.full(4, 3),
    "z": np.zeros(4, np.int64),
    "rows": np.array([-1, 2]),
    "last": np.array([-1]),
    "first": np.array([-(2**63) + 1]),
    "axes": np.array([0]),
    "back": np.array([-1]),
    "all": np.array([-1]),
}
PADS = np.array([0, 0, 3, 3, 0, 0, 3, 3])


def computed(inputs: str = "", mode: str = '"reflect"') -> onnx.ModelProto:
    return model(f"(float[1,3,h,w] x{inputs}) => (float[a,b,c,d] y) {{ {NODES.format(mode=mode)} }}", CHAIN)


def stored(pads: np.ndarray, inputs: str = "", weights: Weights | None = None) -> onnx.ModelProto:
    body = f'(float[1,3,h,w] x{inputs}) => (float[a,b,c,d] y) {{ y = Pad <mode = "reflect"> (x, w) }}'
    return model(body, {"w": pads, **(weights or {})})


@pytest.mark.parametrize("turned", [False, True])
def test_integers_that_are_computed_may_be_stored_and_the_reverse(turned: bool) -> None:
    """Not every number that they are made from matters: a Slice to the end, say, may go a step further."""
    pair = [ir.load(computed()), ir.load(stored(PADS))][:: -1 if turned else 1]
    verdict = verify(*pair, depth="local")
    assert verdict.verified, verdict.reason


def test_other_integers_are_another_result() -> None:
    verdict = verify(ir.load(computed()), ir.load(stored(PADS[[0, 1, 2, 3, 4, 5, 6, 0]])), depth="local")
    assert verdict.status == "failed"


def test_integers_that_a_caller_may_override_are_not_settled() -> None:
    """The default is the same; what else a caller gives is not."""
    inputs = ", int64[4] p"
    verdict = verify(ir.load(computed(inputs)), ir.load(stored(PADS, inputs, {"p": CHAIN["p"]})))
    assert not verdict.verified


def test_sequences_of_constants_are_no_integers() -> None:
    nodes = "s = SequenceConstruct (p, z)  y = SequenceAt (s, i)"
    before = model(f"(int64 i) => (int64[n] y) {{ {nodes} }}", {"p": CHAIN["p"], "z": CHAIN["rows"]})
    after = model(f"(int64 i) => (int64[n] y) {{ {nodes.replace('(p, z)', '(p, p)')} }}", {"p": CHAIN["p"]})
    verdict = verify(ir.load(before), ir.load(after), depth="local")
    assert not verdict.verified
