"""What is declared about dependencies."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import pytest

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = {
    "build": PROJECT["build-system"]["requires"],
    "run": PROJECT["project"]["dependencies"],
    **PROJECT["project"]["optional-dependencies"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_dependency_has_a_lower_bound(group: str) -> None:
    """Which `scripts/test_versions` tries; an upper one would need a known breakage."""
    for requirement in GROUPS[group]:
        if not requirement.startswith("bnfold["):
            assert re.fullmatch(r"[A-Za-z0-9_-]+>=[0-9.]+(; .*)?", requirement), requirement


def imported() -> set[str]:
    """The packages of others that bnfold imports, anywhere."""
    found = set()
    for path in (ROOT / "bnfold").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module).split(".")[0])
    return found - {*sys.stdlib_module_names, "bnfold"}


def declared(*groups: str) -> set[str]:
    return {re.split("[>[]", requirement)[0] for group in groups for requirement in GROUPS[group]}


def test_a_dependency_is_what_is_imported_and_nothing_else() -> None:
    """An extra is needed by one way of using bnfold; torch's exporter wants onnxscript, which bnfold never sees."""
    brought_along = {"google": "onnx", "dask": "distributed"}
    wanted = {brought_along.get(name, name) for name in imported()}
    extras = declared("onnxruntime", "report", "openvino", "torch", "dask") - {"onnxscript"}
    assert declared("run") == wanted - extras
    assert extras <= wanted
