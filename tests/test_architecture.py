"""Which room may import which, and what must not be imported before it is needed (shown, not just promised)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "bnfold"

# The referee and the verifier must not share a line, and so a bug, with what they judge.
ALLOWED = {
    "ir": {"errors", "ir"},
    "reference": {"errors", "ir", "reference"},
    "verification": {"errors", "ir", "reference", "verification"},
    "errors": {"errors"},
}
MAX_LINES = 300


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """`ir` for bnfold/ir/load.py, `cli` for bnfold/cli.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def rooms_imported(tree: ast.AST) -> Iterator[str]:
    """The second part of every bnfold.* import, at any depth; "" for what is imported from the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "bnfold":
            names = [f"bnfold.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        yield from (name.split(".")[1] if "." in name else "" for name in names if name.split(".")[0] == "bnfold")


def test_imports_point_one_way() -> None:
    forbidden = {
        path.relative_to(ROOT): wrong
        for path in modules()
        if (allowed := ALLOWED.get(room(path))) is not None
        and (wrong := set(rooms_imported(ast.parse(path.read_text(encoding="utf-8")))) - allowed)
    }
    assert forbidden == {}


def test_files_stay_short() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_the_import_check_sees_every_form() -> None:
    source = (
        "import bnfold.folding.plan\nfrom bnfold import report\ndef f():\n    from bnfold.upgrading import versions\n"
    )
    assert set(rooms_imported(ast.parse(source))) == {"folding", "report", "upgrading"}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("bnfold.cli", {"numpy", "onnx", "onnxruntime", "onnx_ir", "onnxscript", "rich", "fsspec", "distributed"}),
        ("bnfold.many", {"fsspec", "distributed", "dask", "onnxruntime", "rich"}),
        ("bnfold", {"onnxruntime", "onnx_ir", "onnxscript", "rich", "fsspec", "distributed"}),
    ],
)
def test_heavy_imports_wait_until_they_are_needed(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*(name for name in sys.modules if '.' not in name))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert unwanted & set(run.stdout.split()) == set()
