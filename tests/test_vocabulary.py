"""One vocabulary: no private word in what people read, and `bnfold explain` knows each word of the output."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import get_args

import onnx
import pytest
from click.testing import CliRunner

from bnfold.batch.worker import FileStatus as OfMany
from bnfold.cli import explanation, tables
from bnfold.cli.commands import main
from bnfold.cli.vocabulary import OTHER_FORMS, VOCABULARY
from bnfold.errors import WrongUsage
from bnfold.pipeline.chain import StageStatus as OfSteps
from bnfold.report.advice import ADVICE
from bnfold.report.events import IN_WORDS, FoldResult
from bnfold.report.html.model_page import STATES
from bnfold.report.reasons import Reason
from bnfold.report.rewrites import NAMED
from bnfold.verification.codes import MEANINGS, WORDS
from bnfold.verification.verdict import How
from tests.conftest import MODELS, ROOT

PRIVATE = re.compile(
    r"\b(?:respell\w*|spell(?:ed|s|ing)? out|spelled-out|exchanged|referees?|witness\w*|changed parts?|named thing)\b",
    re.IGNORECASE,
)
STABLE = {*OTHER_FORMS, "referee"}
"""Names that JSON keeps, and old words that `explain` knows: texts that are one of these alone are keys or values."""


def constants() -> Iterator[tuple[str, str]]:
    """Every text of the package that is no docstring, with its place, and the pages' templates without their code."""
    for path in sorted((ROOT / "bnfold").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    for path in sorted((ROOT / "bnfold").rglob("*.j2")):
        yield path.name, re.sub(r"\{[{%].*?[%}]\}|<[^>]*>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_no_text_has_a_private_word() -> None:
    found = [(where, text) for where, text in constants() if text not in STABLE and PRIVATE.search(text)]
    assert found == []


def test_the_search_sees_private_words() -> None:
    assert PRIVATE.search("2 exchanged for an Add")
    assert PRIVATE.search("each of 3 changed parts")
    assert PRIVATE.search("GRU 1 respelled")
    assert not PRIVATE.search("--exchange always")


RUNS = {
    "optimize": ["optimize", "dense.onnx", "o.onnx", "-v", "--report", "o.html", "--report", "o.json"],
    "exchange": ["fold", "dense.onnx", "o.onnx", "-v", "--exchange", "always", "--report", "o.html"],
    "decompose": ["optimize", "dense.onnx", "o.onnx", "-v", "--decompose", "remaining"],
    "convert": ["convert", "resnet_opset6.onnx", "o.onnx", "--opset", "17", "-v", "--report", "o.html"],
    "down": ["convert", "dense.onnx", "o.onnx", "--opset", "lowest", "-v"],
    "training": ["optimize", "bn15_training.onnx", "o.onnx", "-v"],
    "inspect": ["inspect", "dense.onnx", "--report", "o.html"],
    "quantization": ["inspect", "dense.onnx", "--quantization"],
    "unverified": ["inspect", "bn6_no_is_test.onnx", "--legacy-mode", "training"],
    "folder": ["optimize", "models", "out", "--no-verify", "--report", "o.html"],
    "verify": ["verify", "dense.onnx", "resnet_opset6.onnx", "--explain", "-v"],
    "explained": ["verify", "dense.onnx", "dense.onnx", "--explain", "--report", "o.html"],
    "diff": ["diff", "dense.onnx", "depthwise.onnx", "--report", "o.html"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    names = ("dense", "resnet_opset6", "bn15_training", "bn6_no_is_test", "depthwise")
    for name in names:
        Path(f"{name}.onnx").write_bytes((MODELS / f"{name}.onnx").read_bytes())
    Path("models").mkdir()
    Path("models/bn9.onnx").write_bytes((MODELS / "bn9.onnx").read_bytes())
    return tmp_path


@pytest.mark.parametrize("run", RUNS)
def test_messages_and_pages_have_no_private_word(run: str, folder: Path) -> None:
    result = CliRunner().invoke(main, RUNS[run])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    texts = [result.stdout, result.stderr]
    for page in folder.glob("*.html"):
        body = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        texts.append(unescape(body))
    assert len("".join(texts)) > 100
    assert [found[0] for text in texts for found in PRIVATE.finditer(text)] == []


def test_what_python_prints_and_explains_has_none() -> None:
    texts = [*VOCABULARY.values(), *(text for each in MEANINGS.values() for text in each)]
    texts += [word.text for word in WORDS.values()]
    texts += [rewrite.what + rewrite.title + rewrite.rounds for rewrite in NAMED.values()]
    texts += [reason.value + ADVICE[reason].meaning + ADVICE[reason].remedy for reason in Reason]
    assert [found[0] for text in texts for found in PRIVATE.finditer(text)] == []


def heads(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_explain_knows_statuses_states_and_names_of_the_json_form() -> None:
    words = {*STATES, *get_args(OfMany), *get_args(OfSteps), *get_args(How), *get_args(FoldResult), *IN_WORDS, *WORDS}
    words |= {*VOCABULARY, *OTHER_FORMS, *tables.OUTCOME, "inference", "training", "spelled-out"}
    words |= {"note", "next", "load", "rewrite", "write", "verify", "next step"}  # of the last lines of a run
    for word in words:
        facts = explanation.explained(word)
        assert [*explanation.lines(facts)], word
        assert json.dumps(facts)


def test_the_json_names_lead_to_the_words() -> None:
    for name, word in (("exchanged", "replaced"), ("spelled-out", "affine"), ("spelled_out", "decomposed")):
        assert explanation.explained(name)["word"] == word
    assert explanation.explained("respelled")["word"] == "converted"


HEAD = re.compile(r"before +after$|^BatchNormalization {2,}|^layer +|^model in")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("run", ["optimize", "convert", "exchange", "inspect", "quantization", "folder"])
def test_explain_knows_the_columns_and_rows_of_each_table(run: str) -> None:
    result = CliRunner().invoke(main, RUNS[run])
    lines = (result.stderr + "\n" + result.stdout).splitlines()
    first = next(number for number, line in enumerate(lines) if HEAD.search(line))
    found = [word for word in heads(lines[first]) if not word.startswith("model")]
    if "before" in found:
        end = next(number for number, line in enumerate(lines) if line.startswith("file size")) + 1
        rows = [heads(line)[0] for line in lines[first + 1 : end] if re.match(r" {0,2}\S.*\S {2,}\S", line)]
        found += [row for row in rows if ":" not in row and "more operators" not in row]
        assert "multiply-adds" in found
    assert len(found) >= 2
    for word in found:
        assert explanation.explained(word), word


def test_several_words_need_no_quotes() -> None:
    runner = CliRunner()
    assert (
        runner.invoke(main, ["explain", "IR", "version"]).stdout
        == runner.invoke(main, ["explain", "ir-version"]).stdout
    )
    assert runner.invoke(main, ["explain", "opset"]).stdout.count("As a word of tables: ") == 1
    with pytest.raises(WrongUsage, match="did you mean multiply-adds"):
        explanation.explained("multiply-add")


def test_a_refused_conversion_ends_in_a_step(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[n,3] x) => (float[a,c] y) { y, i = Unique <axis = 0> (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "a.onnx")
    told = CliRunner().invoke(main, ["convert", str(tmp_path / "a.onnx"), str(tmp_path / "b"), "--opset", "9"]).stderr
    assert told.endswith("lowest opset for this model: 11 (--opset 11 gets there)\n")


def test_every_reason_and_open_code_says_what_to_do() -> None:
    assert all(ADVICE[reason].remedy for reason in Reason)
    assert all(MEANINGS[code].remedy for word in ("unverified", "failed") for code in WORDS[word].codes)


def test_every_option_that_a_text_names_exists() -> None:
    """Advice may name an option that only ``--help-all`` lists, and none that there is not."""
    known = {flag for command in main.commands.values() for each in command.params for flag in each.opts}
    known |= {flag for command in main.commands.values() for each in command.params for flag in each.secondary_opts}
    known |= {"--help", "--help-all", "--version"}
    others = ("bnfold/cli/habits.py", "bnfold/pipeline/external_tools.py", "bnfold/errors.py")
    for where, text in constants():
        if where.startswith(others) or "pip install" in text:
            continue
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+[a-z]", text))
        assert named <= known, (where, named - known)
