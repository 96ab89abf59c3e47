"""action.yml and the pre-commit hook: their steps run as GitHub and pre-commit run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import MODELS, ROOT

pytestmark = [pytest.mark.large, pytest.mark.measures_children]  # a script, which changes seldom


def step(folder: Path, **given: str) -> tuple[int, str, str]:
    """The exit code, the annotations and the job summary of the action's last step, run by bash."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = {name.upper().replace("-", "_"): value.get("default", "") for name, value in action["inputs"].items()}
    last = action["runs"]["steps"][-1]
    assert set(last["env"]) - {"CHECKOUT"} <= set(inputs)
    page = folder / "summary.md"
    named = {**inputs, "CHECKOUT": str(ROOT), "GITHUB_STEP_SUMMARY": str(page), **given}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", last["run"]],
        cwd=folder,
        env={**os.environ, **named, "PATH": path},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return ran.returncode, ran.stdout, page.read_text(encoding="utf-8") if page.exists() else ""


def test_a_good_model_is_optimized_and_the_summary_has_the_table(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    code, told, page = step(tmp_path, COMMAND="optimize", MODEL="model.onnx", OUTPUT="out.onnx")
    assert (code, told) == (0, "")
    assert (tmp_path / "out.onnx").exists()
    assert (tmp_path / "bnfold-report.html").exists()
    assert "| BatchNormalization | 1 | 0 |" in page
    assert "verified: " in page


def test_a_check_names_the_file_and_the_node(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    code, told, page = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="")
    assert code == 4
    sentence = "1 BatchNormalization remains, and --assert-none forbids it"
    below = "%0A  node2%0A  `bnfold optimize model.onnx OUT` leaves none"
    assert told == f"::error file=model.onnx,title=bnfold::{sentence}{below}\n"
    assert f"**Failed:** {sentence}\n* node2\n" in page


def test_a_check_without_a_model_looks_at_what_git_tracks(tmp_path: Path) -> None:
    checkout = with_others_models(tmp_path)
    code, told, page = step(checkout, COMMAND="check", REPORT="")
    assert (code, told) == (0, ""), told
    assert "### bnfold: good.onnx" in page
    for name in ("bn9.onnx", "dense.onnx"):
        shutil.copy(MODELS / name, checkout / "kept" / name)
    subprocess.run(["git", "add", "."], cwd=checkout, check=True)
    code, told, _ = step(checkout, COMMAND="check", REPORT="all.html")
    assert code == 4
    assert told.count("::error") == 2
    assert "::error file=kept/bn9.onnx,title=bnfold::1 BatchNormalization remains, and --assert-none forbids it" in told
    assert (checkout / "all.html").exists()
    code, told, page = step(checkout, COMMAND="check", MODEL="kept", REPORT="", LEAST_OPSET="12")
    assert code == 4
    assert "good.onnx" not in told
    code, told, page = step(checkout, COMMAND="check", REPORT="", LEAST_OPSET="2")
    assert "::error file=good.onnx,title=bnfold::opset 1, and 2 was asked for" in told


def test_a_check_where_nothing_is_tracked_says_what_to_name(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    code, told, _ = step(tmp_path, COMMAND="check", REPORT="")
    assert code == 2
    assert "git tracks no .onnx file in this checkout; name one: model: FILE" in told
    code, told, _ = step(tmp_path, COMMAND="optimize", REPORT="")
    assert code == 2
    assert "optimize has no model to work on; name it: model: FILE" in told


def test_a_check_wants_an_opset(tmp_path: Path) -> None:
    shutil.copy(MODELS / "in1.onnx", tmp_path / "model.onnx")
    code, told, _ = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="", LEAST_OPSET="13")
    assert code == 1
    assert "opset 1, and 13 was asked for" in told


@pytest.mark.parametrize("least", ["seventeen", "opset 17", "17.0", "-1"])
def test_a_least_opset_that_is_no_number_lets_nothing_pass(least: str, tmp_path: Path) -> None:
    shutil.copy(MODELS / "in1.onnx", tmp_path / "model.onnx")
    code, told, _ = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="", LEAST_OPSET=least)
    assert code == 2
    assert f"least-opset is a number such as 17, not '{least}'" in told


def test_two_models_that_differ(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    shutil.copy(MODELS / "dense.onnx", tmp_path / "other.onnx")
    code, told, page = step(tmp_path, COMMAND="verify", MODEL="model.onnx", OUTPUT="other.onnx")
    assert code == 1
    assert "title=bnfold::FAILED: the two models have different" in told
    assert page.count("FAILED: the two models have different") == 1


def test_a_broken_model_is_an_annotation(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    code, told, page = step(tmp_path, COMMAND="check", MODEL="model.onnx", REPORT="")
    assert code == 1
    assert "not an ONNX model" in told
    assert "not an ONNX model" in page


def test_the_hook_names_the_models_that_have_one(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["pass_filenames"]
    command = [sys.executable, "-P", "-m", *hook["entry"].split(), *hook["args"]]
    for name, model in (("in1.onnx", "in1"), ("other.onnx", "in1"), ("bn9.onnx", "bn9")):
        shutil.copy(MODELS / f"{model}.onnx", tmp_path / name)

    def run(*names: str) -> tuple[int, str]:
        ran = subprocess.run([*command, *names], cwd=tmp_path, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    assert run("in1.onnx") == (0, "")
    assert run("in1.onnx", "other.onnx") == (0, "")
    code, told = run("in1.onnx", "bn9.onnx", "other.onnx")
    assert code == 4
    assert told == "bn9.onnx: 1 BatchNormalization remains, and --assert-none forbids it: node2\n"


def with_others_models(folder: Path) -> Path:
    """A checkout with one good model, and another package's models in a .venv that git ignores."""
    checkout = folder / "checkout"
    others = checkout / ".venv" / "lib" / "site-packages" / "onnx" / "data"
    others.mkdir(parents=True)
    (checkout / "kept").mkdir()
    shutil.copy(MODELS / "in1.onnx", checkout / "good.onnx")
    for name in ("bn9.onnx", "dense.onnx"):
        shutil.copy(MODELS / name, others / name)
    (checkout / ".gitignore").write_text(".venv\n", encoding="utf-8")
    committed(checkout)
    return checkout


@pytest.mark.skipif("BNFOLD_PRE_COMMIT" not in os.environ, reason="$BNFOLD_PRE_COMMIT names no pre-commit")
def test_pre_commit_installs_and_runs_the_hook(tmp_path: Path) -> None:
    """Fetches what bnfold depends on; .ci/run sets the variable."""
    hooks = tmp_path / "bnfold"
    hooks.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, hooks)
    shutil.copytree(ROOT / "bnfold", hooks / "bnfold", ignore=shutil.ignore_patterns("__pycache__"))
    config = {"repos": [{"repo": str(hooks), "rev": committed(hooks), "hooks": [{"id": "bnfold"}]}]}
    models = with_others_models(tmp_path)
    (models / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def run() -> tuple[int, str]:
        subprocess.run(["git", "add", "."], cwd=models, check=True)
        ran = subprocess.run(
            [os.environ["BNFOLD_PRE_COMMIT"], "run", "--all-files", "--color=never"],
            cwd=models, env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}, capture_output=True, text=True,
            encoding="utf-8", check=False,
        )  # fmt: skip
        return ran.returncode, ran.stdout + ran.stderr

    code, told = run()
    assert (code, told.splitlines()[-1].endswith("Passed")) == (0, True), told
    shutil.copy(MODELS / "bn9.onnx", models / "left.onnx")
    code, told = run()
    assert code == 1, told
    assert "exit code: 4" in told
    assert "left.onnx" in told
    (models / "left.onnx").write_bytes(b"no model")
    code, told = run()
    assert code == 1, told
    assert "left.onnx: not an ONNX model" in told
    assert "exit code: 1" in told


def committed(folder: Path) -> str:
    """The commit that holds all of the folder."""
    git = ["git", "-C", str(folder), "-c", "user.name=bnfold", "-c", "user.email=bnfold@localhost"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *command], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_several_models_and_folders(tmp_path: Path) -> None:
    checkout = with_others_models(tmp_path)
    shutil.copy(MODELS / "in1.onnx", checkout / "kept")
    subprocess.run(["git", "add", "."], cwd=checkout, check=True)
    code, told, page = step(checkout, COMMAND="check", MODEL="good.onnx\nkept\n", REPORT="")
    assert (code, told) == (0, ""), told
    assert page.count("### bnfold: ") >= 2
    code, told, page = step(checkout, COMMAND="optimize", MODEL="good.onnx\nkept", OUTPUT="out", REPORT="")
    assert (code, told) == (0, ""), told
    assert len([*(checkout / "out").rglob("*.onnx")]) >= 2
    code, told, _ = step(checkout, COMMAND="verify", MODEL="good.onnx\nkept", OUTPUT="out", REPORT="")
    assert (code, "verify compares one model" in told) == (2, True)


def test_the_repository_says_what_is_checked(tmp_path: Path) -> None:
    for name in ("bn9.onnx", "in1.onnx"):
        shutil.copy(MODELS / name, tmp_path)
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.bnfold]\nassert-none = ["BatchNormalization"]\nopset = 13\n', encoding="utf-8")
    both = "bn9.onnx\nin1.onnx"
    code, told, _ = step(tmp_path, COMMAND="check", MODEL=both, REPORT="")
    assert code == 4
    assert "file=bn9.onnx,title=bnfold::1 BatchNormalization remains" in told
    assert "file=in1.onnx,title=bnfold::opset 1, and 13 was asked for" in told
    settings.write_text('[tool.bnfold]\nexclude = ["*.onnx"]\n', encoding="utf-8")
    assert step(tmp_path, COMMAND="check", MODEL=both, REPORT="")[:2] == (0, "")
