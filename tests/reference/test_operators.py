"""The records of operators: beside those of rewriting, and beside what the kernels make."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from bnfold.analysis import constants as _registers  # noqa: F401
from bnfold.analysis import traits
from bnfold.analysis.evaluators import EVALUATORS
from bnfold.errors import BnfoldError
from bnfold.reference import operators
from bnfold.reference.operators import OPERATORS
from tests.verification.graphs import Array, model

ELSEWHERE = {
    # Rewriting asks `KEEPS_SHAPE` where it moves an affine, of which no network has these.
    "KEEPS_SHAPE": {"BitwiseNot", "CumProd", "Swish"},
    "KEEPS_CHANNELS": {"BitwiseNot", "CumProd", "Swish"},
}
"""The operators that only the reference's record has, by set, and why."""

SETS = [name for name, found in vars(operators).items() if name.isupper() and isinstance(found, frozenset)]


@pytest.mark.parametrize("name", [name for name in SETS if hasattr(traits, name)])
def test_both_records_agree_but_for_what_is_listed(name: str) -> None:
    own, other = getattr(operators, name), getattr(traits, name)
    assert (own - other, other - own) == (ELSEWHERE.get(name, set()), set())


def test_both_sides_compute_constants_with_the_same_operators() -> None:
    """`Split`, which has several outputs, is no evaluator there. A constant that one side alone knows is compared."""
    assert operators.FOLLOWED - EVALUATORS.keys() == {"Split"}
    assert EVALUATORS.keys() - operators.FOLLOWED == set()


def test_every_record_is_of_an_operator_and_of_known_words() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    assert OPERATORS.keys() <= names
    words = set().union(*OPERATORS.values())
    assert words == {
        *("affine", "broadcast", "channels", "choose", "compare", "constant", "dims", "draw", "move", "normalise"),
        *("pieces", "product", "rearrange", "reduce", "reshape", "singular", "sizes", "truth", "unsigned", "window"),
        "sequence",
    }


def _made(op: str, *operands: Array, opset: int = 23) -> Array | None:
    """Return what an operator makes of operands alone, if it takes them."""
    names = [f"x{place}" for place in range(len(operands))]
    node = onnx.helper.make_node(op, names, ["y"])
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            [node],
            "g",
            [
                onnx.helper.make_tensor_value_info(
                    name, onnx.helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape
                )
                for name, operand in zip(names, operands, strict=True)
            ],
            [onnx.helper.make_value_info("y", onnx.TypeProto())],
        ),
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )
    try:
        return np.asarray(reference.evaluate(ir.load(proto), dict(zip(names, operands, strict=True)))["y"])
    except BnfoldError:
        return None


X = np.array([[0.5, 1.5, 0.25], [2.0, 0.75, 0.125]])
TRUTHS = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("op", sorted(operators.KEEPS_SHAPE - {"Dropout"}))
def test_the_dims_are_those_of_the_first_input(op: str) -> None:
    made = next((found for found in (_made(op, X), _made(op, TRUTHS)) if found is not None), None)
    if made is not None:
        assert made.shape == X.shape


@pytest.mark.parametrize("op", sorted(operators.BROADCASTING - {"Where"}))
def test_operands_are_broadcast(op: str) -> None:
    pairs = ((X, X[:1]), (TRUTHS, TRUTHS[:1]), (np.array([[5, 6, 7]] * 2), np.array([[1, 2, 3]])))
    made = [found for pair in pairs if (found := _made(op, *pair)) is not None]
    assert [each.shape for each in made] == [X.shape] * len(made)
    assert made or op == "BitShift"


@pytest.mark.parametrize("op", sorted(operators.BLIND_TO_ZERO_SIGN - operators.COMPARING))
def test_zeros_of_both_signs_are_one(op: str) -> None:
    one, other = (_made(op, np.full((1, 2), zero)) for zero in (0.0, -0.0))
    assert one is not None
    assert other is not None
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("op", sorted(operators.COMPARING))
def test_comparisons_take_zeros_of_both_signs_for_equal(op: str) -> None:
    one, other = (_made(op, np.full(2, zero), np.zeros(2)) for zero in (0.0, -0.0))
    assert one is not None
    assert other is not None
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("op", sorted(operators.REARRANGING))
def test_elements_are_only_elsewhere(op: str) -> None:
    operand = X[None]
    axes = {"Reshape": np.array([3, 2]), "Unsqueeze": np.array([0])}
    made = _made(op, operand, *([axes[op]] if op in axes else []))
    assert made is not None
    assert sorted(made.reshape(-1)) == sorted(X.reshape(-1))
    assert op == "Transpose" or made.reshape(-1).tolist() == X.reshape(-1).tolist()


@pytest.mark.parametrize("op", sorted(operators.DRAWING))
def test_what_draws_is_refused_without_noise(op: str) -> None:
    proto = model(f"(float[2,3] x) => (float[A,B] y) {{ y = {op} {ATTRIBUTES.get(op, '')} }}", {}, opset=15)
    with pytest.raises(reference.Random):
        reference.evaluate(ir.load(proto), {"x": X / 2} if "(x)" in ATTRIBUTES.get(op, "") else {})


ATTRIBUTES = {
    **dict.fromkeys(("RandomNormal", "RandomUniform"), "<shape = [2, 3]> ()"),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike"), "(x)"),
}
