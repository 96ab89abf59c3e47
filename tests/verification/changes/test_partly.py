"""What is known of values that are computed from sizes, and which numbers decide nothing there."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.changes.partly import PartlyKnown
from tests.verification.graphs import Depth, Weights, model

HEAD = "(float[N,7,7,5] x, int64[1] fed) => (float[A,B] y)"
NUMBERS: Weights = {
    **{f"k{number}": np.array([number]) for number in (0, 1, 2, 3, 9)},
    "turned": np.array([0, 2, 3, 1]),
    "rest": np.array([245]),
    "minus": np.array([-1]),
    "less": np.array([-1], np.int32),
    "least": np.array([-1], np.int8),
    "no": np.zeros(4, np.bool_),
    "two": np.zeros(2, np.bool_),
    "ones": np.ones(4, np.int64),
    "both": np.ones(2, np.int64),
}


def loaded(body: str) -> ir.Model:
    return ir.load(model(f"{HEAD} {{ {body} }}", NUMBERS))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v = Shape (x)", [None, 7, 7, 5]),
        ("s = Shape (x)  v = Gather (s, turned)", [None, 7, 5, 7]),
        ("s = Shape (x)  m = Mul (s, k2)  v = Slice (m, k0, k2)", [None, 14]),
        ("s = Shape (x)  v = Equal (s, minus)", [False, False, False, False]),
        ("s = Shape (x)  v = Equal (s, k1)", [None, False, False, False]),
        ("s = Shape (x)  c = Cast <to = 6> (s)  v = Equal (c, less)", [False, False, False, False]),
        ("s = Shape (x)  c = Cast <to = 3> (s)  v = Equal (c, least)", [None, False, False, False]),
        ("s = Shape (x)  m = Sub (s, k9)  v = Equal (m, minus)", [None, False, False, False]),
        ("s = Shape (x)  g = Concat <axis = 0> (s, k1)  z = Size (g)  v = Unsqueeze (z, k0)", [5]),
        ("s = Shape (x)  g = Slice (s, k0, fed)  z = Size (g)  v = Unsqueeze (z, k0)", [None]),
        ("p = Slice (x, k0, k1)  z = Size (p)  v = Unsqueeze (z, k0)", [None]),
        ("p = Unsqueeze (k9, k0)  q = Expand (p, rest)  z = Size (q)  v = Unsqueeze (z, k0)", [245]),
        ("s = Shape (x)  v = Add (s, fed)", "nothing"),
        ("s = Shape (x)  g = Gather (s, k0)  v = Slice (s, k0, g)", "nothing"),
    ],
)
def test_what_is_known_element_by_element(body: str, expected: object) -> None:
    one = loaded(f"{body}  y = Reshape (x, k9)")
    found = PartlyKnown(one).of(one.graph.values["v"])
    if found is None:
        assert expected == "nothing"
        return
    assert [None if unknown else item for item, unknown in zip(found.elements, found.unknown, strict=True)] == expected


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize(("target", "status"), [([0, 245], "verified"), ([-1, 245], "verified"), ([0, -1], "verified")])
def test_a_flatten_of_keras(target: list[int], status: str, depth: Depth) -> None:
    """Tf2onnx gathers all sizes and takes the first of them."""
    body = "s = Shape (x)  g = Gather (s, turned)  h = Slice (g, k0, k1, k0)  t = Concat <axis = 0> (h, rest)"
    before = model(f"{HEAD} {{ {body}  y = Reshape (x, t) }}", NUMBERS)
    after = model(f"{HEAD} {{ y = Reshape (x, t) }}", {"t": np.array(target)})
    verdict = verify(ir.load(before), ir.load(after), depth=depth, runtime="none")
    assert verdict.status == status, verdict.reason


def test_a_flatten_to_a_fixed_batch_is_not_verified() -> None:
    body = "s = Shape (x)  g = Gather (s, turned)  h = Slice (g, k0, k1, k0)  t = Concat <axis = 0> (h, rest)"
    before = model(f"{HEAD} {{ {body}  y = Reshape (x, t) }}", NUMBERS)
    after = model(f"{HEAD} {{ y = Reshape (x, t) }}", {"t": np.array([3, 245])})
    assert verify(ir.load(before), ir.load(after), depth="local", runtime="none").status != "verified"


EXPANDED = """(int64[1,L] atoms, float[1,1,1,L] x) => (float[1,4,L,M] y) {
    s = Shape (atoms)  l = Slice (s, k1, k2)  c = Concat <axis = 0> (k1, k4, l, l)
    r = Reshape (c, minus)  n = Shape (r)  o = ConstantOfShape <value = int64[1] {1}> (n)
    m = Mul (o, minus)  e = Equal (r, m)  w = Where (e, o, r)  y = Expand (x, w) }"""


@pytest.mark.parametrize(("number", "status"), [(4, "verified"), (5, "failed")])
def test_an_expand_of_torch(number: int, status: str) -> None:
    """A size of -1 would mean the input's; it is looked for in each run, although sizes are never negative."""
    weights = NUMBERS | {"k4": np.array([4])}
    before = model(EXPANDED, weights)
    after = model(
        "(int64[1,L] atoms, float[1,1,1,L] x) => (float[1,4,L,M] y) { s = Shape (atoms)  l = Slice (s, k1, k2)"
        "  c = Concat <axis = 0> (k1, k4, l, l)  y = Expand (x, c) }",
        weights | {"k4": np.array([number])},
    )
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason
    assert number == 5 or verdict.local == (), "nothing changed"
