"""Folders for `bnfold verify` and `bnfold run`: pairs by name, what has no partner, what is kept."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from bnfold.batch.pairs import pair_up
from bnfold.cli.commands import main
from bnfold.errors import BadInput, WrongUsage
from tests.conftest import MODELS, ROOT


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder ``old`` of two models, one of them in a folder below, and a copy of it, ``new``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old" / "deep").mkdir(parents=True)
    shutil.copy(MODELS / "bn9.onnx", "old/a.onnx")
    shutil.copy(MODELS / "bn14.onnx", "old/deep/b.onnx")
    shutil.copytree("old", "new")
    return tmp_path


def spoil(path: str) -> None:
    proto = onnx.load(path)
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    name = proto.graph.initializer[0].name
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight * np.float32(1.5), name))
    onnx.save(proto, path)


def names(before: str, after: str) -> tuple[list[tuple[str, str]], list[str]]:
    paired = pair_up(before, after)
    pairs = [(str(pair.source), str(pair.output)) for pair in paired.pairs]
    return pairs, [result.message for result in paired.alone]


def test_models_are_paired_by_their_paths() -> None:
    both = [("old/a.onnx", "new/a.onnx"), ("old/deep/b.onnx", "new/deep/b.onnx")]
    assert names("old", "new") == names("old/", "new/") == (both, [])
    assert names("old/**/b.onnx", "new") == (both[1:], [])
    assert names("old/a.onnx", "new") == (both[:1], []), "the others were not asked about"
    assert names("old", "old") == ([(old, old) for old, _ in both], [])


def test_what_has_no_partner_is_named_on_both_sides() -> None:
    Path("new/a.onnx").unlink()
    shutil.copy("old/a.onnx", "new/c.onnx")
    pairs, alone = names("old", "new")
    assert [old for old, _ in pairs] == ["old/deep/b.onnx"]
    assert alone == ["has no partner: there is no new/a.onnx", "has no partner: there is no old/c.onnx"]


@pytest.mark.parametrize(("before", "after"), [("old", "old/results"), ("old/results", "old")])
def test_a_folder_in_the_other_one_is_no_part_of_it(before: str, after: str) -> None:
    shutil.copytree("new", "old/results")
    pairs, alone = names(before, after)
    assert ({Path(old).name for old, _ in pairs}, alone) == ({"a.onnx", "b.onnx"}, [])
    assert not any(
        Path(old).is_relative_to("old/results") == Path(new).is_relative_to("old/results") for old, new in pairs
    )


def test_a_folder_needs_another_one_with_models() -> None:
    with pytest.raises(WrongUsage, match=r"new/a\.onnx: is a file"):
        pair_up("old", "new/a.onnx")
    for missing in ("nowhere", "empty"):
        Path("empty").mkdir(exist_ok=True)
        with pytest.raises(BadInput, match=missing):
            pair_up("old", missing)
    assert run("verify", "old", "new/a.onnx").exit_code == 2
    assert run("verify", "old", "nowhere").exit_code == 1


def test_equal_folders_are_verified() -> None:
    result = run("verify", "old", "new", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("2 verified; ")
    assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["verified"] * 2


def test_a_pair_that_differs_is_named_and_decides() -> None:
    spoil("new/deep/b.onnx")
    result = run("verify", "old", "new", "--jobs", 1)
    assert result.exit_code == 1
    assert result.stderr.startswith("1 failed, 1 verified; ")
    first = result.stdout.splitlines()[1]
    assert first.split()[:2] == ["deep/b.onnx", "failed"]
    assert "differs" in first


@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize("more", [(), ("--allow-unverified",)])
def test_a_model_without_partner_is_no_success(side: str, more: tuple[str, ...]) -> None:
    Path(side, "a.onnx").unlink()
    result = run("verify", "old", "new", "--jobs", 1, *more)
    assert result.exit_code == 1
    assert "has no partner: there is no" in result.stdout
    assert f"{side}/a.onnx" in result.stdout


def test_what_cannot_be_read_has_failed_once() -> None:
    Path("new/a.onnx").unlink()
    Path("new/a.onnx").symlink_to("nowhere")
    result = run("verify", "old", "new", "--jobs", 1)
    assert result.exit_code == 1
    assert result.stderr.startswith("1 failed, 1 verified; ")
    Path("old/a.onnx").write_text("no model", encoding="utf-8")
    assert run("verify", "old", "old", "--jobs", 1).exit_code == 1


def test_an_unverified_pair_is_3_unless_that_is_allowed() -> None:
    spoil("new/a.onnx")
    unknown = ("verify", "old/a.onnx", "new/", "--verify", "local", "--runtime", "none", "--verify-seconds", 1)
    proto = onnx.load("old/a.onnx")
    proto.graph.node[0].domain = "own"
    proto.opset_import.append(onnx.helper.make_opsetid("own", 1))
    onnx.save(proto, "old/a.onnx")
    proto.graph.node[0].op_type = "Other"
    onnx.save(proto, "new/a.onnx")
    result = run(*unknown)
    assert result.exit_code == 3, result.output
    assert result.stderr.startswith("1 unverified; ")
    assert run(*unknown, "--allow-unverified").exit_code == 0


def test_json_and_a_report_have_the_verdicts() -> None:
    result = run("verify", "old", "new", "--json", "--report", "pairs.json", "--report", "pairs.html", "--jobs", 1)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document == json.loads(Path("pairs.json").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "bnfold" / "report" / "report.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).evolve(schema=schema["$defs"]["batch"]).validate(document)
    assert [row["verify"]["status"] for row in document["models"]] == ["verified"] * 2
    assert all(row["seconds"] > 0 and row["bytes"]["before"] == row["bytes"]["after"] for row in document["models"])
    assert [row["counts"]["nodes"] for row in document["models"]] == [{"before": 3, "after": 3}] * 2
    assert "a.onnx" in Path("pairs.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", [("verify", "old", "new", "--explain"), ("run", "old", "out", "--save", "x")])
def test_a_question_about_one_value_is_for_one_model(line: tuple[str, ...]) -> None:
    command = ("--", "cp", "{input}", "{output}") if line[0] == "run" else ()
    result = run(*line, *command)
    assert (result.exit_code, "they are for one model" in result.stderr) == (2, True)


def test_excluded_pairs_are_counted() -> None:
    result = run("verify", "old", "new", "--exclude", "deep", "--jobs", 1)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, "1 model excluded by --exclude or pyproject.toml")
    named = run("verify", "old/a.onnx", "new", "--exclude", "a.onnx", "--jobs", 1)
    assert (named.exit_code, named.stderr.startswith("1 verified; ")) == (0, True), "it was named"
    nothing = run("verify", "old", "new", "--exclude", "*.onnx", "--jobs", 1)
    assert (nothing.exit_code, "all 2 models are excluded" in nothing.stderr) == (0, True)


COPY = ("--", sys.executable, "-c", "import shutil, sys; shutil.copy(*sys.argv[1:])", "{input}", "{output}")
SPOIL = """
import onnx, sys
proto = onnx.load(sys.argv[1])
if proto.opset_import[0].version == 14:
    proto.graph.node[0].op_type = "Abs"
    del proto.graph.node[0].input[1:], proto.graph.node[0].attribute[:]
onnx.save(proto, sys.argv[2])
"""


def test_a_command_runs_on_every_model_of_a_folder() -> None:
    result = run("run", "old", "out", "--jobs", 1, *COPY)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("2 verified; ")
    for name in ("a.onnx", "deep/b.onnx"):
        assert onnx.load(f"out/{name}") == onnx.load(f"old/{name}")
    assert run("run", "old/**/b.onnx", "more/", "--jobs", 1, *COPY).exit_code == 0
    assert [path.name for path in Path("more").rglob("*.onnx")] == ["b.onnx"]


def test_what_a_command_breaks_is_not_written() -> None:
    result = run("run", "old", "out", "--jobs", 1, "--", sys.executable, "-c", SPOIL, "{input}", "{output}")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].split()[:2] == ["deep/b.onnx", "failed"]
    assert [path.name for path in Path("out").rglob("*.onnx")] == ["a.onnx"]


def test_a_command_may_overwrite_a_folder_that_is_named_twice() -> None:
    before = Path("old/a.onnx").read_bytes()
    refused = run("run", "old", "old", "--jobs", 1, *COPY)
    assert (refused.exit_code, Path("old/a.onnx").read_bytes()) == (2, before)
    assert run("run", "old", "old", "--in-place", "--jobs", 1, *COPY).exit_code == 0
    assert not [path for path in Path("old").rglob("*") if path.name.endswith(".tmp")]


def test_a_command_that_is_not_there_is_one_error() -> None:
    result = run("run", "old", "out", "--", "no-such-program", "{input}", "{output}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no program no-such-program" in result.stderr
    assert not Path("out").exists()
