"""What is declared about dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

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
    """An extra is needed by one way of using bnfold; some peers are steps of `--simplify`, others only of scripts."""
    brought_along = {"google": "onnx", "dask": "distributed"}
    wanted = {brought_along.get(name, name) for name in imported()}
    extras = declared("onnxruntime", "report", "openvino", "torch", "dask", "peers")
    assert declared("run") == wanted - extras
    assert extras - {"onnxconverter-common", "onnxoptimizer", "onnxsim"} <= wanted


_TOOL = r"\b(?:pip3?|pipx|uv|conda|mamba|micromamba|pixi|poetry|pdm)\b"
_ON_ONE_LINE = r"(?:[^\n`;&|<]|\\\n)*?"
INSTALLS_THE_NAME = re.compile(
    rf"(?:{_TOOL}{_ON_ONE_LINE}\s(?:install|add|run)\b|\buvx\b|\badditional_dependencies:){_ON_ONE_LINE}"
    r"(?<![\w./@+-])bnfold(?:\[[^\]]*\])?(?![\w./[-]| @ )"
)
"""Commands that install a package by its name; its name and an address (`bnfold[report] @ git+…`) are no such."""


def test_nothing_says_to_install_the_bare_name() -> None:
    """It is not on PyPI: whoever takes the name there would be run."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = tracked.stdout.split("\0") if tracked.returncode == 0 else []
    paths = [ROOT / name for name in names if name and name != "tests/test_packaging.py"]
    if not paths:
        pytest.skip("not a checkout")
    assert len(paths) > 500
    wrong = {}
    for path in paths:
        if path.suffix in (".onnx", ".png", ".bin", ".npz", ".gz") or not path.is_file():
            continue
        if found := INSTALLS_THE_NAME.search(path.read_text(encoding="utf-8", errors="replace")):
            wrong[str(path.relative_to(ROOT))] = found[0]
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install bnfold",
        "pip install 'bnfold[report]'",
        "pip install bnfold[report]",
        "python -m pip install --quiet -U 'bnfold[dask]>=0.1'",
        "pip install \\\n    bnfold",
        "- run: pip3 install onnx bnfold==0.1.0",
        "uv pip install bnfold",
        "uv add bnfold",
        "uvx bnfold model.onnx",
        "uvx --from bnfold[report] bnfold",
        "pipx run bnfold",
        "uv tool install bnfold",
        "conda install -c conda-forge bnfold",
        "additional_dependencies: [bnfold]",
        "needs jinja2: pip install 'bnfold[{extra}]'",
    ],
)
def test_the_check_of_installing_sees_every_form(text: str) -> None:
    assert INSTALLS_THE_NAME.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[report]'",
        "pip install 'bnfold[report] @ git+URL'",
        "pip install 'bnfold @ git+https://example.org/bnfold'",
        "pip install git+https://example.org/bnfold",
        "pip install . && bnfold model.onnx",
        "`pip install .` and bnfold runs",
        "pip install /src/bnfold",
        'pip install "$dist/bnfold-0.1.0-py3-none-any.whl"',
        "pip install bnfold-tools",
    ],
)
def test_the_check_of_installing_leaves_the_rest_alone(text: str) -> None:
    assert not INSTALLS_THE_NAME.search(text)


def recipe() -> dict[str, Any]:
    text = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    context = yaml.safe_load(text)["context"]
    filled = re.sub(r"\$\{\{ (\w+) \}\}", lambda name: context.get(name[1], "…"), text)
    document: dict[str, Any] = yaml.safe_load(filled)
    return document


def test_the_conda_recipe_says_what_pyproject_says() -> None:
    project, document = PROJECT["project"], recipe()
    assert document["package"] == {"name": project["name"], "version": project["version"]}
    assert document["about"]["summary"] == project["description"]
    assert document["about"]["license"] == project["license"]
    assert document["about"]["repository"] == project["urls"]["Source"]
    assert document["build"]["python"]["entry_points"] == [f"bnfold = {project['scripts']['bnfold']}"]
    wanted = {"python" + project["requires-python"], *GROUPS["run"]}
    assert spelled(document["requirements"]["run"]) == spelled(wanted)
    assert spelled(GROUPS["build"]) <= spelled(document["requirements"]["host"])


def spelled(requirements: Any) -> set[str]:
    return {str(requirement).replace(" ", "").replace("_", "-") for requirement in requirements}


def test_the_conda_recipe_is_one_to_rattler_build() -> None:
    stage0 = pytest.importorskip("rattler_build.stage0", reason="py-rattler-build is not installed")
    stage0.Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml")


def test_every_address_is_in_one_repository() -> None:
    """`scripts/release` asks for its owner."""
    home = PROJECT["project"]["urls"]["Source"]
    assert all(url.startswith(home) for url in PROJECT["project"]["urls"].values())
    texts = [ROOT / "pyproject.toml", ROOT / "recipe" / "recipe.yaml", *(ROOT / "docs").glob("*.md")]
    text = "".join(path.read_text(encoding="utf-8") for path in texts)
    assert set(re.findall(r"https://github\.com/[\w-]+/bnfold\b", text)) == {home}


def test_what_people_read_has_no_address_of_a_placeholder() -> None:
    names = (
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CITATION.cff",
        "action.yml",
        "bnfold/report/report.schema.json",
    )
    paths = [*(ROOT / name for name in names), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    paths += (ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()
    assert [path for path in paths if "OWNER" in path.read_text(encoding="utf-8")] == []


def test_the_badges_of_the_readme_say_what_is_so() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    python = PROJECT["project"]["requires-python"].removeprefix(">=")
    (onnx,) = (each.removeprefix("onnx>=") for each in PROJECT["project"]["dependencies"] if each.startswith("onnx>="))
    least = PROJECT["tool"]["coverage"]["report"]["fail_under"]
    assert f"badge/Python-{python}_or_newer-" in text
    assert f"badge/onnx-{onnx}_or_newer-" in text
    assert f"badge/coverage-{least}%25_or_more-" in text
    assert (ROOT / ".github" / "workflows" / "tests.yml").is_file()


def test_links_of_the_readme_are_absolute_on_the_package_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) > 20
    assert all(link.startswith(("https://", "#")) for link in links)


def test_the_container_is_nobody() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER 65534:65534" in lines
    assert 'ENTRYPOINT ["bnfold"]' in lines
