"""What a refusal, and a result that is not verified, tell a user to type: each step is taken, and works."""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

import bnfold
from bnfold import ir
from bnfold.cli.commands import main
from bnfold.errors import VerificationFailed
from bnfold.ir.time_limit import LimitStruck
from bnfold.pipeline import next_step, passes
from bnfold.pipeline.context import PassContext
from bnfold.pipeline.next_step import Case, Tried
from bnfold.settings import Options, VerifyOptions
from bnfold.verification import Code, Evidence, Verdict, parts
from tests.verification.graphs import model

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (float[{dims}] y) '
DATA = "float[n, 3, h, w] x"
SCALES = "<float[4] s = {1, 1, 1.5, 1.5}>"
STEPS = "<int64[1] b = {0}, int64[1] e = {9}, int64[1] a = {3}, int64[1] t = {2}>"

REFUSED = {
    "a dynamic size": (13, 9, DATA, SCALES + ' { y = Resize <mode = "linear"> (x, , s) }', ["--fix-shapes"]),
    "a name with a space": (13, 9, DATA, SCALES + " { y = Resize (x, , s) }", ["--fix-shapes"]),
    "a size that two inputs share": (
        13, 9, "float[n, 3, h, w] x, float[n, 3, h, w] z", STEPS + " { v = Add (x, z) y = Slice (v, b, e, a, t) }",
        ["--fix-shapes"],
    ),
    "a weight that is an input": (
        13, 9, "float[2, 3, 4, 4] x, int64[8] p", "<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> { y = Pad (x, p) }",
        ["--overridable freeze"],
    ),
    "both": (
        13, 9, f"{DATA}, float[4] s", SCALES + " { y = Resize (x, , s) }", ["--overridable freeze", "--fix-shapes"],
    ),
    "computed from data": (13, 9, "float[2, 3, 4, 4] x, int64[8] p", "{ y = Pad (x, p) }", []),
    "computed from data, of dynamic sizes": (13, 9, f"{DATA}, int64[8] p", "{ y = Pad (x, p) }", []),
    "an operator that is newer": (13, 9, DATA, "{ y, i = Unique <axis = 0> (x) }", []),
    "a type that nothing says": (14, 13, DATA, "{ p = my.Op (x) q = Relu (p) y = my.Op (q) }", []),
    "upwards": (7, 13, DATA, "{ z, m = Dropout (x) y = Upsample (z) }", []),
}  # fmt: skip


def command(folder: Path, opset: int, *options: str) -> Result:
    given = [str(folder / "in.onnx"), str(folder / "out.onnx"), "--opset", str(opset), "--no-verify", *options]
    return CliRunner().invoke(main, ["convert", *given])


@pytest.mark.parametrize("case", REFUSED)
def test_each_step_works(tmp_path: Path, case: str) -> None:
    opset, target, inputs, body, expected = REFUSED[case]
    text = HEAD.format(opset=opset, inputs=inputs, dims="a, c, d, e") + body
    proto = onnx.parser.parse_model(text.replace('"" : 14]', '"" : 14, "my" : 1]'))
    if "space" in case:
        proto.graph.input[0].name = proto.graph.node[0].input[0] = "the image"
    onnx.save(proto, tmp_path / "in.onnx")
    refused = command(tmp_path, target)
    assert refused.exit_code == 1
    assert not (tmp_path / "out.onnx").exists()
    advice = re.findall(r"`(--[^`]*)`", refused.stderr)
    assert [each.startswith(start) for each, start in zip(advice, expected, strict=True)] == [True] * len(expected)
    for options in [shlex.split(" ".join(advice))] if advice else []:
        assert command(tmp_path, target, *options).exit_code == 0
    (direction, reached) = re.findall(r"(lowest|highest) opset for this model: (\d+)", refused.stderr)[0]
    assert (direction == "lowest") == (target < opset)
    assert command(tmp_path, int(reached)).exit_code == 0
    beyond = int(reached) + (1 if target > opset else -1)
    assert command(tmp_path, beyond).exit_code == 1


def test_shapes_that_were_given_are_not_asked_for(tmp_path: Path) -> None:
    text = HEAD.format(opset=13, inputs=f"{DATA}, float[4] s", dims="a, c, d, e") + "{ y = Resize (x, , s) }"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    result = command(tmp_path, 9, "--fix-shapes", "x=1,3,4,4")
    assert result.exit_code == 1
    assert "--fix-shapes" not in result.stderr


@pytest.mark.parametrize("name", ["convert", "upgrade", "optimize"])
def test_weights_that_are_inputs_and_decide_sizes_are_named(tmp_path: Path, name: str) -> None:
    text = (
        HEAD.format(opset=13, inputs="float[2, 6] x, int64[2] s", dims="a, c")
        + "<int64[2] s = {3, 4}> { y = Reshape (x, s) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    given = [name, str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "11"]
    told = CliRunner().invoke(main, given)
    assert "weights that are also inputs (s) decide sizes of Reshape" in told.stderr + told.stdout
    frozen = CliRunner().invoke(main, [*given, "--overridable", "freeze"])
    assert frozen.exit_code == 0
    assert [info.name for info in onnx.load(tmp_path / "out.onnx").graph.input] == ["x"]
    assert "decide sizes" not in frozen.stderr + frozen.stdout


W = np.random.default_rng(0).normal(size=(16, 16))
ROWS = "(float[N,16] x) => (float[N,16] y)"
DENSE = f"{ROWS} {{ h = MatMul (x, w)  y = Relu (h) }}"
RESHAPED = "(float[N,K] x) => (float[A,B] y) { r = Reshape (x, s)  t = NODE  y = Relu (t) }"
STORED = {"s": np.array([-1, 4099]), "m": np.array(-1.0)}
SECRET = """<ir_version: 8, opset_import: ["": 13, "acme": 1]> g (float[1,2,3,3] x) => (float[1,2,3,3] y)
    <float[2] s = {2.0, 3.0}, float[2] b = {1.0, 4.0}, float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}>
    { a = acme.Secret (x) c = Conv (a, w) n = BatchNormalization (c, s, b, b, s) y = acme.Secret (n) }"""


def int8() -> onnx.ModelProto:
    stored = {"q": np.clip(np.round(W / 0.02), -128, 127).astype(np.int8), "s": np.array(0.02)}
    return model(f"{ROWS} {{ d = DequantizeLinear (q, s)  h = MatMul (x, d)  y = Relu (h) }}", stored)


def pairs(case: str) -> tuple[onnx.ModelProto, onnx.ModelProto, list[str]]:
    """Two models whose comparison is not verified, and options."""
    dense = model(DENSE, {"w": W})
    if case == "float16":
        return dense, model(DENSE.replace("float[", "float16["), {"w": W}, dtype=np.float16), []
    if case == "int8":
        return dense, int8(), []
    if case == "int8, by parts":
        return dense, int8(), ["--verify", "local"]
    texts = [RESHAPED.replace("NODE", node) for node in ("Neg (r)", "Mul (r, m)")]
    before, after = (model(text, STORED) for text in texts)
    return before, after, ["--verify", "full"]


def told(result: Result) -> str:
    """The next step: the last line."""
    assert sum(line.startswith("next: ") for line in result.stderr.splitlines()) == 1, result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("next: ")
    return last.removeprefix("next: ")


def words(text: str) -> list[str]:
    """The options of a step that was tried."""
    found = re.match(r"(--.*?) verifies (it|it at these sizes|the rest) \(.*\d\.\d s\)", text)
    assert found is not None, text
    return shlex.split(found[1])


@pytest.mark.parametrize("case", ["float16", "int8", "int8, by parts", "sizes that nothing names"])
def test_the_step_after_a_comparison_works_as_it_stands(case: str, tmp_path: Path) -> None:
    before, after, options = pairs(case)
    paths = [str(tmp_path / "before.onnx"), str(tmp_path / "after.onnx")]
    for proto, path in zip((before, after), paths, strict=True):
        onnx.save(proto, path)
    result = CliRunner().invoke(main, ["verify", *paths, *options])
    assert result.exit_code in (1, 3)
    step = words(told(result))
    again = CliRunner().invoke(main, ["verify", *paths, *options, *step])
    assert again.exit_code == 0, again.stderr
    assert "next:" not in again.stderr
    as_json = CliRunner().invoke(main, ["verify", *paths, *options, "--json"])
    assert "next:" not in as_json.stderr
    document = json.loads(as_json.stdout)
    assert (document["next"]["options"], document["next"]["tried"]) == (step, True)


@pytest.mark.parametrize("quiet", [[], ["-q"], ["-q", "--require-verified"], ["--json"]])
def test_the_step_after_a_rewrite_works_as_it_stands(quiet: list[str], tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(SECRET), source := tmp_path / "secret.onnx")
    given = ["optimize", str(source), str(tmp_path / "out.onnx"), "--verify", "full"]
    result = CliRunner().invoke(main, [*given, *quiet])
    step = words(told(result))
    assert step == ["--verify", "auto"]
    assert CliRunner().invoke(main, [*given, *step, "--require-verified"]).exit_code == 0


def test_reports_have_it(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(SECRET), source := tmp_path / "secret.onnx")
    page, plain = tmp_path / "why.html", tmp_path / "why.json"
    reports = ["--report", str(page), "--report", str(plain)]
    CliRunner().invoke(main, ["optimize", str(source), str(tmp_path / "o.onnx"), "--verify", "full", *reports])
    document = json.loads(plain.read_text(encoding="utf-8"))
    schema = json.loads(files("bnfold.report").joinpath("report.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(document)
    assert document["verify"]["next"]["options"] == ["--verify", "auto"]
    assert "Next: --verify auto verifies it" in page.read_text(encoding="utf-8")
    outcome = bnfold.optimize(source, verify=VerifyOptions(depth="full"))
    assert '\n  next: bnfold.VerifyOptions(depth="auto") verifies it (' in repr(outcome)


@pytest.mark.parametrize("options", [[], ["-q"], ["--json"]])
def test_a_folder_keeps_it(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    onnx.save(onnx.parser.parse_model(SECRET), tmp_path / "in" / "secret.onnx")
    given = ["optimize", str(tmp_path / "in"), str(tmp_path / "out"), "--verify", "full", "--jobs", "1"]
    for _ in range(2):  # the second is up to date
        result = CliRunner().invoke(main, [*given, *options])
        assert "next: --verify auto verifies it (" in " ".join((result.stdout + result.stderr).split())


def test_a_command_whose_result_is_refused_ends_in_it(tmp_path: Path) -> None:
    before, after, _ = pairs("float16")
    onnx.save(before, source := tmp_path / "before.onnx")
    onnx.save(after, tmp_path / "half.onnx")
    copy = [sys.executable, "-c", "import shutil, sys; shutil.copy(*sys.argv[1:])"]
    command = [*copy, str(tmp_path / "half.onnx"), "{output}", "{input}"]
    command[2] = "import shutil, sys; shutil.copy(*sys.argv[1:3])"
    given = ["run", str(source), str(tmp_path / "out.onnx")]
    result = CliRunner().invoke(main, [*given, "--", *command])
    assert result.exit_code == 1
    step = words(told(result))
    assert CliRunner().invoke(main, [*given, *step, "--", *command]).exit_code == 0


OLD = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,3] x) => (float[2,3] y) { n = Neg (x)  y = Relu (n) }'


def test_an_opset_that_the_runtime_takes_is_named(tmp_path: Path) -> None:
    """No release of onnxruntime has the operators of opset 1, to which these can be converted."""
    onnx.save(onnx.parser.parse_model(OLD), source := tmp_path / "in.onnx")
    given = ["convert", str(source), str(tmp_path / "out.onnx"), "--require-verified", "--opset"]
    result = CliRunner().invoke(main, [*given, "lowest"])
    assert result.exit_code == 3
    option, opset = words(told(result))
    assert option == "--opset"
    assert CliRunner().invoke(main, [*given, opset]).exit_code == 0
    assert CliRunner().invoke(main, [*given, str(int(opset) - 1)]).exit_code == 3


def test_a_runtime_that_is_too_old_for_what_a_command_made_has_found_no_difference(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(OLD), source := tmp_path / "in.onnx")
    tool = "import bnfold, sys; not_verified = bnfold.VerifyOptions(depth='none')\n"
    tool += "bnfold.convert(*sys.argv[1:], target_opset='lowest', verify=not_verified)"
    command = [sys.executable, "-c", tool, "{input}", "{output}"]
    result = CliRunner().invoke(main, ["run", str(source), str(tmp_path / "out.onnx"), "--", *command])
    assert result.exit_code == 3, result.stderr
    assert "unverified: onnxruntime" in result.stderr
    assert told(result) == "use a runtime that has it, or convert to another --opset"


def test_a_trial_says_that_its_opset_is_another_one() -> None:
    proto = onnx.parser.parse_model(BODY)
    report = bnfold.optimize(proto, verify=VerifyOptions(depth="none")).report
    verdict = Verdict("unverified", "", "nothing", code=Code.RANDOM)

    def attempt(_: next_step.Candidate) -> Tried:
        return Tried(replace(verdict, status="verified"), 2, 11)

    case = Case(verdict, VerifyOptions(), attempt, ir.load(proto), None, Options(), report)
    step = next_step.next_step(case)
    assert step is not None
    assert "verifies the rest (with opset 11, 2 nodes more, " in step.text


BODY = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)
    <float[2,2,1,1] w = {1,2,3,4}, float[2] s = {2,3}, float[2] b = {1,2}>
    { i = Identity (x) c = Conv (i, w) n = BatchNormalization (c, s, b, b, s) y = Elu (n) }"""


def spoilt(patch: pytest.MonkeyPatch, rewrite: str, operator: str, domain: str = "") -> None:
    """Let one rewrite have a fault: another operator than Elu."""

    def change(run: PassContext) -> None:
        if rewrite in {row.rewrite.name for row in run.report.rewrites}:
            for node in [node for node in run.model.nodes() if node.is_op("Elu")]:
                node.proto.domain, node.proto.op_type = domain, operator
                if domain:
                    run.model.proto.opset_import.add(domain=domain, version=1)
                node.set_op_type(operator)

    patch.setattr(passes, "PASSES", (*passes.PASSES[:-1], change))


@pytest.mark.parametrize("given", [(), ("unread-node",)])
def test_the_rewrite_that_is_wrong_is_named_with_what_it_costs(
    given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(monkeypatch, "batchnorm-fold", "Selu")
    onnx.save(onnx.parser.parse_model(BODY), source := tmp_path / "a.onnx")
    out = tmp_path / "out.onnx"
    options = [word for name in given for word in ("--disable", name)]
    result = CliRunner().invoke(main, ["optimize", str(source), str(out), *options])
    assert result.exit_code == 1
    assert not out.exists()
    text = told(result)
    assert "verifies the rest (1 node more, " in text
    assert words(text) == ["--disable", ",".join(["batchnorm-fold", *given])]
    again = CliRunner().invoke(main, ["optimize", str(source), str(out), *options, *words(text), "--require-verified"])
    assert again.exit_code == 0, again.stderr
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Conv", "BatchNormalization", "Elu"]


def test_nothing_is_undone_by_itself_and_what_no_option_mends_is_to_be_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES[:-1], _always_wrong))
    onnx.save(onnx.parser.parse_model(BODY), source := tmp_path / "a.onnx")
    result = CliRunner().invoke(main, ["optimize", str(source), str(tmp_path / "out.onnx")])
    assert result.exit_code == 1
    assert told(result).startswith("--explain y --save DIR writes ")
    assert "please report this bug of bnfold" in told(result)
    with pytest.raises(VerificationFailed) as failed:
        bnfold.optimize(source)
    assert failed.value.verdict is not None
    assert failed.value.verdict.next is not None
    assert failed.value.verdict.next.tried is False


def _always_wrong(run: PassContext) -> None:
    for node in [node for node in run.model.nodes() if node.is_op("Elu")]:
        node.set_op_type("Selu")


def test_what_differs_in_two_models_is_to_be_reproduced() -> None:
    wrong = model(DENSE.replace("Relu", "LeakyRelu"), {"w": W})
    verdict = bnfold.verify(model(DENSE, {"w": W}), wrong)
    assert verdict.next is not None
    expected = 'bnfold.VerifyOptions(explain="y", save=DIR) writes two small models and inputs on which they differ'
    assert verdict.next.text == expected
    other = bnfold.verify(model(DENSE, {"w": W}), model(DENSE.replace("x", "z"), {"w": W}))
    assert other.code is not Code.INTERFACE or (other.next is not None and "one interface" in other.next.text)


def test_an_operator_without_a_kernel_is_named_with_its_node() -> None:
    text = '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[N,4] x) => (float[N,4] y) { %s y = Relu (a) }'
    before, after = (onnx.parser.parse_model(text % f"a = my.Foo <k = {k}> (x)") for k in (1, 2))
    verdict = bnfold.verify(before, after)
    assert verdict.status == "unverified"
    assert verdict.next is not None
    assert verdict.next.text.startswith("no kernel computes my:Foo-1 in node 'a': compare ")
    assert (verdict.next.options, verdict.next.tried) == ((), False)


def test_a_verified_result_has_none() -> None:
    dense = model(DENSE, {"w": W})
    verdict = bnfold.verify(dense, dense)
    assert verdict.next is None
    assert verdict.to_json()["next"] is None


def late(*codes: Code, **data: Any) -> Verdict:
    rows = tuple(Evidence(f"part {n}", "", ("y",), "skipped", code=code, data=data) for n, code in enumerate(codes))
    return Verdict("unverified", "the limit struck", "nothing", code=Code.TIME, ledger=rows)


def no_help(*_: object) -> Tried:
    return Tried(late(Code.TIME))


def case_of(verdict: Verdict, text: str = DENSE, **settings: Any) -> Case:
    proto = onnx.parser.parse_model(text) if text.startswith("<") else model(text, {"w": W})
    return Case(verdict, VerifyOptions(**settings), no_help, ir.load(proto), ir.load(proto))


def test_a_limit_is_named_where_time_is_all_that_is_missing() -> None:
    case = case_of(late(Code.TIME, Code.TIME, verify_seconds=1500))
    step = next_step.next_step(case)
    assert step is not None
    assert (step.options, step.tried) == (("--verify-seconds", "1500"), False)
    assert step.text == "--verify-seconds 1500 leaves the time for it (at most 1500 s); not tried"
    unasked = Evidence("the whole models", "", ("y",), "skipped", code=Code.NOT_ASKED, prover="runtime")
    beside = replace(
        late(Code.TIME, verify_seconds=1500), ledger=(*late(Code.TIME, verify_seconds=1500).ledger, unasked)
    )
    assert next_step.next_step(case_of(beside)) == step
    one_sided = next_step.next_step(case_of(late(Code.ONE_SIDED, Code.TIME, verify_seconds=4), verify_seconds=1))
    assert one_sided is not None
    assert one_sided.options == ("--verify-seconds", "60"), (
        "no less than what the default limit leaves for counted work"
    )
    whole = next_step.next_step(case_of(late(Code.TIME, verify_seconds=900, depth="full")))
    assert whole is not None
    assert whole.options == ("--verify", "full", "--verify-seconds", "900")


@pytest.mark.parametrize(
    "case",
    [
        case_of(late(Code.TIME, Code.NO_KERNEL, verify_seconds=1500)),
        case_of(late(Code.TIME, verify_seconds=200)),
        case_of(late(Code.TIME)),
        case_of(late(Code.TIME, verify_seconds=1500), SECRET),
        case_of(late(Code.TIME, verify_seconds=1500), "(float[N,5] x) => (float[N,16] y) { y = MatMul (x, w) }"),
        case_of(late(Code.TIME, verify_seconds=1500), inputs={"x": (2, 5)}),
    ],
    ids=["a kernel is missing", "less than there was", "no number", "unknown operator", "no size fits", "given sizes"],
)
def test_no_limit_is_named_that_leaves_it_unverified(case: Case) -> None:
    step = next_step.next_step(case)
    assert step is not None
    assert "--verify-seconds" not in step.text
    assert step.options == ()


def test_trials_end_with_their_share_of_the_limit() -> None:
    """A trial that strikes the limit is none."""
    calls: list[object] = []

    def slow(candidate: next_step.Candidate) -> Tried:
        calls.append(candidate)
        raise LimitStruck

    case = case_of(late(Code.HIDDEN), data=None)
    assert next_step.next_step(Case(case.verdict, case.checks, slow, case.before)) is not None
    assert len(calls) > 1
    assert next_step.SHARE < 1


def test_options_of_the_rewrite_are_tried_by_code() -> None:
    seen: list[tuple[str, ...]] = []

    def attempt(candidate: next_step.Candidate) -> Tried:
        seen.append(candidate.words)
        is_it = candidate.options is not None and candidate.options.overridable == "keep"
        return Tried(Verdict("verified" if is_it else "unverified", "", "nothing", code=Code.UNFED))

    verdict = Verdict("unverified", "inputs are unused", "interface", code=Code.UNFED)
    proto = model(DENSE, {"w": W})
    case = Case(verdict, VerifyOptions(), attempt, ir.load(proto), ir.load(proto), Options())
    step = next_step.next_step(case)
    assert step is not None
    assert step.options == ("--overridable", "keep")
    assert seen == [("--overridable", "keep")]


def test_what_failed_by_parts_is_tried_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Relu behind a Sigmoid has no effect, but the part alone is fed what no Sigmoid makes; going back takes time."""
    monkeypatch.setattr(parts, "_GOING_BACK", 0.0)
    body = "(float[2,3] x) => (float[2,3] y) {{ s = Sigmoid (x)  {0} }}"
    texts = (body.format("r = Relu (s)  y = Neg (r)"), body.format("y = Neg (s)"))
    paths = [str(tmp_path / name) for name in ("before.onnx", "after.onnx")]
    for text, path in zip(texts, paths, strict=True):
        onnx.save(model(text, {}), path)
    result = CliRunner().invoke(main, ["verify", *paths, "--verify", "local"])
    assert result.exit_code == 1
    step = words(told(result))
    assert step == ["--verify", "auto"]
    assert CliRunner().invoke(main, ["verify", *paths, "--verify", "local", *step]).exit_code == 0


def test_operators_that_a_runtime_alone_has_are_compared_there(tmp_path: Path) -> None:
    head = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[3,4] x) => (float[3,4] y)
        <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] b = {1,2,3,4}> """
    fused = '{ y = com.microsoft.FusedGemm <activation = "Relu"> (x, w, b) }'
    paths = [str(tmp_path / name) for name in ("before.onnx", "after.onnx")]
    for text, path in zip((fused, "{ m = MatMul (x, w) a = Add (m, b) y = Relu (a) }"), paths, strict=True):
        onnx.save(onnx.parser.parse_model(head + text), path)
    result = CliRunner().invoke(main, ["verify", *paths])
    assert result.exit_code == 3
    text = told(result)
    assert text.startswith("--tolerance 0.0001 verifies the outputs in onnxruntime, within this share of ")
    assert CliRunner().invoke(main, ["verify", *paths, "--tolerance", "0.0001"]).exit_code == 0


def test_two_rewrites_that_a_claim_names_are_left_out_together() -> None:
    proto = onnx.parser.parse_model(BODY)
    outcome = bnfold.optimize(proto, verify=VerifyOptions(depth="none"))
    names = {"batchnorm-fold", "remove-identity"}
    row = Evidence("fold n", "", ("c",), "skipped", code=Code.NOT_COMPUTED, boundary=("i",))
    verdict = Verdict("unverified", "", "nothing", code=Code.NOT_COMPUTED, ledger=(row,))
    seen: list[frozenset[str]] = []

    def attempt(candidate: next_step.Candidate) -> Tried:
        disabled = candidate.options.disable if candidate.options is not None else frozenset()
        seen.append(disabled)
        is_it = disabled >= names
        return Tried(Verdict("verified" if is_it else "unverified", "", "nothing", code=Code.NOT_COMPUTED), 2)

    case = Case(verdict, VerifyOptions(), attempt, ir.load(proto), None, Options(), outcome.report)
    step = next_step.next_step(case)
    assert step is not None
    assert step.options == ("--disable", "batchnorm-fold,remove-identity")
    assert "(2 nodes more, " in step.text
    assert seen[-3:-1] == [frozenset({name}) for name in sorted(names)]


def test_what_would_take_longer_than_trials_may_is_not_tried() -> None:
    proto = onnx.parser.parse_model(BODY)
    report = bnfold.optimize(proto, verify=VerifyOptions(depth="none")).report
    verdict = Verdict("unverified", "", "nothing", code=Code.RANDOM)

    def attempt(candidate: next_step.Candidate) -> Tried:
        assert candidate.options is None
        return Tried(verdict)

    case = Case(verdict, VerifyOptions(), attempt, ir.load(proto), None, Options(), report, seconds=1000.0)
    step = next_step.next_step(case)
    assert step is not None
    assert step.text == "nothing can be compared there: compare statistics of many runs in your own runtime"


def test_a_tolerance_is_no_step_where_a_fault_would_not_show() -> None:
    verdict = Verdict("unverified", "", "nothing", code=Code.HIDDEN)
    seen: list[tuple[str, ...]] = []

    def attempt(candidate: next_step.Candidate) -> Tried:
        seen.append(candidate.words)
        return Tried(verdict)

    proto = model(DENSE, {"w": W})
    step = next_step.next_step(Case(verdict, VerifyOptions(), attempt, ir.load(proto), ir.load(proto)))
    assert step is not None
    assert step.text.startswith("give recorded inputs with --data (an .npz file with x (N,16))")
    assert seen[0] == ("--samples", "8")
    assert not any("--tolerance" in each for each in seen)


@pytest.mark.parametrize(("code", "status"), [(Code.REFUSED, "failed"), (Code.INVALID, "failed")])
def test_a_file_that_is_wrong_is_no_difference_to_reproduce(code: Code, status: Any) -> None:
    verdict = Verdict(status, "", "interface", code=code)
    proto = model(DENSE, {"w": W})
    given = Case(verdict, VerifyOptions(), no_help, ir.load(proto), ir.load(proto))
    step = next_step.next_step(given)
    assert step is not None
    assert step.text.startswith("mend AFTER")
    own = next_step.next_step(Case(verdict, VerifyOptions(), no_help, ir.load(proto), options=Options()))
    assert own is not None
    assert own.text.startswith("--keep-failed FILE saves the result")


def test_a_result_that_a_runtime_is_too_old_for_is_no_difference_to_reproduce() -> None:
    verdict = Verdict("failed", "", "runtime", code=Code.TOO_OLD)
    proto = model(DENSE, {"w": W})
    step = next_step.next_step(Case(verdict, VerifyOptions(), no_help, ir.load(proto), ir.load(proto)))
    assert step is not None
    assert step.text == "use a runtime that has it, or convert to another --opset"


def test_a_part_that_differs_in_models_that_agree_is_to_be_explained() -> None:
    rows = (
        Evidence("the whole models", "", ("y",), "skipped", code=Code.HIDDEN, prover="whole"),
        Evidence("Clip c", "", ("c d",), "failed", code=Code.DIFFERS),
    )
    verdict = Verdict("unverified", "", "nothing", code=Code.DIFFERS, ledger=rows)
    proto = model(DENSE, {"w": W})
    step = next_step.next_step(Case(verdict, VerifyOptions(), no_help, ir.load(proto), ir.load(proto)))
    assert step is not None
    assert step.text.startswith("--explain 'c d' --save DIR writes ")


def test_no_sizes_are_tried_that_take_much_memory() -> None:
    text = '<ir_version: 8, opset_import: ["": 15]> g (float[6,A,B,C] x) => (float[6,A,B,C] y) { y = Relu (x) }'
    before = ir.load(onnx.parser.parse_model(text).SerializeToString())
    verdict = Verdict("unverified", "it is so", "nothing", code=Code.NO_FIT)
    case = Case(verdict, VerifyOptions(), lambda _: Tried(verdict), before, before)
    tried = [candidate.checks.inputs["x"] for candidate in next_step._sizes(case)]
    assert tried
    assert all(math.prod(shape) <= 1 << 20 for shape in tried)
