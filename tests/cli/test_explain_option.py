"""`--explain` and `--save` on the command line: of `verify`, `optimize` and `run`, in text, JSON and pages."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from bnfold.cli.commands import main
from tests.verification.graphs import model, single
from tests.verification.test_explaining import folded

COPY = "import shutil, sys; shutil.copy({!r}, sys.argv[2])"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A model, a right fold of it (right.onnx) and a wrong one (wrong.onnx)."""
    before, right = folded()
    for name, proto in (("model", before), ("right", right), ("wrong", folded(1.01)[1])):
        onnx.save(proto, tmp_path / f"{name}.onnx")
    with contextlib.chdir(tmp_path):
        yield tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def tool(name: str) -> list[str]:
    return ["--", sys.executable, "-c", COPY.format(name), "{input}", "{output}"]


@pytest.mark.usefixtures("folder")
def test_without_a_value_all_that_differs_is_told() -> None:
    for words in (["--explain"], ["--explain="], ["--explain", "--verify", "local"]):
        result = run("verify", "model.onnx", "wrong.onnx", *words)
        assert result.exit_code == 1
        assert "the verdict is failed [differs]: " in result.stdout
        assert "n: differs [differs]: " in result.stdout


@pytest.mark.usefixtures("folder")
def test_with_a_value_only_that_is_told() -> None:
    result = run("verify", "model.onnx", "right.onnx", "--explain", "r")
    assert result.exit_code == 0
    assert result.stdout.endswith(
        "r: the same operator computes it in both models, Relu, from 'n'\n"
        "  all that is in front of it is right; 1 of these values had to be computed in both models\n"
    )
    assert "the verdict is" not in result.stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["verify model.onnx right.onnx", "optimize model.onnx out.onnx"])
def test_a_name_that_there_is_none_of_is_wrong_usage(command: str, folder: Path) -> None:
    there = {*folder.iterdir()}
    result = run(*command.split(), "--explain", "nn")
    assert result.exit_code == 2
    assert result.stderr == "bnfold: model.onnx: --explain: neither model has a value 'nn'; did you mean 'n'?\n"
    assert {*folder.iterdir()} == there


@pytest.mark.usefixtures("folder")
def test_so_it_is_of_run(folder: Path) -> None:
    result = run("run", "model.onnx", "out.onnx", "--explain", "nn", *tool("right.onnx"))
    assert (result.exit_code, "did you mean 'n'?" in result.stderr) == (2, True)
    assert not (folder / "out.onnx").exists()


@pytest.mark.usefixtures("folder")
def test_a_model_in_the_place_of_a_value_is_noticed() -> None:
    result = run("verify", "--explain", "model.onnx", "right.onnx")
    assert result.exit_code == 2
    assert "write --explain behind the models" in result.stderr


@pytest.mark.usefixtures("folder")
def test_optimize_explains_its_result() -> None:
    result = run("optimize", "model.onnx", "out.onnx", "--explain", "c", "--quiet")
    assert result.stdout.startswith("c: a value of the original inside a part that was compared")
    assert "  where: fold n\n" in result.stdout


@pytest.mark.usefixtures("folder")
def test_standard_output_is_left_to_programs() -> None:
    result = run("optimize", "model.onnx", "-", "--explain", "n")
    assert b"n: tested" not in result.stdout_bytes
    assert "n: tested [tested]" in result.stderr
    result = run("optimize", "model.onnx", "out.onnx", "--explain", "n", "--json")
    assert json.loads(result.stdout)["verify"]["explanation"][0]["value"] == "n"


@pytest.mark.usefixtures("folder")
def test_run_explains_what_it_keeps_and_what_it_does_not() -> None:
    kept = run("run", "model.onnx", "out.onnx", "--explain", "n", *tool("right.onnx"))
    assert (kept.exit_code, "n: tested [tested]" in kept.stdout) == (0, True)
    left = run("run", "model.onnx", "out2.onnx", "--explain", "--save", "part", *tool("wrong.onnx"))
    assert (left.exit_code, "n: differs [differs]" in left.stdout) == (1, True)
    assert "saved the part that makes 'n' in part: " in left.stdout
    document = json.loads(run("run", "model.onnx", "o.onnx", "--explain", "--json", "-q", *tool("right.onnx")).stdout)
    assert document["explanation"][0]["how"] == "tested"
    assert "explanation" not in json.loads(run("run", "model.onnx", "o.onnx", "--json", *tool("right.onnx")).stdout)


@pytest.mark.usefixtures("folder")
def test_a_copy_needs_no_comparison() -> None:
    result = run("run", "model.onnx", "out.onnx", "--explain", "q", "--save", "part", *tool("model.onnx"))
    assert "nothing but names" in result.stdout
    assert "nothing is saved" in result.stdout


@pytest.mark.usefixtures("folder")
def test_what_is_saved_gives_the_same_finding() -> None:
    first = run("verify", "model.onnx", "wrong.onnx", "--save", "part")
    assert (first.exit_code, first.stdout.splitlines()[-1].startswith("saved the part that makes 'n'")) == (1, True)
    again = run("verify", "part/before.onnx", "part/after.onnx", "--data", "part/inputs.npz")
    assert (again.exit_code, "FAILED: output 'n' differs by " in again.stderr) == (1, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["optimize", "model.onnx", "out/"], "for one model; name one file"),
        (["optimize", "model.onnx", "right.onnx", "out"], "for one model; name one file"),
        (["optimize", "model.onnx", "out.onnx", "--dry-run"], "--dry-run compares nothing"),
        (["optimize", "model.onnx", "out.onnx", "--no-verify"], "nothing is compared"),
    ],
)
def test_where_there_is_nothing_to_explain(words: list[str], problem: str) -> None:
    result = run(*words, "--explain")
    assert (result.exit_code, problem in result.stderr) == (2, True)


@pytest.mark.usefixtures("folder")
def test_the_reports_have_it() -> None:
    run("verify", "model.onnx", "wrong.onnx", "--explain", "--report", "v.json", "--report", "v.html")
    run("optimize", "model.onnx", "out.onnx", "--explain", "n", "--report", "o.json", "--report", "o.html")
    schema = json.loads(files("bnfold.report").joinpath("report.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(Path("o.json").read_text(encoding="utf-8")))
    verdict = json.loads(Path("v.json").read_text(encoding="utf-8"))["verify"]
    Draft202012Validator({**schema["$defs"]["verdict"], "$defs": schema["$defs"]}).validate(verdict)
    for page, said in (("v.html", "n: differs [differs]"), ("o.html", "n: tested [tested]")):
        assert said in Path(page).read_text(encoding="utf-8")


def test_names_from_files_are_escaped(folder: Path) -> None:
    for name, number in (("one", 2.0), ("other", 3.0)):
        proto = model("(float[N,3] x) => (float[N,3] y) { a = Mul (x, k)  y = Relu (a) }", {"k": single(number)})
        proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = "\x1b[31m<b>red\n"
        onnx.save(proto, folder / f"{name}.onnx")
    result = run("verify", "one.onnx", "other.onnx", "--explain", "--report", "r.html")
    assert r"\x1b[31m<b>red\n: differs" in result.stdout
    assert "\x1b" not in result.stdout
    page = Path("r.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;red" in page
    assert "<b>red" not in page
    assert "\x1b" not in page


@pytest.mark.usefixtures("folder")
def test_what_is_saved_is_not_advised_again() -> None:
    saved = run("verify", "model.onnx", "wrong.onnx", "--explain", "--save", "part")
    assert saved.stderr.splitlines()[-1] == "next: part has two small models and inputs on which they differ"
    other = run("verify", "model.onnx", "wrong.onnx", "--explain", "x", "--save", "none")
    assert not Path("none").exists()
    assert "--save DIR writes two small models" in other.stderr.splitlines()[-1]
