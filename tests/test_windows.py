"""What Windows has not is taken away: calls of the operating system, arrows in a pipe, replacing an open file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bnfold import ir
from bnfold.batch.addresses import is_url
from bnfold.errors import OutputError
from tests.conftest import MODELS, ROOT

pytestmark = pytest.mark.measures_children
MISSING = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("pread", "preadv", "copy_file_range", "sendfile", "link", "sysconf", "sched_getaffinity", "fchmod",
             "O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_DIRECTORY"):
    if hasattr(os, name):
        delattr(os, name)
import bnfold.ir.storage.source
bnfold.ir.storage.source.MAY_HOLD = False
"""


@pytest.fixture
def poor(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that have no more than Windows has, those that they start included."""
    (tmp_path / "poor").mkdir()
    (tmp_path / "poor" / "sitecustomize.py").write_text(MISSING, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "poor"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "cp1252"}


def run(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bnfold", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="cp1252", check=False, timeout=300
    )


def test_without_what_windows_has_not(poor: dict[str, str], tmp_path: Path) -> None:
    for name in ("external.onnx", "external.onnx.data", "resnet_opset6.onnx"):
        shutil.copy(MODELS / name, tmp_path)
    check = [sys.executable, "-c", "import fcntl"]
    assert subprocess.run(check, env=poor, capture_output=True, check=False).returncode == 1
    for name in ("external.onnx", "resnet_opset6.onnx"):
        for _ in range(2):  # over itself the second time
            done = run(tmp_path, poor, "optimize", name, f"out_{name}", "--require-verified")
            assert done.returncode == 0, done.stderr
        (tmp_path / "rich").mkdir(exist_ok=True)
        whole = run(tmp_path, dict(os.environ), "optimize", name, f"rich/out_{name}", "--no-verify", "-q")
        assert whole.returncode == 0, whole.stderr
        for made in (tmp_path / "rich").iterdir():
            assert made.read_bytes() == (tmp_path / made.name).read_bytes()
    assert not list(tmp_path.glob(".bnfold-*"))


def test_a_folder_on_two_processes(poor: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("bn9.onnx", "mlp.onnx"):
        shutil.copy(MODELS / name, tmp_path / "in")
    done = run(tmp_path, poor, "optimize", "in", "out", "--jobs", "2", "--no-verify")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"bn9.onnx", "mlp.onnx"}


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "cp437"])
def test_a_pipe_without_arrows_gets_ascii(encoding: str) -> None:
    command = [sys.executable, "-m", "bnfold", "inspect", "resnet_opset6.onnx"]
    done = subprocess.run(
        command, cwd=MODELS, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "opset 6 -> 15, IR version 3 -> 8" in (done.stdout + done.stderr).decode(encoding)


def test_a_result_that_another_program_holds_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows does not replace it. The old one stays, and nothing beside it."""
    target = tmp_path / "out.onnx"
    target.write_bytes(b"old")

    def refuse(path: Path, _: Path) -> None:
        raise PermissionError(13, "The process cannot access the file", str(path))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match=r"out\.onnx: cannot be written: The process cannot access the file"):
        ir.save(ir.load(MODELS / "bn9.onnx"), target)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]


@pytest.mark.parametrize("path", ["C:/models/a.onnx", "C://models/a.onnx", r"C:\models\*.onnx", r"models\a.onnx"])
def test_a_drive_letter_is_no_scheme(path: str) -> None:
    assert not is_url(path)
    assert is_url("s3://bucket/a.onnx")
    assert is_url("zip://*.onnx::https://host/models.zip")
