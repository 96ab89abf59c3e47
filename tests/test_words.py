"""Words of the package and of scripts/: none that are private."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("bnfold", "scripts")

_PRIVATE = {
    r"whoever|nobody|somebody": "the noun: caller, consumer, another program",
    r"who knows|takes nobody along": "the noun: an unknown number, alone",
    r"referees?": "reference evaluator",
    r"witness(?:es)?|heard": "runtime, runtime samples",
    r"drowned": "never finite",
    r"(?:stand|stands|stood|standing) on": "the affine of, applies to",
    r"of which": "a sentence of its own",
    r"comput(?:e|es|ed|ing) the same": "equivalent, equal",
    r"open sizes?": "dynamic size",
    r"wish(?:es|ed)?": "request",
    r"arms?": "operand, branch",
    r"stretch(?:es)?": "slice",
    r"jump(?:s|ed|ing)?": "discontinuous",
    r"makers?": "producer",
    r"twins?": "counterpart",
    r"likewise": "the noun again",
    r"(?:spell|spells|spelled|spelling) out|spellings?": "decompose, form",
    r"(?:even|evens|evened|evening) out": "equalize",
    r"borrow(?:s|ed)?": "from onnx_ir",
    r"tid(?:y|ies|ied)": "remove dead nodes",
    r"accus(?:e|es|ed)|blam(?:e|es|ed)": "reject, count as wrong",
    r"content with": "accept",
    r"(?<!screen )readers?": "consumer; the noun: visitor, program",
    r"(?:tells|told)(?! apart)": "determine, declare, infer, know, report, set",
    r"who": "the noun: caller, consumer, producer",
    r"(?:hold|holds|held) (?:to|against|back)": "pin, compare with, keep",
}
PRIVATE = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in _PRIVATE.items()}
"""What is no word of the field, and the words to take in its place."""
OLD_NAMES = {
    *("Asked", "Chain", "Checks", "Delivery", "Draft", "Form", "Pair", "Referee", "Region", "Regions"),
    *("Replacement", "Shared", "Side", "Sides", "Site", "Twin", "Twins", "Walk", "Witness", "WitnessRow"),
}
"""Names of classes that are gone."""


def sources() -> list[Path]:
    """Return the Python files of the package and of scripts/, which may have no suffix."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    return [path for path in found if path.suffix == ".py" or _has_python_shebang(path)]


def _has_python_shebang(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"#!.*python", file.readline(80)) is not None


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of docstrings, comments and definitions; code in backquotes is left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, _in_words(node.name)
        if isinstance(node, ast.arg):
            yield node.lineno, _in_words(node.arg)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, _without_code(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _without_code(token.string)


def _in_words(name: str) -> str:
    return " ".join(re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name))


def _without_code(text: str) -> str:
    return " ".join(re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL).split())


def private(source: str) -> list[tuple[int, str, str]]:
    """Return the private words of a file: line, word, and the words to take in its place."""
    return sorted(
        {
            (line, found[0], instead)
            for line, text in texts(source)
            for pattern, instead in PRIVATE.items()
            if (found := pattern.search(text))
        }
    )


def test_private_words_do_not_come_back() -> None:
    found = {path.relative_to(ROOT): private(path.read_text(encoding="utf-8")) for path in sources()}
    wrong = {path: words for path, words in found.items() if words}
    assert wrong == {}


def test_old_names_of_classes_do_not_come_back() -> None:
    names = {
        node.name
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert names & OLD_NAMES == set()


@pytest.mark.parametrize(
    "source",
    [
        '"""The models compute the\nsame."""\n',
        "def wish() -> None: ...\n",
        "class PendingWish: ...\n",
        "def f(referee_time: int) -> None: ...\n",
        "x = 1  # nobody reads it\n",
        '#: an "open size"\nx = 1\n',
        'x = 1\n"""Whoever asks."""\n',
    ],
)
def test_the_word_check_sees_every_form(source: str) -> None:
    assert len(private(source)) == 1


@pytest.mark.parametrize(
    "source", ['"""The mode ``spelled-out``; `nobody` is a name."""\n', "text = 'nobody'\n", "def swish(): ...\n"]
)
def test_the_word_check_leaves_the_rest_alone(source: str) -> None:
    assert private(source) == []
