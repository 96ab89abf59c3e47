"""The documentation does what it says: recipes run, links lead somewhere, the reference is built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import documents
from tests.conftest import ROOT, sample
from tests.documents import Block, Part
from tests.machine import unmeasured

windows = pytest.mark.skipif(sys.platform == "win32", reason="bash commands")


PARTS = [
    pytest.param(
        part,
        id=f"{part.document.name}: {part.heading} {part.wants}".strip(),
        marks=[] if part.document.name == "README.md" else [pytest.mark.large],
    )
    for part in documents.parts()
]


@windows
@pytest.mark.parametrize("part", PARTS)
def test_what_is_written_works(part: Part, tmp_path: Path) -> None:
    for package in part.needs:
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    part.prepare(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in part.blocks:
        documents.run(block, tmp_path, {**unmeasured(), "PATH": path, "PYTHONPATH": str(ROOT)})


def test_recipes_are_many_and_of_every_kind() -> None:
    languages = [block.language for part in documents.parts() for block in part.blocks]
    assert {"console", "python", "yaml", "dockerfile"} <= set(languages)
    assert all(
        block.language not in ("yaml", "dockerfile") or "bnfold" in block.body
        for part in documents.parts()
        for block in part.blocks
    )


@pytest.mark.parametrize("document", documents.documents(), ids=lambda path: path.name)
def test_every_block_is_run_or_says_why_not(document: Path) -> None:
    """docs/reasons.md is run by tests/report/advice; what is only indented, scripts/, by tests/test_scripts.py."""
    if document.name != "reasons.md":
        assert not documents.unmarked(document)
    text = document.read_text(encoding="utf-8")
    unfenced = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for command in re.findall(r"\n\n {4}(.*(?:\n {4}.*)*)", unfenced):
        is_for_openvino = document.name == "openvino.md" and command.startswith("bnfold ")
        assert is_for_openvino or re.match(r"pip install|python -m venv build/|\.venv/bin/|scripts/", command), command
        assert all((ROOT / script).exists() for script in re.findall(r"scripts/\w+(?:\.py)?", command)), command
    for script in re.findall(r"(?:^ {4}|`)(scripts/\w+) ", text, flags=re.MULTILINE):
        first = (ROOT / script).read_text(encoding="utf-8").splitlines()[0]
        assert first == "#!/usr/bin/env bash", f"{script}: run by which Python?"


def test_what_a_block_without_a_mark_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    blocks = [f"{mark}\n```console\n$ {index}\n```\n" for index, mark in enumerate(("<!-- run -->", "text", ""))]
    page.write_text("# Page\n" + "\n".join(blocks), encoding="utf-8")
    assert documents.unmarked(page) == ["$ 1", "$ 2"]


def test_what_other_tools_run() -> None:
    found = documents.for_other_tools()
    assert [command.split()[0] for command in found] == ["pip", "bnfold", "bnfold"]


@windows
@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (Block("console", "$ false\n"), "exit code 1"),
        (Block("console", "$ echo hello\nhallo\n"), "'hallo' is not in"),
        (Block("console", "$ printf 'b\\na\\n'\na\nb\n"), "'b' is not in"),
        (Block("console", "$ false | cat\n"), "exit code 1"),
        (Block("python", "import nowhere\n"), "exit code 1"),
        (Block("python", "print(1)\n", "2\n"), "'2' is not in"),
        (Block("yaml", "- run: bnfold nowhere.onnx out.onnx\n"), "exit code 1"),
        (Block("dockerfile", "RUN bnfold nowhere.onnx out.onnx\n"), "exit code 1"),
        (Block("dockerfile", 'ENTRYPOINT ["bnfold"]\n'), "exit code 1"),
    ],
)
def test_a_recipe_that_fails_is_noticed(block: Block, complaint: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with pytest.raises(AssertionError, match=complaint):
        documents.run(block, tmp_path, {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)})


def test_what_may_differ_and_what_may_not() -> None:
    documents.compare(["a … z, 0.25 s, 3.2e-08"], "a b z, 1.50 s, 4.1e-09")
    with pytest.raises(AssertionError):
        documents.compare(["9 → 0"], "9 → 1")


@pytest.mark.parametrize("document", documents.documents(), ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        page = (document.parent / path).resolve() if path else document
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page), target


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", documents.documents(), ids=lambda path: path.name)
def test_extras_and_options_that_are_named_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"bnfold\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras


def completions(words: str, shell: str) -> list[str]:
    count = len(words.split(" ")) - 1
    environment = {**os.environ, "_BNFOLD_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    if shell == "fish":
        environment["COMP_CWORD"] = words.rsplit(" ", maxsplit=1)[-1]
    command = [str(Path(sys.executable).with_name("bnfold"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@windows
@pytest.mark.measures_children
@pytest.mark.parametrize("shell", sample(["bash", "zsh", "fish"], every=3))
def test_the_shell_completes_commands_options_values_and_files(shell: str) -> None:
    assert any("optimize" in word for word in completions("bnfold opt", shell))
    assert any("--decompose-form" in word for word in completions("bnfold optimize --deco", shell))
    assert any("depthwise_conv" in word for word in completions("bnfold optimize --decompose-form de", shell))
    assert any("onnxslim" in word for word in completions("bnfold optimize --simplify onnxruntime,onnxs", shell))
    assert any("latest" in word for word in completions("bnfold upgrade --opset la", shell))
    assert any("ConvTranspose" in word for word in completions("bnfold fold --except ConvT", shell))
    assert any("Relu,Sigmoid" in word for word in completions("bnfold inspect --assert-none Relu,Sigm", shell))
    for line in ("bnfold optimize mod", "bnfold optimize a.onnx mod", "bnfold mod"):
        assert any("file" in word for word in completions(line, shell)), line
