"""Run the recipes of docs/recipes.md in which bnfold is one line in the pipeline of another tool, as they are written.

Each gets an environment of its own in build/recipes/, with bnfold of this checkout and the tool from PyPI: torch is
some gigabytes. Names choose recipes: torch, ultralytics, optimum, skl2onnx, tritonclient, yaml. The last one runs the
steps of the workflow that comments on pull requests, in a repository of two commits, with a stand-in for ``gh``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import yaml
from _environment import ROOT, require  # first, for its message to users of another Python

from tests import documents
from tests.conftest import MODELS

PAGE = ROOT / "docs" / "recipes.md"
PACKAGES = {
    "torch": ["torch"],
    "ultralytics": ["ultralytics", "torch"],
    "optimum": ["optimum-onnx", "transformers"],
    "skl2onnx": ["skl2onnx", "scikit-learn"],
    "tritonclient": ["tritonclient[grpc]"],
}
"""What pip installs for each recipe, by the package that the recipe needs."""

GH = """#!/usr/bin/env bash
# gh pr comment NUMBER --body-file FILE --edit-last --create-if-none
[ "$1 $2 $3 $4" = "pr comment 7 --body-file" ] && cp "$5" "$COMMENTED"
"""


def main() -> int:
    """Run the recipes that are named, or all of them; the exit code is 1 if one fails."""
    require("yaml", "pytest", install=".venv/bin/pip install -e .[test]")
    names = sys.argv[1:] or [*PACKAGES, "yaml"]
    if unknown := [name for name in names if name not in (*PACKAGES, "yaml")]:
        sys.exit(f"scripts/recipes.py: there is no recipe {unknown[0]!r}; there are {', '.join([*PACKAGES, 'yaml'])}")
    failed = []
    for name in names:
        try:
            run_workflow() if name == "yaml" else run_recipe(name)
        except (AssertionError, subprocess.CalledProcessError) as error:
            failed.append(name)
            print(f"{name}: FAILED\n{error}")
        else:
            print(f"{name}: as written")
    return bool(failed)


def run_recipe(name: str) -> None:
    """Run the blocks that need a package. Raises AssertionError if one fails, or prints something else."""
    found = [part for part in documents.read(PAGE) if part.needs == [name] and part.heading in headings()]
    assert found, f"docs/recipes.md has no recipe that needs {name}"
    python = environment(name)
    variables = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    for part in found:
        with tempfile.TemporaryDirectory(prefix="bnfold-recipe-") as folder:
            part.prepare(Path(folder))
            for block in part.blocks:
                documents.run(block, Path(folder), variables, python=str(python))


def headings() -> list[str]:
    """Return the headings of the recipes."""
    text = PAGE.read_text(encoding="utf-8").partition("## In somebody else's pipeline")[2]
    return re.findall(r"^### (.*)$", text, re.MULTILINE)


def environment(name: str) -> Path:
    """Return the Python of the recipe's environment, which is made if there is none."""
    folder = ROOT / "build" / "recipes" / name
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"{name}: installing {' '.join(PACKAGES[name])}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *PACKAGES[name], "-e", f"{ROOT}[onnxruntime]"], check=True)
        (folder / "complete").touch()
    return python


def run_workflow() -> None:
    """Run the steps of the workflow in a repository whose second commit folds a model."""
    blocks = re.findall(r"```yaml\n(on: pull_request\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1, "docs/recipes.md has no workflow"
    steps = yaml.safe_load(blocks[0])["jobs"]["diff"]["steps"]
    with tempfile.TemporaryDirectory(prefix="bnfold-recipe-") as name:
        folder = Path(name)
        checkout, comment = folder / "checkout", folder / "comment.md"
        (folder / "gh").write_text(GH, encoding="utf-8")
        (folder / "gh").chmod(0o755)
        variables = {
            **os.environ,
            "PATH": os.pathsep.join([name, str(Path(sys.executable).parent), os.environ["PATH"]]),
            "GITHUB_BASE_REF": "main",
            "PULL": "7",
            "COMMENTED": str(comment),
        }
        make_repository(checkout)
        for step in steps:
            if "run" in step and not step["run"].startswith("pip "):
                subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=checkout, env=variables, check=True)
        text = comment.read_text(encoding="utf-8")
        assert "only in A: BatchNormalization node2" in text, text
        print(text)


def make_repository(checkout: Path) -> None:
    """Make a repository of two commits whose base is called origin/main."""
    checkout.mkdir()
    git = ["git", "-C", str(checkout), "-c", "user.name=recipe", "-c", "user.email=recipe@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    shutil.copy(MODELS / "bn9.onnx", checkout / "model.onnx")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "a model"], check=True)
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    fold = [sys.executable, "-m", "bnfold", "fold", "model.onnx", "--in-place", "--quiet"]
    subprocess.run(fold, cwd=checkout, check=True)
    subprocess.run([*git, "commit", "--quiet", "-am", "folded"], check=True)


if __name__ == "__main__":
    sys.exit(main())
