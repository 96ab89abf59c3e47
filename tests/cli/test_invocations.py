"""The forms that people type: several files, folders, in place, dry runs, two reports; and each refusal's exit code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import onnx
import pytest
from click.testing import CliRunner, Result

import bnfold
from bnfold.cli import invocation
from bnfold.cli.commands import main
from bnfold.pipeline.newest import newest_loaded
from bnfold.settings import OutputOptions
from bnfold.verification import Code, Verdict
from tests.conftest import MODELS
from tests.machine import unmeasured


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two models, and a project with models of installed packages."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "bn9.onnx", "a.onnx")
    shutil.copy(MODELS / "dense.onnx", "b.onnx")
    for name in ("project", "project/.venv/lib", "project/node_modules", "project/site-packages/onnx", "project/deep"):
        Path(name).mkdir(parents=True, exist_ok=True)
        shutil.copy("a.onnx", Path(name, "model.onnx"))
    return tmp_path


def run(line: str) -> Result:
    return CliRunner().invoke(main, line.split())


def norms(path: str | Path) -> int:
    return sum(node.op_type == "BatchNormalization" for node in onnx.load(path).graph.node)


# -- inputs and outputs


@pytest.mark.parametrize("line", ["a.onnx b.onnx out", "a.onnx b.onnx out/", "./a.onnx b.onnx made/out/"])
def test_several_files_go_to_a_folder(line: str) -> None:
    assert run(f"optimize {line} --no-verify").exit_code == 0
    out = Path(line.rsplit(maxsplit=1)[-1])
    assert (norms(out / "a.onnx"), norms(out / "b.onnx")) == (0, 3)


@pytest.mark.parametrize("out", ["out/", "there", "there/"])
def test_one_file_goes_into_a_folder(out: str) -> None:
    Path("there").mkdir()
    assert run(f"optimize a.onnx {out} --no-verify").exit_code == 0
    assert norms(Path(out, "a.onnx")) == 0


def test_a_folder_that_is_not_there_is_made_and_goes_again_with_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("optimize a.onnx new/deep/o.onnx --no-verify").exit_code == 0
    assert norms("new/deep/o.onnx") == 0
    failed = Verdict("failed", "they differ", "float64", code=Code.DIFFERS)
    monkeypatch.setattr("bnfold.pipeline.formats.ONNX.verify", lambda *_: failed)
    assert run("optimize a.onnx other/deep/o.onnx").exit_code == 1
    assert not Path("other").exists()


def test_in_place_needs_no_output() -> None:
    assert run("optimize a.onnx --in-place --no-verify").exit_code == 0
    assert norms("a.onnx") == 0


def test_several_files_in_place() -> None:
    shutil.copy("a.onnx", "c.onnx")
    assert run("optimize a.onnx c.onnx --in-place --no-verify").exit_code == 0
    assert (norms("a.onnx"), norms("c.onnx")) == (0, 0)


def test_a_folder_in_place_leaves_other_programs_models_alone() -> None:
    assert run("fold project --in-place --no-verify").exit_code == 0
    assert (norms("project/model.onnx"), norms("project/deep/model.onnx")) == (0, 0)
    assert norms("project/.venv/lib/model.onnx") == 1


def test_in_place_beside_another_output_is_wrong() -> None:
    result = run("optimize a.onnx c.onnx --in-place")
    assert result.exit_code == 2
    assert "--in-place overwrites a.onnx; leave out the other output, c.onnx" in result.stderr
    assert norms("a.onnx") == 1


def test_inspect_takes_several_files() -> None:
    result = run("inspect a.onnx b.onnx")
    assert result.exit_code == 0
    rows = [line.split()[:11] for line in result.stdout.splitlines()]
    assert ["a.onnx", "inspected", "9", "→", "15", "1", "→", "0", "3", "→", "2"] in rows
    assert "2 inspected" in result.stderr


# -- folders of other programs


@pytest.mark.parametrize(
    ("line", "count"),
    [("inspect project", 3), ("optimize project out --no-verify", 3), ("inspect project/**/*.onnx", 3)],
)
def test_models_of_installed_packages_are_left_out(line: str, count: int) -> None:
    result = run(line)
    assert result.exit_code == 0
    sentence = f"{count} models in hidden folders or installed packages left out; name such a folder to include it"
    assert sentence in result.stderr
    assert ".venv" not in result.stdout
    assert "site-packages" not in result.stdout


@pytest.mark.parametrize("named", ["project/.venv", "project/site-packages", "project/node_modules/*.onnx"])
def test_unless_they_are_named(named: str) -> None:
    result = run(f"inspect {named}")
    assert "1 inspected" in result.stderr
    assert "left out" not in result.stderr


def test_what_is_forbidden_is_named_with_its_file() -> None:
    shutil.copy(MODELS / "in1.onnx", "project/good.onnx")
    result = run("inspect project --as-is --assert-none BatchNormalization")
    assert result.exit_code == 4
    sentence = "1 BatchNormalization remains, and --assert-none forbids it: node2"
    assert result.stdout.count(sentence) == 2
    assert "2 of 3 models have what --assert-none forbids: project/deep/model.onnx, project/model.onnx" in result.stderr
    assert "`bnfold optimize project/deep/model.onnx OUT`" in result.stderr
    quiet = run("inspect project --as-is --assert-none BatchNormalization --quiet")
    assert (quiet.exit_code, len(quiet.output.splitlines())) == (4, 3)
    assert "good.onnx" not in quiet.output
    assert quiet.output.splitlines()[2].startswith("3 models in hidden folders or installed packages left out")
    optimized = run("optimize project out --assert-none Conv --no-verify")
    assert optimized.exit_code == 4
    assert "3 of 3 models have what --assert-none forbids" in optimized.stderr


# -- what is written


def test_every_report_is_written() -> None:
    assert run("optimize a.onnx o.onnx --report r.json --report r.html --report again.json").exit_code == 0
    assert all(Path(name).stat().st_size > 1000 for name in ("r.json", "r.html", "again.json"))
    assert run("verify a.onnx o.onnx --report v.json --report v.html").exit_code == 0
    assert Path("v.json").exists()
    assert Path("v.html").exists()


@pytest.mark.parametrize("place", ["locked/r.json", "locked/new/r.html"])
def test_a_report_that_may_not_be_written_is_known_before_the_work(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "locked")
    result = run(f"optimize a.onnx o.onnx --report {place}")
    assert result.exit_code == 1
    assert "cannot be written: no permission to write in" in result.stderr
    assert not Path("o.onnx").exists()


def test_the_data_file_is_named_with_its_size() -> None:
    result = run("optimize a.onnx o.onnx --external-data w.data --size-threshold 0")
    size = Path("w.data").stat().st_size
    assert f" and w.data ({size} bytes) in " in result.stderr
    assert "wrote o.onnx (" in result.stderr


def test_run_says_what_it_wrote() -> None:
    result = CliRunner().invoke(main, ["run", "a.onnx", "o.onnx", "--", "cp", "{input}", "{output}"])
    assert result.exit_code == 0
    assert "wrote o.onnx (1.1 kB)" in result.stderr


# -- other tools' words


@pytest.mark.parametrize(("opset", "reached"), [("17", 17), ("latest", newest_loaded())])
def test_opset_is_another_name_of_target_opset(opset: str, reached: int) -> None:
    assert run(f"optimize a.onnx o.onnx --opset {opset} --no-verify").exit_code == 0
    assert onnx.load("o.onnx").opset_import[0].version == reached
    proto = bnfold.optimize("a.onnx", options=bnfold.Options(target_opset="latest")).to_proto()
    assert proto.opset_import[0].version == newest_loaded()


@pytest.mark.parametrize("line", ["optimize a.onnx o.onnx", "optimize a.onnx", "fold a.onnx o.onnx", "project out"])
def test_a_dry_run_shows_what_would_happen(line: str, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    result = run(f"{line} --dry-run")
    assert result.exit_code == 0
    assert "1 → 0" in result.output
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("version", "use `bnfold --version`"),
        ("help", "use `bnfold --help`"),
        ("check a.onnx", "use `bnfold inspect IN`, or `bnfold verify BEFORE AFTER`"),
        ("convert a.onnx o.onnx", "Missing option '--opset' or '--ir-version', as in `bnfold convert"),
        ("simplify a.onnx o.onnx", "use `bnfold optimize IN OUT --simplify`"),
        ("--verbose optimize a.onnx o.onnx", "bnfold COMMAND … --verbose"),
        ("optimize", "as in `bnfold optimize model.onnx out.onnx`"),
        ("optimize --simplify a.onnx o.onnx", "took the model a.onnx for an optimiser's name"),
        ("optimize a.onnx o.onnx -q -v", "--quiet and --verbose contradict each other"),
    ],
)
def test_a_near_miss_is_told_what_to_type(line: str, told: str) -> None:
    result = run(line)
    assert result.exit_code == 2
    assert told in result.stderr


# -- exit codes


@pytest.mark.parametrize(
    "line", ["optimize x.onnx o.onnx", "inspect x.onnx", "verify x.onnx a.onnx", "diff x.onnx a.onnx"]
)
def test_missing_and_unreadable_files_are_one_kind_of_error(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = 2 if line.startswith("diff") else 1
    missing = run(line)
    assert (missing.exit_code, "x.onnx: cannot be read: No such file or directory" in missing.stderr) == (code, True)
    shutil.copy("a.onnx", "x.onnx")
    opened = os.open

    def refuse(path: Any, *more: Any, **named: Any) -> int:
        if str(path).endswith("x.onnx"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    locked = run(line)
    assert (locked.exit_code, "x.onnx: cannot be read: Permission denied" in locked.stderr) == (code, True)


def test_an_interruption_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bnfold.pipeline.job.process", interrupted)
    result = run("optimize a.onnx o.onnx")
    assert (result.exit_code, result.stderr) == (130, "bnfold: interrupted; nothing was written\n")


EARLY = """
import sys, types
def main(): raise KeyboardInterrupt
sys.modules["bnfold.cli.commands"] = types.SimpleNamespace(main=main)
from bnfold.__main__ import run
run()
"""


def test_an_early_interruption_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-P", "-c", EARLY]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=unmeasured())
    assert (done.returncode, done.stderr) == (130, "bnfold: interrupted\n")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("click.Group.resolve_command", interrupted)
    result = run("explain no-gain")
    assert (result.exit_code, result.stderr) == (130, "bnfold: interrupted\n")


HEEDS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what shells start in the background ignores it
from bnfold.cli import invocation
from bnfold.__main__ import run
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.verification import Verdict
run()
"""


@pytest.mark.large
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_folder_leaves_no_temporary_files(folder: Path, sent: signal.Signals, code: int) -> None:
    """Measured, a worker that is stopped inside of coverage's lock would wait for it for ever."""
    for number in range(12):
        shutil.copy(MODELS / "resnet_opset6.onnx", folder / "project" / f"{number}.onnx")
    command: Sequence[str] = [
        sys.executable,
        "-P",
        "-c",
        HEEDS_CTRL_C,
        "optimize",
        "project",
        "out",
        "--samples",
        "3000",
        "--jobs",
        "2",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, env=unmeasured())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(folder.glob("out/*.onnx")):
        time.sleep(0.05)
    if sent == signal.SIGTERM:
        process.terminate()  # who sends it knows one process
    else:
        os.killpg(process.pid, sent)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code, said
    assert b"interrupted: run the same command again to resume" in said
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


TERMINATED = """
import os, signal, sys, types
def main():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        os.kill(os.getpid(), signal.SIGTERM)  # again, while it cleans up
        print("cleaned up", flush=True)
        raise
sys.modules["bnfold.cli.commands"] = types.SimpleNamespace(main=main)
from bnfold.__main__ import run
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_termination_is_143_and_cleans_up() -> None:
    command = [sys.executable, "-P", "-c", TERMINATED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=unmeasured())
    assert (done.returncode, done.stdout, done.stderr) == (143, "cleaned up\n", "bnfold: interrupted\n")


def test_what_is_remembered_of_a_folder_lies_in_one_hidden_folder(folder: Path) -> None:
    for told in ("2 unchecked", "2 skipped"):
        assert told in run("optimize project out --no-verify").stderr
    hidden = [path.relative_to(folder).as_posix() for path in folder.rglob("out/**/*") if path.suffix != ".onnx"]
    assert sorted(hidden) == [
        "out/.bnfold", "out/.bnfold/deep", "out/.bnfold/deep/model.onnx.json", "out/.bnfold/model.onnx.json", "out/deep"
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["optimize a.onnx o.onnx --data 3", "optimize a.onnx o.onnx --simplify foo"])
def test_no_type_of_python_is_shown(line: str) -> None:
    result = run(line)
    assert result.exit_code == 2
    assert not any(word in result.output for word in ("Sequence[", "Literal[", "Traceback", "frozenset"))


def test_a_terminal_gets_no_model_and_is_told_that_one_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

        buffer = BytesIO(Path(MODELS / "bn9.onnx").read_bytes())

    read = invocation.Invocation(
        ("-",), "-", bnfold.Options(), bnfold.VerifyOptions(), OutputOptions(Path("x")), invocation.CliOptions()
    )
    with monkeypatch.context() as patch:
        patch.setattr("bnfold.cli.invocation.sys.stdout", Terminal)
        with pytest.raises(click.UsageError, match="the model would go to the terminal; give OUT"):
            read.destination()
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr("bnfold.cli.invocation.sys.stdin", Terminal)
        patch.setattr("bnfold.cli.invocation.click.echo", lambda text, **_: said.append(text))
        assert read.opened() == Path(MODELS / "bn9.onnx").read_bytes()
    assert said == ["bnfold: waiting for a model on standard input"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("convert a.onnx o.onnx 13", "--opset 13"),
        ("verify a.onnx a.onnx 4", "--samples 4"),
        ("fold a.onnx o.onnx --opset 13", "`bnfold convert IN OUT --opset N`"),
        ("optimize a.onnx o.xml", "does not convert between ONNX and OpenVINO IR"),
    ],
)
def test_wrong_usage_says_what_to_type(line: str, meant: str) -> None:
    result = run(line)
    assert (result.exit_code, meant in result.stderr) == (2, True)
