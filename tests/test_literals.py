"""scripts/literals.py: which numbers it alters, which tests it runs, and that it sees what they do not notice."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

import literals
import pytest
from _referee import altering, serving
from _referee.altering import Alteration
from literals import Reached

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.large,  # a script, which changes seldom
    pytest.mark.skipif(sys.platform == "win32", reason="it forks"),
]

COMPARE = "bnfold/verification/tolerance/compare.py"
JUDGE = "tests/verification/tolerance/test_compare.py"
CODE = """
LIMIT = 1
SIZES = (0, 4)
def f(x, share=0.5):
    return x[2] + x[3:] + 1 + 7 * share
"""

NOTICES = """
from bnfold.verification.tolerance import compare
def test_it():
    assert compare.ROUNDING_FACTOR == 8
"""


def alteration(file: str, text: str) -> Alteration:
    return next(each for each in literals.numbers(ROOT, file) if each.text == text)


def test_sizes_are_altered_and_indices_are_not(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(CODE, encoding="utf-8")
    found = [each.text for each in literals.numbers(tmp_path, "planted.py") if each.kind == "larger"]
    assert sorted(found) == ["0.5 → 5.0", "1 → 10", "4 → 40", "7 → 70"]


@pytest.mark.parametrize("file", literals.COST)
def test_limits_of_cost_are_constants_of_their_file_and_not_altered(file: str) -> None:
    path = f"bnfold/verification/{file}"
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    every = altering.alterations(ROOT, path, altering.literals)
    named = {name for each in every if not each.statement and (name := literals._constant(each, tree)[0])}
    assert literals.COST[file] <= named
    left = {literals._constant(each, tree)[0] for each in literals.numbers(ROOT, path) if not each.statement}
    assert not literals.COST[file] & left


def test_a_test_that_notices_is_named_and_one_that_does_not_is_not(tmp_path: Path) -> None:
    (tmp_path / "test_ignores.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "test_notices.py").write_text(NOTICES)
    ignores, notices = (f"{tmp_path / name}::test_it" for name in ("test_ignores.py", "test_notices.py"))
    found = alteration(COMPARE, "8.0 → 80.0")
    assert literals.noticing(found, [ignores, notices]).endswith("::test_it")
    assert literals.noticing(found, [ignores]) == ""
    assert literals.noticing(found, []) == ""


def test_the_quickest_tests_come_first_and_others_until_the_budget_is_spent() -> None:
    found = alteration(COMPARE, "8.0 → 80.0")
    seconds = {f"test {number}": float(number) for number in range(1, 9)} | {"another": 0.1}
    lines = {COMPARE: {str(line): [*seconds][:-1] for line in range(1, 400)}}
    chosen = literals.tests_of(found, Reached(seconds, lines), 12.0, random.Random(0))
    assert chosen[:3] == ["test 1", "test 2", "test 3"]
    assert 12 <= sum(seconds[name] for name in chosen) < 12 + 8
    assert "another" not in chosen


def test_the_tests_of_a_constant_are_those_that_reach_where_it_is_read() -> None:
    lines = set(literals.lines_of(alteration(COMPARE, "8.0 → 80.0")))
    text = (ROOT / COMPARE).read_text(encoding="utf-8").splitlines()
    assert lines
    assert all("ROUNDING_FACTOR" in text[line - 1] for file, line in lines if file == COMPARE)


def test_what_each_test_reaches_is_recorded(tmp_path: Path) -> None:
    code, reached = serving.in_child(lambda _: literals.run_recorded([JUDGE]), tmp_path, 120.0)
    assert code == 0
    assert all(name.startswith(f"{JUDGE}::") for name in reached.seconds)
    assert {name for names in reached.lines[COMPARE].values() for name in names} == reached.seconds.keys()


def test_a_later_record_adds_to_an_earlier_one() -> None:
    old = Reached({"one": 1.0, "two": 2.0}, {"file": {"7": ["one", "two"]}})
    new = Reached({"two": 3.0, "three": 4.0}, {"file": {"8": ["two"], "9": ["three"]}})
    merged = literals.merged(old, new)
    assert merged.seconds == {"one": 1.0, "two": 3.0, "three": 4.0}
    assert merged.lines["file"] == {"7": ["one"], "8": ["two"], "9": ["three"]}
