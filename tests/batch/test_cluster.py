"""A Dask cluster of several processes, one of them killed while it works."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold import verification
from bnfold.batch import cluster, scheduler
from bnfold.batch.worker import Settings, process_one
from bnfold.cli.commands import main
from bnfold.errors import BadInput
from bnfold.operators import plugins
from bnfold.registered import table
from bnfold.settings import Options, OutputOptions, VerifyOptions
from tests import acme
from tests.conftest import MODELS
from tests.operators.test_plugins import PLUGIN
from tests.servers import ftp

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.large

MODEL_NAMES = ("bn9", "mlp", "external", "bn14")


@contextmanager
def three_processes() -> Iterator[Any]:
    """Three processes; a killed one is replaced, as on most clusters."""
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=":0", silence_logs=50, host="127.0.0.1"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    with three_processes() as made:
        yield made


@pytest.fixture(scope="module")
def mortals() -> Iterator[Any]:
    """The cluster of tests that kill: while a process is replaced, a model that it wrote may be told as skipped."""
    with three_processes() as made:
        yield made


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    folder = tmp_path / "shelf"
    (folder / "in" / "deeper").mkdir(parents=True)
    for name in MODEL_NAMES:
        shutil.copy(MODELS / f"{name}.onnx", folder / "in" / "deeper")
    shutil.copy(MODELS / "external.onnx.data", folder / "in" / "deeper")
    (folder / "in" / "broken.onnx").write_bytes(b"no model")
    return folder


class Killer:
    """Kills the worker that asks for one of ``victims``, as often as is said there, with the transfer under way."""

    def __init__(self, victims: dict[tuple[str, str], int]) -> None:
        self.victims = victims
        self.killed: list[int] = []

    def __call__(self, command: str, file: Path, port: int) -> None:
        for victim, times in self.victims.items():
            if times and victim[0] == command and file.name.startswith(victim[1]) and self.kill(port):
                self.victims[victim] -= 1

    def kill(self, port: int) -> bool:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it is gone already
                if any(connection.laddr.port == port for connection in process.net_connections()):
                    process.send_signal(signal.SIGKILL)
                    self.killed.append(process.pid)
                    return True
        return False


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_workers_model_is_done_by_another(mortals: Any, shelf: Path, tmp_path: Path) -> None:
    killer = Killer({("RETR", "external.onnx.data"): 1, ("STOR", ".mlp.onnx."): 1})
    report = tmp_path / "all.json"
    with ftp(shelf, killer) as url:
        command = ("optimize", f"{url}/in/**/*.onnx", f"{url}/out", "--scheduler", mortals.scheduler_address)
        result = run(*command, "--no-verify", "--report", report)
        assert len(set(killer.killed)) == 2
        assert f"1 failed, {len(MODEL_NAMES)} unchecked" in result.stderr
        assert result.exit_code == 1
        again = run(*command, "--no-verify")
        assert f"1 failed, {len(MODEL_NAMES)} skipped" in again.stderr
    out = shelf / "out" / "deeper"
    assert {path.name for path in out.iterdir()} == {f"{name}.onnx" for name in MODEL_NAMES} | {"external.onnx.data"}
    remembered = {path.name for path in (shelf / "out" / ".bnfold" / "deeper").iterdir()}
    assert remembered == {f"{name}.onnx.json" for name in MODEL_NAMES}
    for name in MODEL_NAMES:
        assert verification.verify(shelf / "in" / "deeper" / f"{name}.onnx", out / f"{name}.onnx").verified
    document = json.loads(report.read_text())
    assert document["counts"] == {"failed": 1, "unchecked": len(MODEL_NAMES)}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_model_that_kills_every_worker_does_not_stop_the_rest(mortals: Any, shelf: Path) -> None:
    killer = Killer({("RETR", "mlp.onnx"): 100})
    with ftp(shelf, killer) as url:
        result = run(
            "fold", f"{url}/in/deeper/[bm]*.onnx", f"{url}/out", "--no-verify", "--scheduler", mortals.scheduler_address
        )
    assert result.exit_code == 1
    assert "1 failed" in result.stderr
    done = re.findall(r"(\d+) (?:unchecked|skipped)", result.stderr)  # skipped: its worker died before it could say so
    assert sum(map(int, done)) == 2
    assert "KilledWorker" in result.stdout
    assert {path.name for path in (shelf / "out").glob("*.onnx")} == {"bn9.onnx", "bn14.onnx"}


@pytest.mark.usefixtures("shelf")
def test_plain_paths_that_all_workers_see(workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where no worker stands
    result = run("optimize", "shelf/in/*/bn*.onnx", "out", "--scheduler", workers.scheduler_address, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["counts"] == {"verified": 2}
    assert {path.stem for path in (tmp_path / "out" / "deeper").glob("*.onnx")} == {"bn9", "bn14"}


def test_a_worker_of_another_version_is_told_before_any_work(shelf: Path, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bnfold-0.0.9.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: bnfold\nVersion: 0.0.9\n")
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50, host="127.0.0.1") as made:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", made.scheduler_address, "--no-dashboard"]
        worker = subprocess.Popen(
            [*command, "--no-nanny"],
            env=os.environ | {"PYTHONPATH": str(old.parent)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            made.wait_for_workers(1, timeout=60)
            result = run("optimize", shelf / "in", tmp_path / "out", "--scheduler", made.scheduler_address)
        finally:
            worker.terminate()
            worker.wait()
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "has bnfold 0.0.9, and here it is" in result.stderr
    assert not list((tmp_path / "out").rglob("*.onnx"))


class Answers:
    """A client whose workers answer as told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def run(self, function: Any, *_: object, **__: object) -> dict[str, Any]:
        return {"tcp://1.2.3.4:5": self.answers[function.__name__]}


def test_a_worker_without_bnfold_is_told() -> None:
    with pytest.raises(BadInput, match=r"^worker tcp://1\.2\.3\.4:5 has no bnfold"):
        cluster._check(Answers(version=PackageNotFoundError("bnfold")), [])


def test_a_path_that_a_worker_does_not_see_is_told(tmp_path: Path) -> None:
    here = version("bnfold")
    with pytest.raises(BadInput, match="does not see it"):
        cluster._check(Answers(version=here, exists=False), [tmp_path])
    cluster._check(Answers(version=here, exists=True), [tmp_path])


class Ended:
    """A task of Dask's that ended as told."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def result(self) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            distributed.client.FutureCancelledError("work-1", "scheduler-connection-lost"),
            "the connection to the scheduler",
        ),
        (asyncio.CancelledError(), "the connection to the scheduler"),
        (OSError("Timed out trying to connect"), "OSError: Timed out trying to connect"),
    ],
)
def test_a_scheduler_that_is_lost_ends_every_model_with_a_line(error: BaseException, message: str, shelf: Path) -> None:
    class Lost(Executor):
        def submit(self, *_: object, **__: object) -> Future[Any]:
            answer: Future[Any] = Future()
            cluster._pass_on(answer, Ended(error))
            return answer

    tasks = scheduler.plan_tasks([str(shelf / "in")], str(shelf / "out"))[0]
    settings = Settings(Options(), VerifyOptions(depth="none"), OutputOptions(Path()))
    results = scheduler.process_all(tasks, partial(process_one, settings=settings), Lost(), lambda *_: None)
    assert len(results) == len(tasks)
    assert all(result.status == "failed" and message in result.message for result in results)


def test_no_scheduler(shelf: Path, tmp_path: Path) -> None:
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "100ms"}):
        result = run("fold", shelf / "in", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert "no Dask scheduler answers there" in result.stderr
    assert run("fold", shelf / "in", tmp_path / "out", "--scheduler", tmp_path / "no.json").exit_code == 1


def test_dask_that_is_missing_is_told(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run("fold", shelf / "in", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert (result.exit_code, "pip install distributed" in result.stderr) == (1, True)


def test_a_single_file_needs_no_scheduler(tmp_path: Path) -> None:
    result = run("fold", MODELS / "bn9.onnx", tmp_path / "out.onnx", "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "--scheduler is for a folder" in result.stderr


def test_workers_import_the_plugins(workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme_plugin.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "in").mkdir()
    onnx.save(acme.model(), tmp_path / "in" / "model.onnx")
    try:
        words = ["in", "out", "--scheduler", workers.scheduler_address, "--json", "--plugin", "./acme_plugin.py"]
        result = run("fold", *words)
    finally:
        table.remove("com.acme", "Gain")
        plugins._LOADED.clear()
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)["models"]
    assert (row["status"], row["counts"]["after"]) == ("verified", 0)
