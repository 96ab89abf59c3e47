"""What a walk finds, what it names because it could not look at it, and what it leaves out."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bnfold.batch import locations, scheduler
from bnfold.batch.disk import OnDisk
from bnfold.cli.commands import main
from bnfold.errors import BadInput
from tests.conftest import MODELS
from tests.machine import bnfold

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a privilege there, and folders have no modes")
GATE = ("inspect", "--as-is", "--assert-none", "BatchNormalization")
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert not isinstance(result.exception, Exception), result.exception
    return result


def model(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(MODELS / "bn9.onnx", path)
    return path


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that a gate lets pass."""
    path = tmp_path_factory.mktemp("clean") / "a.onnx"
    run("fold", MODELS / "mlp.onnx", path)
    assert run(*GATE, path).exit_code == 0
    return path


@pytest.fixture
def folder(tmp_path: Path, clean: Path) -> Path:
    """A folder with that model."""
    source = tmp_path / "in"
    source.mkdir()
    shutil.copy(clean, source)
    return source


@pytest.fixture
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with a subfolder that may not be listed, and a BatchNormalization in it."""
    model(folder / "closed" / "bn.onnx")
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path) == folder / "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    return folder


def rows(*arguments: object) -> dict[str, str]:
    """Each model's name and its message, in JSON."""
    result = run(*arguments, "--json")
    return {Path(row["input"]).name: row["message"] for row in json.loads(result.stdout)["models"]}


def walked(source: object) -> tuple[list[str], list[str], int]:
    """Models, what could not be looked at, and the number of models left out."""
    _, found = locations.below(str(source))
    return found.models, [path for path, _ in found.unreadable], found.left_out


# -- what cannot be read


@pytest.mark.parametrize("pattern", ["", "**/*.onnx", "**", "*/*.onnx"])
def test_a_folder_that_cannot_be_read_is_a_failed_row(closed: Path, pattern: str) -> None:
    result = run(*GATE, closed / pattern)
    assert result.exit_code == 1
    assert f"{closed}/closed: cannot be read: Permission denied" in result.stdout
    assert "1 failed" in result.stderr


@pytest.mark.parametrize("command", [("optimize",), ("fold",), ("convert", "--opset", "13"), ("upgrade",)])
def test_it_is_one_for_commands_that_write_too(closed: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = run(command[0], closed, tmp_path / "out", *command[1:], "--jobs", 1)
    assert (result.exit_code, "1 failed, 1 verified" in result.stderr) == (1, True)
    assert (tmp_path / "out" / "a.onnx").exists()
    again = run(command[0], closed, tmp_path / "out", *command[1:], "--jobs", 1, "-q")
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr == f"{closed}/closed: cannot be read: Permission denied\n"


def test_it_is_one_in_place(closed: Path) -> None:
    result = run("optimize", closed, "--in-place", "--jobs", 1)
    assert (result.exit_code, "1 failed, 1 verified" in result.stderr) == (1, True)


def test_it_is_in_every_format(closed: Path, tmp_path: Path) -> None:
    said = f"{closed}/closed: cannot be read: Permission denied"
    reports = [tmp_path / "all.json", tmp_path / "all.html"]
    result = run(*GATE, closed, "--json", *(f"--report={path}" for path in reports))
    for text in (result.stdout, reports[0].read_text()):
        document = json.loads(text)
        assert document["counts"] == {"failed": 1, "inspected": 1}
        assert document["models"][0]["message"] == said
    assert said in reports[1].read_text()
    for form in ("github", "sarif", "json-lines"):
        result = run(*GATE, closed, "--output-format", form)
        assert (result.exit_code, said in result.stdout) == (1, True), form


def test_nothing_but_what_cannot_be_read(closed: Path, tmp_path: Path) -> None:
    """There is no model to work on, and no pool of no workers."""
    (closed / "a.onnx").unlink()
    for command in (("inspect", closed), ("optimize", closed, tmp_path / "out"), ("inspect", closed / "closed")):
        result = run(*command)
        assert (result.exit_code, "1 failed" in result.stderr) == (1, True), command


def test_what_is_excluded_or_hidden_may_be_unreadable(closed: Path) -> None:
    assert run(*GATE, closed, "--exclude", "closed").exit_code == 0
    (closed / "closed").rename(closed / ".closed")
    assert walked(closed) == (["a.onnx"], [], 1)


def test_results_may_go_to_a_folder_inside_that_cannot_be_listed(closed: Path) -> None:
    """What lies in OUT is no input, whether it can be looked at or not."""
    assert run("optimize", closed, closed / "closed", "--jobs", 1).exit_code == 0


def drop_privileges() -> None:
    """Let modes hold for root, too."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="root reads everything")
def test_modes_of_folders_and_files(folder: Path) -> None:
    """A folder that may be entered but not listed is no obstacle for a pattern that names the file."""
    secrets = [model(folder / "closed" / "bn.onnx").parent, model(folder / "file.onnx")]
    for path in secrets:
        path.chmod(0)
    only_named = model(folder / "unlisted" / "named.onnx").parent
    only_named.chmod(0o111)
    limit: Callable[[], None] | None = drop_privileges if os.geteuid() == 0 else None
    try:
        gate = bnfold(*GATE, folder, limit=limit)
        assert gate.returncode == 1, gate.stderr
        for path in (*secrets, only_named):
            assert f"{path}: cannot be read: Permission denied" in gate.stdout
        named = bnfold("inspect", f"{folder}/unl*/named.onnx", limit=limit)
        assert (named.returncode, "named.onnx" in named.stdout) == (0, True), named.stderr
        unknown = bnfold("inspect", f"{folder}/*/bn.onnx", limit=limit)
        assert (unknown.returncode, "closed/bn.onnx: cannot be read" in unknown.stdout) == (1, True), unknown.stderr
        for path in (secrets[0], secrets[1], secrets[0] / "bn.onnx"):
            direct = bnfold("inspect", path, limit=limit)
            assert direct.returncode == 1, direct.stderr
            assert "cannot be read: Permission denied" in direct.stdout + direct.stderr
    finally:
        for path in (*secrets, only_named):
            path.chmod(0o755)


def test_a_path_that_is_too_long_for_the_system(folder: Path) -> None:
    """Only relative to a folder further down could it be opened; root meets this as well."""
    name, depth = "d" * 200, 25
    opened = [os.open(folder, os.O_RDONLY)]
    try:
        for _ in range(depth):
            os.mkdir(name, dir_fd=opened[-1])
            opened.append(os.open(name, os.O_RDONLY, dir_fd=opened[-1]))
        models, (fault,), _ = walked(folder)
        assert (models, fault.startswith(name)) == (["a.onnx"], True)
        assert "File name too long" in run(*GATE, folder).stdout
    finally:
        for parent in reversed(opened[:-1]):
            os.rmdir(name, dir_fd=parent)
        for descriptor in opened:
            os.close(descriptor)


# -- links


def test_links_that_lead_nowhere_or_to_themselves(folder: Path) -> None:
    (folder / "gone.onnx").symlink_to("nowhere")
    (folder / "through.onnx").symlink_to("a.onnx/nothing")
    (folder / "circle").symlink_to("circle")
    (folder / "README").symlink_to("nowhere")
    (folder / ".lock.onnx").symlink_to("nowhere")
    found = rows(*GATE, folder)
    assert found["gone.onnx"] == f"{folder}/gone.onnx: is a link that leads nowhere"
    assert found["through.onnx"] == f"{folder}/through.onnx: is a link that leads nowhere"
    assert "symbolic links" in found["circle"]
    assert found.keys() == {"gone.onnx", "through.onnx", "circle", ".lock.onnx", "a.onnx"}
    assert run(*GATE, folder).exit_code == 1


def test_a_linked_folder_is_looked_at_once_and_loops_end(folder: Path, tmp_path: Path) -> None:
    model(tmp_path / "elsewhere" / "deeper" / "bn.onnx")
    (folder / "first").symlink_to(tmp_path / "elsewhere")
    (folder / "second").symlink_to(tmp_path / "elsewhere" / "deeper")
    (folder / "self").symlink_to(".")
    (folder / "up").symlink_to(tmp_path)
    (tmp_path / "elsewhere" / "back").symlink_to(folder)
    (tmp_path / "elsewhere" / "deeper" / "again").symlink_to(tmp_path / "elsewhere")
    models, faults, left_out = walked(folder)
    assert (models[0], len(models), faults, left_out) == ("a.onnx", 2, [], 0)
    assert run(*GATE, folder).exit_code == 4
    assert walked(folder / "**" / "*.onnx")[0] == models


def test_a_model_keeps_the_name_of_the_place_where_it_lies(folder: Path) -> None:
    model(folder / "z" / "bn.onnx")
    (folder / "alias").symlink_to("z")
    assert walked(folder)[0] == ["a.onnx", "z/bn.onnx"]
    assert walked(folder / "al*" / "*.onnx")[0] == ["alias/bn.onnx"]


def test_a_link_to_a_hidden_folder_shows_its_models(folder: Path) -> None:
    """As package managers and model caches lay them out; a hidden link is no reason to leave out what others show."""
    model(folder / ".store" / "bn.onnx")
    (folder / "shown").symlink_to(".store")
    model(folder.parent / "elsewhere" / "bn.onnx")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "link").symlink_to(folder.parent / "elsewhere")
    (folder / "z").symlink_to(folder.parent / "elsewhere")
    assert walked(folder) == (["a.onnx", "shown/bn.onnx", "z/bn.onnx"], [], 2)


# -- what is no plain file, and names


def test_special_files_are_named_and_nobody_waits_for_them(folder: Path) -> None:
    os.mkfifo(folder / "pipe.onnx")
    os.mkfifo(folder / "pipe")
    (folder / "null.onnx").symlink_to("/dev/null")
    for arguments in ((folder,), (folder / "*.onnx",), (folder / "pipe.onnx", folder / "a.onnx")):
        found = rows(*GATE, *arguments)
        assert found["pipe.onnx"] == f"{folder}/pipe.onnx: is no regular file"
        assert "pipe" not in found
    assert rows(*GATE, folder)["null.onnx"].endswith("is no regular file")
    assert run("inspect", folder / "pipe.onnx").exit_code == 1


def test_a_folder_with_the_name_of_a_model(folder: Path) -> None:
    model(folder / "saved.onnx" / "bn.onnx")
    (folder / "saved").mkdir()
    for pattern in ("", "**/*.onnx", "**"):
        assert walked(folder / pattern)[:2] == (["a.onnx", "saved.onnx/bn.onnx"], []), pattern
    assert walked(folder / "*.onnx") == (["a.onnx"], ["saved.onnx"], 0)
    assert walked(folder / "*") == (["a.onnx"], ["saved.onnx"], 0)
    assert run(*GATE, folder / "*.onnx").exit_code == 1


def test_names_in_capitals_and_hidden_files(folder: Path) -> None:
    for name in ("B.ONNX", ".bn.onnx", ".DS_Store", "notes.txt"):
        model(folder / name)
    assert walked(folder)[0] == [".bn.onnx", "B.ONNX", "a.onnx"]
    assert walked(folder / "*")[0] == [".bn.onnx", "B.ONNX", "a.onnx", "notes.txt"]
    assert walked(folder / ".D*")[0] == [".DS_Store"]


def test_a_name_that_is_a_pattern_as_well(folder: Path) -> None:
    model(folder / "[1].onnx")
    assert walked(folder / "[1].onnx")[0] == ["[1].onnx"]
    model(folder / "x[1]" / "bn.onnx")
    assert walked(folder / "x[1]")[0] == ["bn.onnx"]


@pytest.mark.skipif(sys.platform == "darwin", reason="names are text there")
def test_a_name_that_is_no_text_is_processed_and_every_medium_can_hold_it(folder: Path, tmp_path: Path) -> None:
    bad = Path(os.fsdecode(os.fsencode(folder) + b"/\xff\x1b[31m"))
    model(bad / Path(os.fsdecode(b"\xfe.onnx")))
    report = tmp_path / "all.json"
    result = run("optimize", folder, tmp_path / "out", "--jobs", 1, "--report", report, "--json")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "out" / bad.name / os.fsdecode(b"\xfe.onnx")).exists()
    table = run("inspect", folder)
    assert "\\udcff\\x1b[31m/\\udcfe.onnx" in table.stdout
    lines = [run(*GATE, folder, "--output-format", form).stdout for form in ("json-lines", "sarif", "github")]
    for text in (result.stdout, report.read_text(), table.stdout, *lines):
        assert text.encode("utf-8").decode() == text
        assert "\x1b" not in text
    for text in (result.stdout, report.read_text(), *lines[:2]):
        assert "\\udcf" not in text.replace("\\\\", "")  # half a surrogate pair, which strict parsers refuse
        json.loads(text)
    assert "%FF%1B%5B31m/%FE.onnx" in lines[1]


def test_a_model_that_is_gone_when_it_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = locations.below

    def lose(source: str) -> Any:
        found = below(source)
        (folder / "b.onnx").unlink()
        return found

    monkeypatch.setattr(locations, "below", lose)
    for command in (("inspect", folder), ("optimize", folder, tmp_path / "out", "--jobs", 1)):
        model(folder / "b.onnx")
        result = run(*command)
        assert (result.exit_code, "1 failed, 1 " in result.stderr) == (1, True), result.stderr
        assert f"{folder}/b.onnx: cannot be read: No such file or directory" in result.stdout


def test_a_folder_that_is_gone_when_it_is_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(folder / "closed" / "bn.onnx")
    entries = OnDisk.entries

    def lose(place: OnDisk) -> Any:
        found = entries(place)
        shutil.rmtree(folder / "closed", ignore_errors=True)
        return found

    monkeypatch.setattr(OnDisk, "entries", lose)
    assert rows(*GATE, folder)["closed"] == f"{folder}/closed: cannot be read: No such file or directory"


def test_an_error_of_bnfold_itself_does_not_end_an_inspection(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(scheduler, "process", fail)
    assert rows("inspect", folder)["a.onnx"] == "internal error, please report it: ZeroDivisionError()"


# -- what is left out on purpose is said


@pytest.mark.parametrize(
    "more", [(), ("-q",), ("--json",), ("--output-format", "sarif"), ("--output-format", "github")]
)
@pytest.mark.parametrize("pattern", ["", "**/*.onnx", "*/*.onnx"])
def test_a_gate_that_passes_says_what_it_did_not_look_at(folder: Path, pattern: str, more: tuple[str, ...]) -> None:
    shutil.copy(folder / "a.onnx", model(folder / "sub" / "b.onnx"))
    model(folder / ".hidden" / "bn.onnx")
    model(folder / "venv" / "bn.onnx")
    result = run(*GATE, folder / pattern, *more)
    assert result.exit_code == 0
    assert "2 models in hidden folders or installed packages left out; name such a folder" in result.stderr


def test_what_is_excluded_is_counted_apart(folder: Path, tmp_path: Path) -> None:
    model(folder / "old" / "bn.onnx")
    model(folder / ".hidden" / "bn.onnx")
    for command in (GATE, ("optimize",)):
        out = [tmp_path / "out", "--jobs", "1"] if command != GATE else []
        result = run(command[0], folder, *out, *command[1:], "--exclude", "old", "--json")
        assert json.loads(result.stdout)["left_out"] == {"foreign": 1, "excluded": 1}
        assert "1 model excluded by --exclude or pyproject.toml" in result.stderr
        assert "1 model in hidden folders" in result.stderr


def test_a_hidden_folder_that_is_named_is_used(folder: Path) -> None:
    model(folder / ".hidden" / "deeper" / "bn.onnx")
    assert walked(folder / ".hidden") == (["deeper/bn.onnx"], [], 0)
    assert walked(folder / ".hidden" / "**" / "*.onnx") == (["deeper/bn.onnx"], [], 0)


# -- patterns


@pytest.mark.parametrize(
    ("pattern", "models"),
    [
        ("*.onnx", ["a.onnx"]),
        ("**", ["a.onnx", "x/b.onnx", "x/y/b.onnx", "z/b.onnx"]),
        ("**/b.onnx", ["x/b.onnx", "x/y/b.onnx", "z/b.onnx"]),
        ("**/y/*.onnx", ["x/y/b.onnx"]),
        ("**/**/b.onnx", ["x/b.onnx", "x/y/b.onnx", "z/b.onnx"]),
        ("x/**/*.onnx", ["b.onnx", "y/b.onnx"]),
        ("[xz]/b.onnx", ["x/b.onnx", "z/b.onnx"]),
        ("?/*/b.*", ["x/y/b.onnx"]),
        ("*/../a.onnx", ["x/../a.onnx", "z/../a.onnx"]),
    ],
)
def test_patterns(folder: Path, pattern: str, models: list[str]) -> None:
    for name in ("x/b.onnx", "x/y/b.onnx", "z/b.onnx"):
        model(folder / name)
    assert walked(f"{folder}/{pattern}") == (models, [], 0)


@pytest.mark.parametrize("pattern", ["nowhere/*.onnx", "a.onnx/*", "*/nothing.onnx", "*.nothing"])
def test_a_pattern_that_nothing_matches(folder: Path, pattern: str) -> None:
    (folder / "sub").mkdir()
    with pytest.raises(BadInput, match=r"no \.onnx files there"):
        walked(f"{folder}/{pattern}")


# -- behind URLs


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store with a folder that may not be listed."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    for name in ("a.onnx", "private/bn.onnx", ".hidden/bn.onnx", "sub/B.ONNX", "sub/notes.txt"):
        system.pipe_file(f"/in/{name}", (MODELS / "bn9.onnx").read_bytes())
    ls = type(system).ls

    def refuse(self: Any, path: str, **more: Any) -> Any:
        if path.rstrip("/").endswith("private"):
            raise PermissionError(f"{path}: AccessDenied")
        return ls(self, path, **more)

    monkeypatch.setattr(type(system), "ls", refuse)
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.mark.parametrize("pattern", ["", "/**/*.onnx", "/*/*.onnx"])
@pytest.mark.usefixtures("store")
def test_a_folder_behind_a_url_that_cannot_be_listed(pattern: str, tmp_path: Path) -> None:
    for command in (("inspect", f"memory://in{pattern}"), ("optimize", f"memory://in{pattern}", tmp_path, "--jobs", 1)):
        result = run(*command)
        assert result.exit_code == 1
        assert "memory://in/private: cannot be read: PermissionError: /in/private: AccessDenied" in result.stdout
        assert "1 model in hidden folders" in result.stderr


def test_the_folder_of_a_url_itself(store: Any) -> None:
    assert run("inspect", "memory://in/private").exit_code == 1
    assert walked("memory://in/sub") == (["B.ONNX"], [], 0)
    assert walked("memory://in/sub/*") == (["B.ONNX", "notes.txt"], [], 0)
    assert walked("memory://in/*/b*.onnx")[:2] == ([], ["private"])
    assert walked("memory://in/.hidden") == (["bn.onnx"], [], 0)
    assert walked("memory://in/*/B.ONNX")[0] == ["sub/B.ONNX"]
    store.rm_file("/in/a.onnx")
    with pytest.raises(BadInput, match=r"no \.onnx files there"):
        walked("memory://nowhere")
