"""`bnfold explain`: every code and operator is explained, from the texts of the pages, and typos are answered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bnfold.cli import explanation
from bnfold.cli.commands import main
from bnfold.report.advice import ADVICE
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import NAMED, Rewrite
from bnfold.verification.codes import MEANINGS, WORDS, Code
from tests.conftest import MODELS


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["explain", *words])


def together(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.code)
def test_a_code_is_explained_in_full(reason: Reason) -> None:
    result = run(reason.code)
    advice = ADVICE[reason]
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{reason.code}: {reason.value}\n")
    told = together(result.stdout)
    assert together(advice.meaning) in told
    assert together(advice.remedy) in told
    assert together(advice.example) in told
    assert advice.command in told


@pytest.mark.parametrize("word", ["no-gain", "NO_GAIN", "[no-gain]", "No-Gain"])
def test_a_code_may_be_copied_from_wherever_it_stands(word: str) -> None:
    assert run(word).stdout == run("no-gain").stdout


def test_every_operator_is_explained() -> None:
    names = explanation.known_operators()
    assert {"Conv", "BatchNormalization", "FusedConv", "TopK", "Loop"} <= set(names)
    for name in names:
        facts = explanation.explained(name)
        assert facts["operator"] == name
        assert all(line == line.rstrip() for line in explanation.lines(facts))


def test_what_is_said_of_an_operator() -> None:
    told = run("conv").stdout
    assert "Versions: 1, 11, 22\n  1 → 11 → 22: the node stays as it is\n" in told
    assert "a BatchNormalization after it: output channels of W, the bias\n" in told
    assert "bnfold's own float64 implementation: 1, 11, 22\n" in told
    assert "continuous" in told
    told = run("Clip").stdout
    assert "1 → 6 → 11: bnfold rewrites the node\n  11 → 12 → 13: the node stays as it is\n" in told
    assert "12 → 11 → 6 → 1: bnfold rewrites the node" in told
    assert "reason no-handler" in run("TopK").stdout
    assert "discontinuous: a tiny difference" in run("TopK").stdout
    assert "as onnxruntime defines it" in run("FusedConv").stdout
    assert "ONNX's reference implementation, checked: 17" in run("STFT").stdout
    assert "no implementation that is trusted" in run("ImageDecoder").stdout
    assert "Versions: 1, 7, 9\n" in run("Upsample").stdout  # 10 only withdraws it


def test_an_operator_that_is_called_like_a_code_is_told_by_its_capital() -> None:
    assert run("Range").stdout.startswith("Range: what bnfold knows of it")
    assert run("range").stdout.startswith("range: a folded weight")


@pytest.mark.parametrize("rewrite", NAMED.values(), ids=lambda rewrite: rewrite.name)
def test_a_rewrite_is_explained(rewrite: Rewrite) -> None:
    told = run(rewrite.name).stdout
    assert told.startswith(f"{rewrite.name}: {rewrite.general_title}\n")
    assert rewrite.what in together(told)
    assert f"Its result is {rewrite.statement} Leave it out with --disable {rewrite.name}, or" in together(told)


def test_conversions_are_explained_as_rewrites() -> None:
    assert "Its result is equal bit for bit" in run("convert-softmax").stdout
    assert "Its result is equal up to rounding: " in together(run("decompose-gelu").stdout)
    assert "A node that bnfold rewrites is equal bit for bit\n" in run("Softmax").stdout
    assert "What bnfold writes for it is equal up to rounding\n" in run("Gelu").stdout
    assert run("convert-nothing").exit_code == 2
    facts = json.loads(run("decompose-gelu", "--json").stdout)
    assert (facts["rewrite"], facts["bitwise"], facts["disable"]) == ("decompose-gelu", False, False)
    assert run("decompose-gelu").stdout.endswith("\nIt cannot be left out: the opset needs it.\n")


def test_json_has_the_same() -> None:
    assert json.loads(run("no-gain", "--json").stdout) == explanation.explained("no-gain")
    assert json.loads(run("Conv", "--json").stdout) == explanation.explained("Conv")
    listed = json.loads(run("--json").stdout)
    assert set(listed["codes"]) == {reason.code for reason in Reason}
    assert set(listed["rewrites"]) == set(NAMED)


def test_without_a_word_the_codes_are_listed() -> None:
    told = run().stdout
    assert all(f"{reason.code} " in told for reason in Reason)
    assert "bnfold explain OPERATOR" in told


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("no-gian", "did you mean no-gain"),
        ("Convv", "did you mean Conv"),
        ("zzzzzz", "`bnfold explain` lists the codes"),
    ],
)
def test_an_unknown_word_is_answered_by_the_nearest(word: str, hint: str) -> None:
    result = run(word)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"bnfold: '{word}' is no code, rewrite, operator of ONNX or word of the output")
    assert hint in result.stderr


def test_a_run_that_prints_reasons_says_once_what_explains_them(tmp_path: Path) -> None:
    source, out = str(MODELS / "dense.onnx"), str(tmp_path / "out.onnx")
    for command in (["inspect", source], ["optimize", source, out], ["inspect", source, source]):
        told = CliRunner().invoke(main, command).stderr
        assert told.count("bnfold explain") == 1, command
        assert re.search(r"`bnfold explain (negative-scale|shared-value)` says more", told)
    assert "bnfold explain" not in CliRunner().invoke(main, ["optimize", source, out, "--quiet"]).output
    assert "bnfold explain" not in CliRunner().invoke(main, ["inspect", str(MODELS / "bn9.onnx")]).output


@pytest.mark.parametrize("code", Code)
def test_a_code_of_a_verdict_is_explained(code: Code) -> None:
    result = run(code)
    assert result.exit_code == 0
    told = together(result.stdout)
    assert told.startswith(f"{code} (")
    assert together(MEANINGS[code].text) in told
    assert together(MEANINGS[code].remedy) in told
    assert json.loads(run(code, "--json").stdout)["code"] == code


@pytest.mark.parametrize("word", ["verified", "unverified", "failed", "UNVERIFIED", "Failed"])
def test_a_word_of_a_verdict_is_explained_with_its_codes(word: str) -> None:
    result, (text, codes) = run(word), WORDS[word.lower()]
    assert result.exit_code == 0
    told = together(result.stdout)
    assert told.startswith(f"{word.lower()}: {text}")
    both = {code: "unverified, failed" if code is Code.ZERO_SIGN else word.lower() for code in codes}
    assert all(f"{code} ({both[code]}): {MEANINGS[code].text}" in told for code in codes)
    assert [each["code"] for each in json.loads(run(word, "--json").stdout)["codes"]] == [*codes]


def test_every_code_is_under_one_word_and_says_what_to_do() -> None:
    """Except a zero of the other sign: fed to a part it leaves a doubt, fed by callers it is a failure."""
    listed = [code for word in WORDS.values() for code in word.codes]
    assert sorted(listed) == sorted([*Code, Code.ZERO_SIGN])
    assert {*MEANINGS} == {*Code}
    assert all(MEANINGS[code].remedy for word in ("unverified", "failed") for code in WORDS[word].codes)


def test_codes_of_verdicts_are_no_reasons_nor_rewrites() -> None:
    assert not {*map(str, Code), *WORDS} & ({reason.code for reason in Reason} | {*NAMED})


@pytest.mark.parametrize(("word", "near"), [("unverifed", "unverified"), ("fault-hiden", "fault-hidden")])
def test_near_names_of_codes(word: str, near: str) -> None:
    result = run(word)
    assert result.exit_code == 2
    assert f"did you mean {near}" in result.stderr


def test_the_list_has_the_codes_of_verdicts() -> None:
    told = run().stdout
    assert "A result is unverified (`bnfold explain unverified`):\n" in told
    assert all(f"\n{code} " in told for code in Code)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Crop", "Crop: An operator from before ONNX was a standard, which onnx has removed. A conversion to another"),
        ("crop", "Crop: An operator from before"),
        (
            "Scale",
            "known are the attributes scale. Nothing is folded across it before. As a word of the output: The fac",
        ),
        ("scale", "scale: The factors by which"),
        (
            "GRUUnit",
            "GRUUnit: An operator from before ONNX was a standard, which onnx has removed. bnfold converts none",
        ),
        ("exchange", "--exchange: Put an Add in a BatchNormalization's place"),
        ("exchanged", "replaced: "),
        ("referee", "runtime: "),
        ("changed part", "part: "),
        ("--max-growth", "--max-growth: Maximum number of bytes"),
        ("fix_shapes", "--fix-shapes: Shape to give to an input"),
        ("max-growth", "0 for none. None means 4 KiB"),
    ],
)
def test_old_words_options_and_withdrawn_operators_are_explained(word: str, text: str) -> None:
    result = run("--", word)
    assert result.exit_code == 0, result.output
    assert text in together(result.stdout)


def test_a_withdrawn_operator_that_is_misspelt_is_known() -> None:
    assert "did you mean" in run("ImageScalar").stderr
    assert "ImageScaler" in run("ImageScalar").stderr


def test_a_verdict_and_its_notes_may_be_copied_from_the_output() -> None:
    verdict = run("verified without an independent runtime")
    assert verdict.exit_code == 0
    assert "No runtime such as onnxruntime ran the whole result" in together(verdict.stdout)
    for note in ("no runtime ran the whole models", "The whole models were not compared:"):
        assert run(note).stdout == verdict.stdout
