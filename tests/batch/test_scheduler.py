"""Folders of models."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.batch.scheduler import plan_tasks
from bnfold.batch.scheduler import process_all as run_batch
from bnfold.batch.worker import Settings, process_one
from bnfold.cli.commands import main
from bnfold.errors import BadInput
from bnfold.settings import Options, OutputOptions, VerifyOptions
from tests.conftest import MODELS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "in"
    (source / "deeper").mkdir(parents=True)
    shutil.copy(MODELS / "bn9.onnx", source / "one.onnx")
    shutil.copy(MODELS / "mlp.onnx", source / "deeper" / "two.onnx")
    (source / "broken.onnx").write_bytes(b"no model")
    (source / "notes.txt").write_text("not a model either")
    return source


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_folder_is_processed_whole_and_a_broken_model_does_not_stop_the_rest(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("optimize", folder, out, "--jobs", 2)
    assert result.exit_code == 1
    assert "1 failed, 2 verified" in result.stderr
    written = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.onnx"))
    assert written == ["deeper/two.onnx", "one.onnx"]
    assert all(
        node.op_type != "BatchNormalization" for path in out.rglob("*.onnx") for node in onnx.load(path).graph.node
    )


def test_finished_models_are_skipped_until_something_changes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (folder / "broken.onnx").unlink()
    assert run("fold", folder, out, "--no-verify").exit_code == 0
    first = (out / "one.onnx").stat().st_mtime_ns
    again = run("fold", folder, out, "--no-verify")
    assert "2 skipped" in again.stderr
    assert (out / "one.onnx").stat().st_mtime_ns == first
    assert "2 unchecked" in run("fold", folder, out, "--no-verify", "--force").stderr
    assert "2 unchecked" in run("fold", folder, out, "--no-verify", "--except", "Conv").stderr
    shutil.copy(MODELS / "bn15.onnx", folder / "one.onnx")
    assert "1 unchecked, 1 skipped" in run("fold", folder, out, "--no-verify", "--except", "Conv").stderr


def test_a_table_says_why_and_what_can_be_done_also_of_what_is_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(MODELS / "dense.onnx", tmp_path / "in" / "dense.onnx")
    for status in ("unchecked", "skipped"):
        result = run("optimize", tmp_path / "in", tmp_path / "out", "--no-verify")
        row = result.stdout.splitlines()[1].split()
        assert row[1:8] == [status, "12", "→", "15", "8", "→", "3"]
        assert row[-2:] == ["3", "shared-value"]
        assert "  What to do about shared-value: " in result.stderr


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    class Interrupted(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(KeyboardInterrupt())
            return future

    tasks = plan_tasks([str(MODELS)], str(tmp_path))[0]
    settings = Settings(Options(), VerifyOptions(depth="none"), OutputOptions(tmp_path))
    results = run_batch(tasks, partial(process_one, settings=settings), Interrupted(), lambda *_: None)
    assert len(results) == len(tasks)
    assert {result.message for result in results} == {"interrupted: run the same command again to resume"}


def test_one_summary_report(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "all.json"
    run("optimize", folder, tmp_path / "out", "--no-verify", "--report", report)
    document = json.loads(report.read_text())
    assert document["counts"] == {"failed": 1, "unchecked": 2}
    assert [Path(model["input"]).name for model in document["models"]] == ["broken.onnx", "two.onnx", "one.onnx"]


def test_a_pattern_selects_and_keeps_folders(folder: Path, tmp_path: Path) -> None:
    tasks = plan_tasks([f"{folder}/**/t*.onnx"], str(tmp_path / "out"))[0]
    assert [str(task.output) for task in tasks] == [str(tmp_path / "out" / "deeper" / "two.onnx")]


def test_outputs_inside_the_input_folder_are_not_taken_for_inputs(folder: Path) -> None:
    out = folder / "optimised"
    run("fold", folder, out, "--no-verify")
    assert {Path(str(task.source)).parent for task in plan_tasks([str(folder)], str(out))[0]} == {
        folder,
        folder / "deeper",
    }


def test_a_folder_without_models(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no \.onnx files"):
        plan_tasks([str(tmp_path)], str(tmp_path / "out"))[0]


def test_an_output_that_is_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(BadInput, match="is a file"):
        plan_tasks([str(folder)], str(tmp_path / "out"))[0]


def test_threads_of_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    made = {}
    for name in ("bn9", "depthwise", "in_if", "bn14"):
        shutil.copy(MODELS / f"{name}.onnx", tmp_path)
    for count in (1, 4):
        tasks = plan_tasks([f"{tmp_path}/*.onnx"], str(tmp_path / str(count)))[0]
        with ThreadPoolExecutor(count) as pool:
            settings = Settings(Options(), VerifyOptions(depth="full"), OutputOptions(Path()))
            results = run_batch(tasks, partial(process_one, settings=settings), pool, lambda *_: None)
        assert {result.status for result in results} == {"verified"}
        made[count] = {Path(str(task.output)).name: Path(str(task.output)).read_bytes() for task in tasks}
    assert made[1] == made[4]


def test_json_has_standard_output_for_itself(folder: Path, tmp_path: Path) -> None:
    result = run("fold", folder, tmp_path / "out", "--no-verify", "--json")
    assert json.loads(result.stdout)["counts"] == {"failed": 1, "unchecked": 2}
    assert "broken.onnx: not an ONNX model" in result.stderr


def test_quiet_says_only_what_needs_attention(folder: Path, tmp_path: Path) -> None:
    result = run("fold", folder, tmp_path / "out", "--no-verify", "--quiet")
    assert "broken.onnx" in result.stderr
    assert "one.onnx" not in result.output
    (folder / "broken.onnx").unlink()
    assert run("fold", folder, tmp_path / "out", "--no-verify", "--quiet").output == ""


def test_assert_none_holds_for_every_model_and_every_run(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.onnx").unlink()
    shutil.copy(MODELS / "bn15_training.onnx", folder / "three.onnx")
    command = ("optimize", folder, tmp_path / "out", "--no-verify", "--assert-none", "BatchNormalization")
    for skipped in ("", ", 2 skipped"):
        result = run(*command)
        assert result.exit_code == 4
        assert "1 BatchNormalization remains, and --assert-none forbids it" in result.stdout
        assert f"unchecked{skipped}" in result.stderr
    assert run(*command, "--decompose", "all").exit_code == 0


def test_require_verified_remembers_what_was_verified(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.onnx").unlink()
    command = ("optimize", folder, tmp_path / "out", "--require-verified")
    assert run(*command).exit_code == 0
    again = run(*command)
    assert (again.exit_code, "2 skipped" in again.stderr) == (0, True)
    assert run("optimize", folder, tmp_path / "other", "--require-verified", "--no-verify").exit_code == 3
    assert run("optimize", folder, tmp_path / "other", "--require-verified", "--no-verify").exit_code == 3


def test_outputs_are_not_written_over_inputs(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.onnx")}
    result = run("fold", folder, folder)
    assert result.exit_code == 2
    assert "is the folder of the models" in result.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*.onnx")} == before
