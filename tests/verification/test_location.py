from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from tests.verification.graphs import affine, along, model, numbers, single, statistics

BLOCKS = 5


def tower(wrong: int | None) -> tuple[onnx.ModelProto, onnx.ModelProto, list[ir.Cut]]:
    """Conv → BatchNormalization → Relu, five times; one of the folds is wrong."""
    rng = numbers(31)
    plain, folded, before, after, cuts = [], [], {}, {}, []
    for index in range(BLOCKS):
        stats, weight = statistics(rng, 3), single(rng.normal(size=(3, 3, 3, 3)))
        s, t = affine(stats)
        source = "x" if index == 0 else f"r{index - 1}"
        names = ", ".join(f"{name}{index}" for name in stats)
        plain.append(f"c{index} = Conv ({source}, W{index})")
        plain.append(f"n{index} = BatchNormalization (c{index}, {names})  r{index} = Relu (n{index})")
        folded.append(f"n{index} = Conv ({source}, W{index}, b{index})  r{index} = Relu (n{index})")
        before.update({f"{name}{index}": array for name, array in stats.items()} | {f"W{index}": weight})
        after.update({f"W{index}": weight * along(s, 0, 4), f"b{index}": t + (0.01 if index == wrong else 0.0)})
        cuts.append(ir.Cut("", (source,), (f"n{index}",), f"fold {index}"))
    head = f"(float[N,3,H,W] x) => (float[N,3,P,Q] r{BLOCKS - 1})"
    return model(f"{head} {{ {'  '.join(plain)} }}", before), model(f"{head} {{ {'  '.join(folded)} }}", after), cuts


@pytest.mark.parametrize("wrong", range(BLOCKS))
def test_the_first_wrong_value_and_its_rewrite_are_named(wrong: int) -> None:
    before, after, cuts = tower(wrong)
    verdict = verify(ir.load(before), ir.load(after), cuts=cuts, depth="full", runtime="none")
    assert verdict.status == "failed"
    assert verdict.localised is not None
    assert (verdict.localised.tensor, verdict.localised.rewrite) == (f"n{wrong}", f"fold {wrong}")


def test_without_cuts_the_node_is_named() -> None:
    before, after, _ = tower(2)
    verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
    assert verdict.localised is not None
    assert verdict.localised.rewrite.startswith("Conv")


def test_a_difference_inside_a_cut_is_the_cuts() -> None:
    before = model("(float[N] x) => (float[N] y) { a = Neg (x)  b = Abs (a)  y = Exp (b) }", {})
    after = model("(float[N] x) => (float[N] y) { a = Neg (x)  b = Relu (a)  y = Exp (b) }", {})
    cut = ir.Cut("", ("x",), ("y",), "all of it")
    verdict = verify(ir.load(before), ir.load(after), cuts=[cut], depth="full", runtime="none")
    assert verdict.localised is not None
    assert (verdict.localised.tensor, verdict.localised.rewrite) == ("y", "all of it")


def test_right_towers_have_no_such_value() -> None:
    before, after, cuts = tower(None)
    verdict = verify(ir.load(before), ir.load(after), cuts=cuts, runtime="none")
    assert verdict.status == "verified"
    assert verdict.localised is None
    assert [row.status for row in verdict.local] == ["verified"] * BLOCKS


def test_large_values_are_looked_at_in_part() -> None:
    shift = {"k": np.array(0.3)}
    before = model("(float[2,3,64,64] x) => (float[2,3,64,64] y) { a = Add (x, k)  y = Relu (a) }", shift)
    after = model("(float[2,3,64,64] x) => (float[2,3,64,64] y) { a = Sub (x, k)  y = Relu (a) }", shift)
    verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
    assert verdict.localised is not None
    assert verdict.localised.tensor == "a"


def test_a_large_value_of_short_integers_is_named() -> None:
    """Its last dim is no number of its type."""
    head = "(float[30,300] x) => (float[30,300] y)"
    before, after = (
        model(f"{head} {{ a = {op} (x)  b = Cast <to = 3> (a)  y = Cast <to = 1> (b) }}", {}) for op in ("Neg", "Abs")
    )
    verdict = verify(ir.load(before), ir.load(after), depth="full", runtime="none")
    assert verdict.status == "failed"
    assert verdict.localised is not None
    assert verdict.localised.tensor == "a"
