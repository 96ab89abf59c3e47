"""What edits may add: what goes and what it frees are worth, or what is left of a limit."""

from __future__ import annotations

import onnx
import pytest

from bnfold import ir
from bnfold.edits.size_budget import SizeBudget, freed, stored_bytes
from bnfold.report.growth import WORTH

HEAD = "(float[2,4] x) => (float[2,4] y, float[2,4] z)"
WEIGHTS = "float[4] w = {1,2,3,4}, float[4] v = {1,2,3,4}, int64[2] parts = {2,2}"


def loaded(body: str) -> ir.Model:
    return ir.load(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {HEAD} <{WEIGHTS}> {{ {body} }}')
    )


@pytest.mark.parametrize(
    ("body", "constants", "operators"),
    [
        ("s = Add (w, v) t = Neg (s) y = Mul (x, t) z = Neg (x)", "w v", "Neg Add"),
        ("s = Add (w, w) t = Neg (s) y = Mul (x, t) z = Neg (x)", "w", "Neg Add"),
        ("s = Add (w, v) t = Neg (s) y = Mul (x, t) z = Mul (x, w)", "v", "Neg Add"),
        ("s = Add (w, v) t = Neg (s) y = Mul (x, t) z = Mul (x, s)", "", "Neg"),
        ("k = Constant <value_float = 2.0> () t = Mul (w, k) y = Mul (x, t) z = Neg (x)", "w", "Mul"),
        ("k = Constant <value = float[1] {2}> () t = Mul (w, k) y = Mul (x, t) z = Neg (x)", "w k", "Mul"),
        ("a, b = Split (w, parts) t = Concat <axis = 0> (b, a) y = Mul (x, t) z = Neg (x)", "w parts", "Concat Split"),
        ("a, b = Split (w, parts) t = Concat <axis = 0> (b, b) y = Mul (x, t) z = Neg (x)", "w parts", "Concat Split"),
        (
            "a, b = Split (w, parts) t = Add (b, b) y = Mul (x, t) q = Add (a, a) z = Mul (x, q)",
            "",
            "Add",
        ),
    ],
)
def test_what_becomes_free(body: str, constants: str, operators: str) -> None:
    """What is read elsewhere stays, and a node one of whose results is."""
    model = loaded(body)
    values, nodes = freed([model.graph.values["t"]])
    assert sorted(value.name for value in values) == sorted(constants.split())
    assert sorted(node.op_type for node in nodes if not node.is_op("Constant")) == sorted(operators.split())


def test_bytes_of_initializers_and_constant_nodes() -> None:
    model = loaded("k = Constant <value = float[3] {1,2,3}> () t = Sum (k) y = Mul (x, w) z = Neg (x)")
    assert [stored_bytes(model.graph.values[name]) for name in ("w", "k", "x")] == [16, 12, 0]


def test_without_a_limit_each_plan_has_its_own_worth() -> None:
    budget = SizeBudget(None)
    budget.charge(1 << 20)
    assert budget.left(2, freed=8) == 2 * WORTH + 8


def test_a_limit_is_spent_once() -> None:
    budget = SizeBudget(100)
    assert budget.left(5, freed=1000) == 100
    assert budget.spend(60)
    assert not budget.spend(41)
    assert budget.spend(-10), "what shrinks always fits"
    assert budget.left() == 40
    budget.renew(7)
    assert budget.left() == 7
    budget.charge(9)
    assert budget.left() == 0
