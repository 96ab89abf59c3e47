import pytest

from bnfold.converting.compatible import default_of, objection
from bnfold.ir.schemas import schema_of


@pytest.mark.parametrize(
    ("op_type", "old", "new"),
    [
        ("Conv", 1, 11),
        ("MaxPool", 1, 8),
        ("Gemm", 9, 11),
        ("Resize", 11, 13),
        ("Cast", 13, 19),
        ("AveragePool", 11, 19),
    ],
)
def test_a_superset_has_no_objection(op_type: str, old: int, new: int) -> None:
    assert objection(op_type, old, new) is None


@pytest.mark.parametrize(
    ("op_type", "old", "new", "reason"),
    [
        ("Add", 6, 7, "attribute axis is gone"),
        ("Softmax", 11, 13, "attribute axis has another default"),
        ("Concat", 1, 4, "attribute axis is required now"),
        ("LpPool", 1, 2, "attribute p has another type"),
        ("Upsample", 9, 10, "withdrawn"),
        ("Erf", 9, 13, "input 0 no longer takes"),
        ("BatchNormalization", 9, 14, "output 3 is gone"),
        ("Tile", 1, 6, "input 1 no longer takes"),
        ("QuantizeLinear", 13, 19, "have to agree in type now"),
    ],
)
def test_what_is_missing_or_new_is_named(op_type: str, old: int, new: int, reason: str) -> None:
    assert reason in str(objection(op_type, old, new))


def test_defaults_are_python_values() -> None:
    attributes = schema_of("Gemm", 13).attributes
    assert default_of(attributes["alpha"]) == 1.0
    assert default_of(schema_of("Conv", 11).attributes["pads"]) is None
