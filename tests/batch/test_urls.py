"""Models behind URLs: what is fetched, what is sent, in which order, and what is left behind."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold import verification
from bnfold.batch import disk, filesystem, locations, scheduler
from bnfold.batch.locations import Remote
from bnfold.batch.worker import Settings, process_one
from bnfold.cli.commands import main
from bnfold.errors import BadInput, OutputError
from bnfold.settings import Options, OutputOptions, VerifyOptions
from tests.conftest import MODELS
from tests.servers import ftp

fsspec = pytest.importorskip("fsspec")
memory_filesystem = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """What the server has: three models, one of them with external data, one of them broken."""
    folder = tmp_path / "shelf"
    (folder / "in" / "deeper").mkdir(parents=True)
    shutil.copy(MODELS / "bn9.onnx", folder / "in" / "one.onnx")
    for name in ("external.onnx", "external.onnx.data"):
        shutil.copy(MODELS / name, folder / "in" / "deeper" / name)
    return folder


@pytest.fixture
def url(shelf: Path) -> Iterator[str]:
    with ftp(shelf) as address:
        yield address


@pytest.fixture
def memory() -> Iterator[Any]:
    """A store without a rename, in this process alone."""
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def settings(*, explained: bool = False, force: bool = False) -> Settings:
    return Settings(Options(), VerifyOptions(depth="none"), OutputOptions(Path(), explained=explained), force=force)


def test_a_pattern_is_processed_with_external_data_and_a_broken_model_does_not_stop_the_rest(
    shelf: Path, url: str, tmp_path: Path
) -> None:
    (shelf / "in" / "broken.onnx").write_bytes(b"no model")
    report = tmp_path / "all.json"
    result = run("optimize", f"{url}/in/**/*.onnx", f"{url}/out", "--jobs", 2, "--report", report)
    assert result.exit_code == 1
    assert "1 failed, 2 verified" in result.stderr
    made = {"one.onnx", ".bnfold/one.onnx.json", ".bnfold/deeper/external.onnx.json"} | {
        f"deeper/{name}" for name in ("external.onnx", "external.onnx.data")
    }
    assert names(shelf / "out") == made
    for name in ("one.onnx", "deeper/external.onnx"):
        assert "BatchNormalization" not in operators(shelf / "out" / name)
        assert verification.verify(shelf / "in" / name, shelf / "out" / name).verified
    document = json.loads(report.read_text())
    assert document["counts"] == {"failed": 1, "verified": 2}
    one = next(row for row in document["models"] if row["input"].endswith("one.onnx"))
    shown = url.replace("secret", "***")
    assert one["input"] == one["report"]["input"]["path"] == f"{shown}/in/one.onnx"
    assert one["output"] == one["report"]["output"]["path"] == f"{shown}/out/one.onnx"
    broken = next(row for row in document["models"] if row["status"] == "failed")
    assert broken["message"].startswith(f"{shown}/in/broken.onnx: not an ONNX model")
    assert "secret" not in report.read_text() + result.output


def test_finished_models_are_skipped_until_something_changes(shelf: Path, url: str) -> None:
    command = ("fold", f"{url}/in", f"{url}/out", "--no-verify", "--jobs", 1)
    assert "2 unchecked" in run(*command).stderr
    first = (shelf / "out" / "one.onnx").stat().st_ino
    assert "2 skipped" in run(*command).stderr
    assert (shelf / "out" / "one.onnx").stat().st_ino == first
    assert "2 unchecked" in run(*command, "--force").stderr
    assert "2 unchecked" in run(*command, "--except", "Conv").stderr
    shutil.copy(MODELS / "bn15.onnx", shelf / "in" / "one.onnx")
    assert "1 unchecked, 1 skipped" in run(*command, "--except", "Conv").stderr
    (shelf / "out" / "one.onnx").unlink()
    assert "1 unchecked, 1 skipped" in run(*command, "--except", "Conv").stderr


def test_a_url_and_a_plain_path_may_be_mixed(shelf: Path, url: str, tmp_path: Path) -> None:
    assert run("optimize", f"{url}/in", tmp_path / "here", "--jobs", 1).exit_code == 0
    assert "BatchNormalization" not in operators(tmp_path / "here" / "deeper" / "external.onnx")
    assert run("optimize", MODELS / "bn9.onnx", f"{url}/there", "--jobs", 1).exit_code == 0
    assert "BatchNormalization" not in operators(shelf / "there" / "bn9.onnx")


def test_one_file_goes_to_a_file_and_never_over_itself(shelf: Path, url: str, tmp_path: Path) -> None:
    before = (shelf / "in" / "one.onnx").read_bytes()
    assert run("optimize", f"{url}/in/one.onnx", tmp_path / "result.onnx").exit_code == 0
    assert "BatchNormalization" not in operators(tmp_path / "result.onnx")
    for out, code in ((f"{url}/in/one.onnx", 2), (f"{url}/in", 1)):
        assert run("optimize", f"{url}/in/one.onnx", out).exit_code == code
    assert (shelf / "in" / "one.onnx").read_bytes() == before


def test_a_file_url_is_a_plain_path(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "one.onnx")
    assert locations.place(f"file://{tmp_path}/one.onnx") == disk.OnDisk(tmp_path / "one.onnx")
    assert run("optimize", f"file://{tmp_path}/*.onnx", tmp_path).exit_code == 2
    assert run("optimize", f"file://{tmp_path}/*.onnx", f"file://{tmp_path}/out").exit_code == 0
    assert "BatchNormalization" not in operators(tmp_path / "out" / "one.onnx")


def test_inspect_reads_urls(shelf: Path, url: str) -> None:
    before = names(shelf)
    result = run("inspect", f"{url}/in/**/*.onnx")
    assert result.exit_code == 0
    assert "6 → 0" in result.stdout
    assert names(shelf) == before


def test_the_report_is_made_only_if_somebody_reads_it(shelf: Path) -> None:
    (task,) = scheduler.plan_tasks([str(shelf / "in" / "one.onnx")], str(shelf / "out"))[0]
    brief, full = (process_one(task, settings(force=True, explained=full)) for full in (False, True))
    assert [row["verdict"] for row in brief.report["batchnorms"]] == ["folded"]
    assert "versions" not in brief.report
    assert "versions" in full.report


# -- what is sent


def test_a_store_without_rename_gets_every_file_at_once(memory: Any) -> None:
    for name in ("external.onnx", "external.onnx.data"):
        memory.put_file(str(MODELS / name), f"/in/{name}")
    (task,) = scheduler.plan_tasks(["memory://in/*.onnx"], "memory://out")[0]
    assert process_one(task, settings()).status == "unchecked"
    assert set(memory.find("/out")) == {
        "/out/external.onnx", "/out/external.onnx.data", "/out/.bnfold/external.onnx.json"
    }  # fmt: skip
    assert process_one(task, settings()).status == "skipped"


def test_a_data_file_of_somebody_else_keeps_its_name_and_an_old_one_of_ours_goes(
    memory: Any,
) -> None:
    for name in ("external.onnx", "external.onnx.data"):
        memory.put_file(str(MODELS / name), f"/in/{name}")
    memory.pipe_file("/out/external.onnx.data", b"of somebody else")
    (task,) = scheduler.plan_tasks(["memory://in/*.onnx"], "memory://out")[0]
    assert process_one(task, settings()).status == "unchecked"
    assert memory.cat_file("/out/external.onnx.data") == b"of somebody else"
    (first,) = set(memory.glob("/out/external.onnx.*.data"))
    only_conv = Settings(Options(excluded=frozenset({"Conv"})), VerifyOptions(depth="none"), OutputOptions(Path()))
    assert process_one(task, only_conv).status == "unchecked"
    (second,) = set(memory.glob("/out/external.onnx.*.data"))
    assert first != second
    with locations.place("memory://out/external.onnx").opened() as path:
        assert verification.verify(MODELS / "external.onnx", path).verified


def test_an_upload_that_fails_leaves_what_was_there(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.put_file(str(MODELS / "bn9.onnx"), "/in/one.onnx")
    memory.pipe_file("/out/one.onnx", b"as it was")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(type(memory), "put_file", refuse)
    (task,) = scheduler.plan_tasks(["memory://in/*.onnx"], "memory://out")[0]
    result = process_one(task, settings())
    assert (result.status, result.message) == (
        "failed", "memory://out/one.onnx: cannot be written: PermissionError: not yours"
    )  # fmt: skip
    assert set(memory.find("/out")) == {"/out/one.onnx"}
    assert memory.cat_file("/out/one.onnx") == b"as it was"


def test_what_an_interrupted_attempt_left_is_removed_and_nothing_else(shelf: Path, url: str) -> None:
    (shelf / "out").mkdir()
    mine, others = ".one.onnx.0123456789ab.tmp", ".two.onnx.0123456789ab.tmp"
    for name in (mine, others):
        (shelf / "out" / name).write_bytes(b"half")
    (task,) = scheduler.plan_tasks([f"{url}/in/*.onnx"], f"{url}/out")[0]
    assert process_one(task, settings()).status == "unchecked"
    assert names(shelf / "out") == {"one.onnx", ".bnfold/one.onnx.json", others}


def test_data_outside_the_models_folder_is_not_fetched(shelf: Path, url: str) -> None:
    model = onnx.load(shelf / "in" / "deeper" / "external.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../outside.data"
    onnx.save(model, shelf / "in" / "deeper" / "external.onnx")
    shutil.copy(MODELS / "external.onnx.data", shelf / "in" / "outside.data")
    (task,) = scheduler.plan_tasks([f"{url}/in/deeper/*.onnx"], f"{url}/out")[0]
    result = process_one(task, settings())
    assert result.status == "failed"
    assert "lies outside the model's directory" in result.message


def test_missing_data_is_told_by_the_name_that_the_user_knows(shelf: Path, url: str) -> None:
    (shelf / "in" / "deeper" / "external.onnx.data").unlink()
    (task,) = scheduler.plan_tasks([f"{url}/in/deeper/*.onnx"], f"{url}/out")[0]
    result = process_one(task, settings())
    assert "is missing beside the model" in result.message
    assert "/in/deeper/external.onnx" in result.message
    assert "bnfold-" not in result.message


class Renaming(memory_filesystem):  # type: ignore[misc, valid-type] # a package without types
    """A server that renames, but not to a name that is taken; ``silent``: and says nothing."""

    protocol = "renaming"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    silent = False

    def mv(self, path1: str, path2: str, **_: object) -> None:
        if self.exists(path2):
            if not self.silent:
                raise FileExistsError(path2)
            return
        super().mv(path1, path2)


@pytest.mark.parametrize("silent", [False, True])
def test_a_server_that_does_not_rename_over_a_file(silent: bool) -> None:
    system = Renaming(skip_instance_cache=True)
    system.silent = silent
    for content in (MODELS / "bn9.onnx", MODELS / "bn14.onnx"):
        filesystem.put(system, content, "/out/one.onnx")
        assert system.find("/out") == ["/out/one.onnx"]
        assert system.cat_file("/out/one.onnx") == content.read_bytes()


def test_processes_that_make_a_folder_at_once_do_not_fail(shelf: Path, url: str) -> None:
    for number in range(6):
        shutil.copy(MODELS / "bn9.onnx", shelf / "in" / f"{number}.onnx")
    tasks = scheduler.plan_tasks([f"{url}/in/[0-9].onnx"], f"{url}/a/b/c/d")[0]
    with ThreadPoolExecutor(6) as pool:
        found = scheduler.process_all(tasks, partial(process_one, settings=settings()), pool, lambda *_: None)
    assert [result.status for result in found] == ["unchecked"] * 6, found


def test_an_input_that_changes_while_it_is_processed_is_done_again(shelf: Path, url: str) -> None:
    (task,) = scheduler.plan_tasks([f"{url}/in/*.onnx"], f"{url}/out")[0]
    place = task.source
    assert isinstance(place, Remote)
    looked = []

    class Changing(Remote):
        __slots__ = ()

        def signature(self) -> Any:
            looked.append(place)
            found = super().signature()
            shutil.copy(MODELS / "bn15.onnx", shelf / "in" / "one.onnx")
            return found

    changing = Changing(place.url, place.path, place.before, place.after)
    assert process_one(replace(task, source=changing), settings()).status == "unchecked"
    assert looked
    assert process_one(task, settings()).status == "unchecked"
    assert process_one(task, settings()).status == "skipped"


# -- names


@pytest.mark.parametrize(
    ("url", "relative", "shown"),
    [
        ("memory://a/**/*.onnx", "b/c.onnx", "memory://a/b/c.onnx"),
        ("memory://a", "b/c.onnx", "memory://a/b/c.onnx"),
        ("memory://a/b/c.onnx", "c.onnx", "memory://a/b/c.onnx"),
        ("memory://**/c.onnx", "a/b/c.onnx", "memory://a/b/c.onnx"),
    ],
)
def test_places_are_named_as_the_user_did(memory: Any, url: str, relative: str, shown: str) -> None:
    memory.pipe_file("/a/b/c.onnx", b"")
    root, walked = locations.below(url)
    assert walked.models == [relative]
    assert str(root.child(relative)) == shown


def test_of_one_model_inspect_shows_each_batchnorm(tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "one"), "zip", MODELS, "dense.onnx")
    result = run("inspect", f"zip://dense.onnx::file://{tmp_path}/one.zip")
    assert result.exit_code == 0
    assert "node16" in result.stdout
    assert "8 → 3" in result.stdout


def test_an_archive_behind_a_path(tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "models"), "zip", MODELS, "bn9.onnx")
    url = f"zip://*.onnx::file://{tmp_path}/models.zip"
    root, walked = locations.below(url)
    assert str(root.child(walked.models[0])) == f"zip://bn9.onnx::file://{tmp_path}/models.zip"
    assert run("optimize", url, tmp_path / "out", "--jobs", 1).exit_code == 0
    assert "BatchNormalization" not in operators(tmp_path / "out" / "bn9.onnx")


def test_what_cannot_be_used_is_one_line(memory: Any) -> None:
    with pytest.raises(BadInput, match=r"^nosuch://a: cannot be used: ValueError: Protocol not known"):
        locations.below("nosuch://a")
    with pytest.raises(BadInput, match=r"no \.onnx files"):
        locations.below("memory://empty/**/*.onnx")
    with pytest.raises(BadInput, match="cannot be read"):
        locations.place("memory://nothing.onnx").read()
    memory.pipe_file("/a/b.onnx", b"")
    memory.pipe_file("/out", b"in the way")
    with pytest.raises(BadInput, match="is a file"):
        scheduler.plan_tasks(["memory://a/*.onnx"], "memory://out")[0]


def test_fsspec_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(BadInput, match=r"^memory://a: a URL needs fsspec: pip install fsspec"):
        locations.below("memory://a")


@pytest.mark.parametrize(
    "option",
    [
        ["--keep-failed", "x.onnx"],
        ["--verbose"],
        ["--external-data", "weights.bin"],
        ["--scheduler", "tcp://127.0.0.1:1", "--jobs", "2"],
    ],
)
def test_options_for_one_file_are_refused(option: list[str]) -> None:
    result = run("optimize", "memory://in", "memory://out", *option)
    assert result.exit_code == 2
    assert option[0] in result.stderr


def test_the_report_does_not_go_to_a_url() -> None:
    result = run("optimize", "memory://in", "memory://out", "--report", "memory://all.json")
    assert (result.exit_code, result.stderr) == (
        2,
        "bnfold: memory://in: memory://all.json: a report is written to a plain path, not to a URL\n",
    )


def test_an_output_error_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"), disk.OnDisk(tmp_path / "file" / "x.onnx").replaced():
        pass
