"""What helps with a claim, said of the models at hand: `--explain` and `next:` say the same, and what can help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from bnfold import ir
from bnfold.cli.commands import main
from bnfold.pipeline.next_step import Case, Tried, next_step
from bnfold.settings import VerifyOptions
from bnfold.verification import Code, Evidence, Verdict
from bnfold.verification.codes import FAILED, UNVERIFIED, VERIFIED
from bnfold.verification.remedies import Remedies

BRANCH = "y.else_branch"


def model(text: str = "(float[N,3] x) => (float[N,3] y) { y = Relu (x) }") -> ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "my": 1]> g {text}')
    return ir.load(proto.SerializeToString())


def of(code: Code, graph: str = "", before: ir.Model | None = None, status: Any = "unverified", **settings: Any) -> str:
    row = Evidence("Mul e", graph, ("e",), "skipped", code=code)
    verdict = Verdict(status, "", "nothing", code=code, ledger=(row,))
    return Remedies(verdict, VerifyOptions(**settings), before or model()).of(code, row)


@pytest.mark.parametrize("code", [*UNVERIFIED, *FAILED])
@pytest.mark.parametrize("graph", ["", BRANCH])
@pytest.mark.parametrize("depth", ["auto", "full"])
def test_every_open_code_has_a_remedy(code: Code, graph: str, depth: str) -> None:
    text = of(code, graph, depth=depth)
    assert text
    assert text[0].islower() or text.startswith("--")
    assert not text.endswith(".")
    assert "named thing" not in text


@pytest.mark.parametrize("code", VERIFIED)
def test_what_is_right_needs_none(code: Code) -> None:
    assert of(code) == ""


@pytest.mark.parametrize("code", [Code.HIDDEN, Code.NO_REACTION, Code.COARSE, Code.NEVER_FINITE])
def test_in_a_branch_inputs_help_only_if_they_reach_it(code: Code) -> None:
    text = of(code, BRANCH)
    assert text.startswith(f"give recorded inputs that reach {BRANCH} with --data (an .npz file with x (N,3)); if no ")
    assert BRANCH not in of(code)


@pytest.mark.parametrize("code", [Code.ONE_SIDED, Code.PROMISE])
def test_full_is_no_remedy_in_a_branch_nor_where_it_was_given(code: Code) -> None:
    assert "--verify full" in of(code)
    assert "--verify full" not in of(code, BRANCH)
    assert "--verify full" not in of(code, depth="full")


def test_a_difference_in_a_branch_says_when_it_counts() -> None:
    text = of(Code.DIFFERS, BRANCH)
    assert text.startswith("--explain e --save DIR writes two small models")
    assert text.endswith(f"no effect if no input reaches {BRANCH}")
    assert "no effect" not in of(Code.DIFFERS, BRANCH, status="failed")
    assert "no effect" not in of(Code.DIFFERS)


@pytest.mark.parametrize("code", [Code.NO_FIT, Code.TOO_LARGE, Code.TIME, Code.MEMORY, Code.EMPTY])
def test_sizes_are_asked_for_only_if_some_are_open(code: Code) -> None:
    assert "--input x=N,3" in of(code)
    assert "--input" not in of(code, before=model("(float[2,3] x) => (float[2,3] y) { y = Relu (x) }"))
    assert "--input" not in of(code, inputs={"x": (2, 3)})
    assert "--input 'an image'=N,…" in of(code, before=unranked())


def unranked() -> ir.Model:
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y)'
    proto = onnx.parser.parse_model(f"{head} {{ y = Relu (x) }}")
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "an image"
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    return ir.load(proto.SerializeToString())


def save(path: Path, other: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[N,3] x) => (float[N,3] y)
        <float neg = {{-1}}, float k = {{2}}, float q = {{4}}, float lo = {{-1000000}}, float hi = {{1000000}}> {{
        sq = ReduceSumSquare <keepdims = 0> (x)  c = Greater (sq, neg)
        y = If (c) <then_branch = a () => (float[N,3] t) {{ t = Mul (x, k) }},
        else_branch = b () => (float[N,3] e) {{ {other} }}> }}"""
    onnx.save(onnx.parser.parse_model(text), path)


PAIRS = {
    "a fault that does not show": ("a = Clip (x, lo, hi)  e = Mul (a, k)", "e = Mul (x, k)"),
    "another factor": ("e = Mul (x, k)", "e = Mul (x, q)"),
    "an operator without a kernel": ("e = my.Foo <n = 1> (x)", "e = my.Foo <n = 2> (x)"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_explain_and_next_say_the_same_of_a_branch_that_no_input_takes(pair: str, tmp_path: Path) -> None:
    for name, body in zip(("a.onnx", "b.onnx"), PAIRS[pair], strict=True):
        save(tmp_path / name, body)
    words = ["verify", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--explain"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 3, result.output
    (last,) = [line for line in result.stderr.splitlines() if line.startswith("next: ")]
    explained = [line.strip() for line in result.stdout.splitlines() if line.startswith("  next: ")]
    assert explained == [last]
    assert "--verify full" not in last
    # The verdict's code is that of the claim that is explained first.
    heads = [line for line in result.stdout.splitlines() if "[" in line and not line.startswith(" ")]
    codes = [line.partition("[")[2].partition("]")[0] for line in heads]
    assert codes[0] == codes[1]
    if pair == "another factor":
        assert (
            "the verdict is unverified [differs]: a part differs, but the whole models agree on the inputs" in heads[0]
        )


def test_a_verified_verdict_asks_for_nothing(tmp_path: Path) -> None:
    """One of two ways to compare may stay open; there is nothing to do about it."""
    save(tmp_path / "a.onnx", "n = Mul (x, k)  e = Mul (n, k)")
    save(tmp_path / "b.onnx", "e = Mul (x, q)")
    words = [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--explain"]
    result = CliRunner().invoke(main, ["verify", *words])
    assert result.exit_code == 0, result.output
    assert "next:" not in result.output


def test_a_trial_that_verifies_is_preferred() -> None:
    verdict = Verdict("unverified", "", "nothing", code=Code.HIDDEN)
    case = Case(
        verdict,
        VerifyOptions(),
        lambda _: Tried(Verdict("verified", "", "float64", code=Code.TESTED)),
        model(),
        model(),
    )
    step = next_step(case)
    assert step is not None
    assert (step.tried, step.options) == (True, ("--samples", "8"))
