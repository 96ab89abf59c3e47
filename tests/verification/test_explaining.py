"""What stands behind a verdict, said of any value of either model: never nothing, and never more than is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.errors import BadSetting
from bnfold.settings import VerifyOptions
from bnfold.verification import Code, Explained, Verdict, explained, explaining, verify
from bnfold.verification.claims import NumberKind
from bnfold.verification.codes import WORDS
from bnfold.verification.inputs.drawing import SAMPLE_KINDS
from bnfold.verification.verdict import How
from tests.verification.graphs import affine, along, model, numbers, single, statistics

HEAD = "(float[N,3,8,8] x) => (float[N,4,6,6] y)"
PLAIN = f"{HEAD} {{ c = Conv (x, W)  n = BatchNormalization (c, scale, B, mean, var)  r = Relu (n)  q = Conv (r, V)  y = Sigmoid (q) }}"  # noqa: E501
FOLDED = f"{HEAD} {{ n = Conv (x, F, t)  r = Relu (n)  q = Conv (r, V)  y = Sigmoid (q) }}"
CUTS = [ir.Cut("", ("x",), ("n",), "fold n")]


def folded(factor: float = 1.0) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A fold; one of its weights is ``factor`` times as large as it has to be."""
    rng = numbers(7)
    stats, weight, last = (
        statistics(rng, 4),
        single(rng.normal(size=(4, 3, 3, 3))),
        single(rng.normal(size=(4, 4, 1, 1))),
    )
    s, t = affine(stats)
    new = weight * along(s, 0, 4)
    new[2, 1, 1, 1] *= factor
    return model(PLAIN, {"W": weight, "V": last, **stats}), model(FOLDED, {"F": single(new), "t": single(t), "V": last})


def verdict_on(before: Any, after: Any, value: str = "", **settings: Any) -> Verdict:
    sides = [each if isinstance(each, ir.Model) else ir.load(each) for each in (before, after)]
    return verify(*sides, runtime="none", explain=value, **settings)


def text(found: Verdict) -> str:
    return "\n".join(line for each in found.explanation for line in each.lines)


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize(
    ("value", "how", "said"),
    [
        ("x", "same", "an input of both models"),
        ("V", "constant", "a constant in both models, and equal bit for bit"),
        ("n", "differs", "from: 'x'"),
        ("c", "differs", "a value of the original inside a part that was compared"),
        ("F", "differs", "a stored number of the rewritten model inside a part"),
        ("W", "differs", "a stored number of the original inside a part"),
        ("r", "same", "the same operator computes it in both models, Relu, from 'n'"),
        ("q", "same", "it is right if what is in front of it is, but there 'n' differs [differs]"),
    ],
)
def test_each_kind_of_value_of_a_wrong_fold(depth: str, value: str, how: How, said: str) -> None:
    found = verdict_on(*folded(1.01), value, depth=depth, cuts=CUTS)
    assert found.status == "failed"
    if value in ("r", "q") and found.explanation[0].claims:  # the fault is shown behind the Relu as well
        how = "differs"
    else:
        assert said in text(found)
    assert found.explanation[0].how == how


@pytest.mark.parametrize("value", ["x", "c", "n", "r", "q", "y", "W", "F", "V", "scale", "t"])
def test_every_value_of_a_right_fold_has_an_answer(value: str) -> None:
    found = verdict_on(*folded(), value, cuts=CUTS)
    assert found.verified
    assert found.explanation[0].value == value
    assert {each.how for each in found.explanation} <= {"same", "constant", "tested"}
    assert value in text(found)
    assert "next: " not in text(found)


def test_the_overview_of_a_failure_begins_with_what_differs() -> None:
    found = verdict_on(*folded(1.01), cuts=CUTS)
    first, second, *_ = found.explanation
    assert first.lines[0].startswith("the verdict is failed [differs]: ")
    assert "1 part differs; the whole models in float64 differ" in first.lines[1]
    assert (second.how, second.claims[0].outputs) == ("differs", ("n",))
    assert text(found).count("next: ") == 1
    assert "x 5,3," in text(found)


def test_the_overview_of_a_verified_result_lists_what_was_compared() -> None:
    found = verdict_on(*folded(), cuts=CUTS)
    assert text(found).startswith("the verdict is verified [tested]: ")
    assert {claim.outputs for each in found.explanation for claim in each.claims} == {("y",), ("n",)}


def test_many_claims_are_counted() -> None:
    lines = "  ".join(f"a{number} = Mul (x, k{number})  y{number} = Relu (a{number})" for number in range(14))
    outputs = ", ".join(f"float[N,3] y{number}" for number in range(14))
    before, after = (
        ir.load(model(f"(float[N,3] x) => ({outputs}) {{ {lines} }}", {f"k{i}": single(i + d) for i in range(14)}))
        for d in (1, 2)
    )
    found = verdict_on(before, after, depth="local")
    assert found.explanation[-1].lines == ("4 more are like these; --explain VALUE explains one",)
    assert len(found.explanation) == 12


def test_nothing_is_explained_unasked() -> None:
    assert verify(*map(ir.load, folded()), runtime="none").explanation == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nn", "neither model has a value 'nn'; did you mean 'n'?"),
        ("zzzz", "neither model has a value 'zzzz'"),
        ("\x1b[31m", r"neither model has a value '\x1b[31m'"),
    ],
)
def test_a_name_that_there_is_none_of_is_answered_by_near_ones(name: str, hint: str) -> None:
    with pytest.raises(BadSetting) as error:
        verdict_on(*folded(), name)
    assert str(error.value) == f"explain: {hint}"


def test_a_node_s_name_is_answered_by_its_output() -> None:
    before, after = folded()
    before.graph.node[0].name = "first"
    with pytest.raises(BadSetting, match="'first' is a node, and no value; did you mean 'c'"):
        verdict_on(before, after, "first")


def test_nothing_to_compare_means_nothing_to_explain() -> None:
    with pytest.raises(BadSetting, match="explain: nothing is compared"):
        VerifyOptions(depth="none", explain="")


def test_to_save_is_to_explain() -> None:
    assert VerifyOptions(save=Path("part")).explain == ""
    assert VerifyOptions(save=Path("part"), explain="y").explain == "y"


def test_a_value_that_another_tool_renamed() -> None:
    body = "(float[N,3] x) => (float[N,3] y) { q = Relu (x)  s = Sigmoid (q)  y = Mul (s, k) }"
    before, after = (model(body.replace("q", q), {"k": single(k)}) for q, k in (("q", 2.0), ("tool", 3.0)))
    for value in ("tool", "q"):
        found = verdict_on(before, after, value)
        assert "q: the same operator computes it in both models, Relu, from 'x'" in text(found)
        assert found.explanation[0].how == "same"
    assert "the rewritten model calls it 'tool'" in text(verdict_on(before, after, "tool"))


def test_a_value_in_a_body() -> None:
    body = "{ y = If (c) <then_branch = g1 () => (float[N,3] a) { q = MatMul (x, W)  a = Sigmoid (q) }, else_branch = g2 () => (float[N,3] b) { b = Neg (x) }> }"  # noqa: E501
    before, after = (model(f"(float[N,3] x, bool c) => (float[N,3] y) {body}", {"W": np.eye(3) * k}) for k in (1, 2))
    found = verdict_on(before, after, "q")
    assert found.explanation[0].graph == "y.then_branch"
    assert "q in y.then_branch: differs [differs]" in text(found)


def test_a_branch_that_no_run_takes() -> None:
    body = "{ y = If (c) <then_branch = g1 () => (float[N,3] a) { q = Exp (x)  a = Mul (q, k) }, else_branch = g2 () => (float[N,3] b) { b = Neg (x) }> }"  # noqa: E501
    before = model(f"(float[N,3] x) => (float[N,3] y) {body}", {"k": single(2.0), "c": np.array(False)})
    after = model("(float[N,3] x) => (float[N,3] y) { y = Neg (x) }", {})
    found = verdict_on(before, after, "q")
    assert found.verified
    assert "no output depends on it" in text(found)


def test_what_a_body_reads_from_outside_counts_as_well() -> None:
    body = "{ p = Mul (x, k)  y = If (c) <then_branch = g1 () => (float[N,3] a) { q = Exp (p)  a = Relu (q) }, else_branch = g2 () => (float[N,3] b) { b = Neg (x) }> }"  # noqa: E501
    before, after = (model(f"(float[N,3] x, bool c) => (float[N,3] y) {body}", {"k": single(k)}) for k in (2.0, 2.5))
    found = verdict_on(before, after, "q", depth="local")
    assert "in front of it is, but there 'p' differs [differs]" in text(found)


def test_constants_of_one_model() -> None:
    before = model(
        "(float[N,3] x) => (float[N,3] y) { k = Add (u, v)  y = Mul (x, k) }", {"u": single(1.0), "v": single(2.0)}
    )
    after = model("(float[N,3] x) => (float[N,3] y) { y = Mul (x, k) }", {"k": single(3.0)})
    for value, said in (
        ("k", "a constant in both models"),
        ("u", "for 'k', which is the same constant"),
    ):
        found = verdict_on(before, after, value)
        assert said in text(found)
        assert (found.explanation[0].how, found.explanation[0].code) == ("constant", Code.CONSTANT)


def test_a_constant_that_differs_leads_to_the_part_that_reads_it() -> None:
    before, after = (model("(float[N,3] x) => (float[N,3] y) { y = Mul (x, k) }", {"k": single(k)}) for k in (3.0, 4.0))
    found = verdict_on(before, after, "k", depth="local")
    assert "inside a part that was compared" in text(found)
    assert found.explanation[0].how == "differs"


def test_a_fault_that_does_not_show_is_named_with_what_would_show_it() -> None:
    weights = {"k": single(1)}
    before = model("(float[N,3] x) => (float[N,3] y) { c = Clip (x, lo, hi)  y = Mul (c, k) }",
        {**weights, "lo": single(-1e6), "hi": single(1e6)})  # fmt: skip
    after = model("(float[N,3] x) => (float[N,3] y) { y = Mul (x, k) }", weights)
    found = verdict_on(before, after)
    assert found.status == "unverified"
    assert "2 possible faults" in text(found)
    assert "none of them would show in these results; one that would not is in element 0 of 'lo'" in text(found)
    assert "next: give recorded inputs that change value 'y' with --data (an .npz file with x (N,3))" in text(found)


def test_an_operator_that_nobody_can_compute() -> None:
    body = "(float[N,3] x) => (float[N,3] y) { q = Relu (x)  y = com.microsoft.Nobody <a = %d> (q) }"
    before, after = (model(body % number, {}) for number in (1, 2))
    found = verdict_on(before, after, "y")
    assert "has no reference implementation of com.microsoft:Nobody" in text(found)
    assert found.explanation[0].how == "open"


def test_a_limit_on_the_clock_names_the_limit_that_would_do() -> None:
    rng = numbers(3)
    weight = single(rng.normal(size=(600, 600)))
    body = "  ".join(f"v{number + 1} = MatMul (v{number}, W)" for number in range(40))
    body = f"(float[6000,600] v0) => (float[6000,600] v40) {{ {body} }}"
    before, after = (model(body, {"W": weight * k}) for k in (1, 2))
    found = verdict_on(before, after, "", depth="auto", verify_seconds=1)
    if found.code is Code.TIME:
        assert "next: raise the limit with --verify-seconds " in text(found)
    assert found.explanation


def test_within_a_tolerance_nothing_is_said_of_rounding() -> None:
    found = verdict_on(*folded(1.5), "n", tolerance=1e-4)
    assert found.status == "failed"
    assert "so the whole models decide:" in text(found)
    assert "next: give a larger --tolerance" in text(found)
    assert "rounding" not in text(found)


def test_a_verdict_on_names_alone() -> None:
    before, _ = folded()
    sides = ir.load(before), ir.load(before)
    found = explained(Verdict("verified", "", "structure", code=Code.SAME), *sides, VerifyOptions(explain="q"))
    assert "nothing but names" in text(found)


def test_different_interfaces_leave_nothing_to_compare() -> None:
    before, after = folded()
    after.graph.output[0].name = after.graph.node[-1].output[0] = "other"
    found = verdict_on(before, after, "n")
    assert (found.status, found.decided_by) == ("failed", "interface")
    assert "it was not compared: " in text(found)


def test_the_answer_is_json() -> None:
    document = verdict_on(*folded(1.01), "n", cuts=CUTS).to_json()
    [claim] = [claim for each in document["explanation"] for claim in each["claims"] if claim["prover"] == "part"]
    assert claim["experiments"][0]["shapes"].keys() == {"x"}
    assert claim["experiments"][0]["found"] == "differs"
    assert "experiments" not in document["local"][0]
    assert isinstance(document["explanation"][0]["lines"], list)


def test_the_answer_is_typed() -> None:
    assert all(isinstance(each, Explained) for each in verdict_on(*folded()).explanation)


def test_a_value_of_a_function_that_one_model_inlined_is_explained_where_parts_were_compared() -> None:
    head = '<ir_version: 9, opset_import: ["" : 17, "my" : 1]> g (float[2,3] x) => (float[2,3] y) '
    function = '<domain: "my", opset_import: ["" : 17]> f (x) => (y) { h = Relu (x) y = Neg (h) }'
    before, after = (
        ir.load(onnx.parser.parse_model(body).SerializeToString())
        for body in (
            f"{head} {{ t = my.f (x) y = Exp (t) }} {function}",
            f"{head} {{ h = Relu (x) t = Abs (h) y = Exp (t) }}",
        )
    )
    found = verify(before, after, depth="local", runtime="none", explain="h")
    assert found.status == "failed"
    assert "only the original has it" not in text(found)


@pytest.mark.parametrize("depth", ["full", "local"])
def test_the_experiment_at_zeros_is_listed(depth: str) -> None:
    body = "(float[N,4] x) => (float[N,4] y) {{ {} y = Reciprocal ({}) }}"
    before, after = (
        model(body.format("s = Add (x, zero)", "s"), {"zero": np.array(0.0)}),
        model(body.format("", "x"), {}),
    )
    found = verdict_on(before, after, depth=depth)
    assert (found.status, found.code) == ("failed", Code.ZERO_SIGN)
    assert "differs at a zero of the other sign: where -0.0 is fed" in found.reason
    lines = [line for line in text(found).splitlines() if "numbers with zeros among them" in line]
    assert any("are equal" in line for line in lines), "at 0.0"
    assert any("are equal" not in line and "agree to" not in line for line in lines), "at -0.0"
    assert [run.numbers for run in found.ledger[-1].experiments].count("zeros") >= 2


def test_a_zero_of_the_other_sign_is_under_both_words() -> None:
    """Fed by callers, it is a failure; fed to a part alone, callers may never feed it."""
    assert {word for word, each in WORDS.items() if Code.ZERO_SIGN in each.codes} == {"failed", "unverified"}


def test_every_kind_of_numbers_has_words() -> None:
    kinds = get_args(NumberKind)
    assert {*SAMPLE_KINDS, "recorded"} < {*kinds}
    for kind in kinds:
        assert explaining._numbers([kind]).removesuffix(" numbers")
        assert explaining._numbers([kind]) not in (kind, f"{kind} numbers") or kind in ("large", "tiny", "constant")


def test_recorded_inputs_on_which_the_result_does_not_run(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=single(np.ones((2, 3))))
    head = "(float[N,M] x) => (float[N,M] y)"
    before = model(f"{head} {{ y = Exp (x) }}", {})
    after = model(f"{head} {{ a = Add (x, z)  y = Exp (a) }}", {"z": single(np.zeros((1, 4)))})
    found = verdict_on(before, after, data=tmp_path / "data.npz", depth="full")
    assert (found.status, found.code) == ("failed", Code.DOES_NOT_RUN)
    assert [run.numbers for row in found.ledger if row.prover == "whole" for run in row.experiments] == ["recorded"]
    assert "on the recorded inputs" in text(found)
