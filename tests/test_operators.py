"""What is known of an operator stands in one place, and is described, drawn and doubted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import onnx
import pytest

from bnfold.folding.ops import HANDLERS
from bnfold.ir.node import OF_ONNXRUNTIME
from bnfold.report.advice.passing import ROWS
from tests.conftest import ROOT
from tests.verification.faults import rewrites

PACKAGE = ROOT / "bnfold"
NAMES = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
MOST = 3
"""Operators that a line of code may name together."""
TABLES = (
    "folding/ops/",  # records
    "channels/",  # a function by operator
    "analysis/traits.py",
    "analysis/evaluators.py",  # functions by operator, as all of the following
    "analysis/deciding.py",
    "analysis/shapes/weights.py",
    "reference/",
    "semantics/",
    "converting/adapters/",
    "simplifying/",
    "verification/inputs/dims.py",
    "analysis/shapes/propagation.py",  # of onnx's own inference
    "analysis/shapes/arithmetic.py",
    "verification/inputs/roles.py",  # what verification thinks of values is its own
    "verification/tolerance/discontinuities.py",
    "verification/inputs/bounds.py",
    "verification/inputs/shapes.py",
    "verification/changes/from_constants.py",
    "verification/changes/idle.py",
    "verification/coverage/moves.py",
    "verification/coverage/mutants.py",
    "verification/coverage/smooth.py",
    "interop/openvino/",  # names of another standard
    "settings/checked.py",
    "verification/changes/copies.py",
    "report/rewrites.py",  # what each rewrite says of itself
    "report/advice/passing.py",  # prose, compared with docs/folding.md
)


def tables(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Lines that name several operators: in a collection, in arguments, or in one text."""
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Call):
            parts = [*node.args]
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts = words if NAMES.issuperset(words := node.value.split()) else []  # no prose
        if len(named := NAMES & set(texts)) > MOST:
            yield getattr(node, "lineno", 0), named


def test_operators_are_listed_in_records_and_traits_only() -> None:
    found = {
        f"{place}:{line}": sorted(named)
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (place := path.relative_to(PACKAGE).as_posix()).startswith(TABLES)
        for line, named in tables(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        '("Add", "Sub", "Mul", "Div")',
        '{"Add": 1, "Sub": 2, "Mul": 3, "Div": 4}',
        'node.is_op("Add", "Sub", "Mul", "Div")',
        'frozenset("Add Sub Mul Div".split())',
    ],
)
def test_the_check_sees_every_form(source: str) -> None:
    assert [named for _, named in tables(ast.parse(source))] == [{"Add", "Sub", "Mul", "Div"}]


def table_rows() -> list[str]:
    """The rows of the table of operators in docs/folding.md."""
    text = (ROOT / "docs" / "folding.md").read_text(encoding="utf-8")
    return text[text.index("| operators | upward") :].split("\n\n")[0].splitlines()[2:]


def described() -> set[str]:
    """The operators of the table in docs/folding.md; ``Reduce*`` is all of them."""
    rows = table_rows()
    words = {word for row in rows for word in re.findall(r"[A-Z]\w+\*?", row.split("|")[1])}
    return words | {name for name in HANDLERS for word in words if word.endswith("*") and name.startswith(word[:-1])}


def drawn() -> set[str]:
    """The operators that fuzzing draws."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "scripts" / "fuzz").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def doubted() -> set[str]:
    """The operators of models that a seeded fault was put into."""
    return {node.op_type for rewrite in rewrites() if rewrite.wrong for node in rewrite.before.graph.node}


@pytest.mark.parametrize("known", [described, drawn, doubted])
def test_every_record_is_known_elsewhere(known: object) -> None:
    assert callable(known)
    assert set(HANDLERS) - known() == set()


def test_what_is_described_has_a_record() -> None:
    assert {name for name in described() if name in NAMES | OF_ONNXRUNTIME} == set(HANDLERS)


def test_the_table_is_what_the_command_line_explains() -> None:
    cells = [tuple(cell.strip() for cell in row.split("|")[1:4]) for row in table_rows()]
    assert cells == [(row.title, row.up, row.down) for row in ROWS]
    assert {name for row in ROWS for name in row.operators} == set(HANDLERS)
