"""A declared size of 0: others may mean it, bnfold takes it for an open one."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import Verdict, verify
from tests.verification.graphs import model

HEAD = "(float[0,3] x) => (float[P,3] y)"
BODIES = ("y = MatMul (x, w)", "z = MatMul (x, w)  y = Neg (z)")


def compared(other: str, *, cuts: bool = False, head: str = HEAD) -> Verdict:
    before, after = (ir.load(model(f"{head} {{ {body} }}", {})) for body in ("y = Neg (x)", other))
    cut = [ir.Cut("", ("x",), ("y",), "Neg")] if cuts else []
    return verify(before, after, cuts=cut, runtime="none")


def test_what_agrees_where_nothing_is_is_left_open() -> None:
    verdict = compared("y = Identity (x)")
    assert verdict.status == "unverified"
    assert verdict.reason.startswith(
        "the models agree at the declared size 0, but not if 0 means a dynamic size: output"
    )
    assert verdict.localised is None


@pytest.mark.parametrize("cuts", [False, True])
def test_what_bnfold_did_has_to_hold_for_open_sizes(cuts: bool) -> None:
    assert compared("y = Identity (x)", cuts=cuts).status == ("failed" if cuts else "unverified")


def test_what_differs_where_nothing_is_too_is_failed() -> None:
    assert compared("y = Concat <axis = 0> (x, x, x)", head="(float[0,3] x) => (float[P,Q] y)").status == "unverified"
    assert compared("y = Transpose (x)", head="(float[0,3] x) => (float[P,Q] y)").status == "failed"


def test_where_no_size_is_zero_nothing_is_excused() -> None:
    assert compared("y = Identity (x)", head="(float[2,3] x) => (float[2,3] y)").status == "failed"


def test_an_input_beside_it_may_have_no_rank() -> None:
    protos = [model(f"(float[0,3] x, float[3,4] w) => (float[P,Q] y) {{ {body} }}", {}) for body in BODIES]
    for proto in protos:
        proto.graph.input[1].type.tensor_type.ClearField("shape")
    before, after = map(ir.load, protos)
    assert verify(before, after, runtime="none").status == "unverified"


def test_an_input_of_unknown_rank_may_get_another_one_to_fit() -> None:
    body = "(float[N,2] x, float[0] m) => (float[P,Q] y) {{ y = BatchNormalization (x, v, {}, m, v) }}"
    weights = {"b": np.array([1.5, 2.5]), "c": np.array([1.5, 2.0]), "v": np.array([1.5, 2.5])}
    protos = [model(body.format(bias), weights) for bias in "bc"]
    for proto in protos:
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    before, after = map(ir.load, protos)
    assert verify(before, after, runtime="none").status == "failed"
