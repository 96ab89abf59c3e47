"""What is remembered of a model: a doubt survives a second run, and is told in every form."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from tests.conftest import MODELS

WHY = "bnfold has no reference implementation of acme:Secret-1"
EARLIER = "was written by an earlier run, without --require-verified"
NOT_WRITTEN = "not written, because --require-verified was given"
NO_VERIFY = "not verified: --no-verify was given"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that can be verified, and one that cannot."""
    source = tmp_path / "in"
    source.mkdir()
    shutil.copy(MODELS / "bn9.onnx", source / "good.onnx")
    text = """<ir_version: 8, opset_import: ["": 13, "acme": 1]>
    g (float[1,2,3,3] x) => (float[1,2,3,3] y)
    <float[2] s = {2.0, 3.0}, float[2] b = {1.0, 4.0}, float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}>
    { a = acme.Secret (x) c = Conv (a, w) n = BatchNormalization (c, s, b, b, s) y = acme.Secret (n) }"""
    onnx.save(onnx.parser.parse_model(text), source / "secret.onnx")
    return source


def run(folder: Path, *arguments: str, out: str = "out") -> Result:
    command = ["optimize", str(folder), str(folder.parent / out), "--jobs", "1"]
    depth = [] if "--no-verify" in arguments else ["--verify", "full"]
    return CliRunner().invoke(main, [*command, *depth, *arguments])


def row(result: Result, name: str) -> dict[str, Any]:
    """A model's row in JSON."""
    document = json.loads(result.stdout)
    (found,) = (each for each in document["models"] if each["input"].endswith(name))
    return dict(found, counted=document["counts"])


def test_a_second_run_says_the_same_of_a_doubt(folder: Path) -> None:
    first, second = run(folder), run(folder)
    assert "1 unverified, 1 verified" in first.stderr
    assert "1 unverified, 1 skipped" in second.stderr
    for result in (first, second):
        assert result.exit_code == 0
        (line,) = (line for line in result.stdout.splitlines() if line.startswith("secret.onnx"))
        assert WHY in line
        assert "--require-verified writes no such result" in result.stderr
    assert "up to date; " in second.stdout


def test_json_of_both_runs(folder: Path) -> None:
    first, second = (row(run(folder, "--json"), "secret.onnx") for _ in range(2))
    assert (first["status"], second["status"]) == ("unverified", "unverified")
    assert WHY in first["message"]
    assert second["message"] == f"up to date; {first['message']}"
    assert (first["counted"], second["counted"]) == ({"verified": 1, "unverified": 1}, {"skipped": 1, "unverified": 1})
    assert first["counts"] == second["counts"]


@pytest.mark.parametrize(
    ("name", "banner"),
    [
        ("secret.onnx", '<p class="banner unverified"><strong>Not verified.</strong> up to date; '),
        ("good.onnx", '<p class="banner verified"><strong>Skipped.</strong> up to date'),
        ("gone.onnx", '<p class="banner failed"><strong>Not processed.</strong> '),
    ],
)
def test_the_page_of_a_second_run(folder: Path, tmp_path: Path, name: str, banner: str) -> None:
    """A page about one model without a report: only what was verified is green."""
    (folder / "gone.onnx").symlink_to("nowhere")
    for path in folder.iterdir():
        if path.name != name:
            path.unlink()
    for _ in range(2):
        run(folder, "--report", str(tmp_path / "page.html"))
    assert banner in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("more", [("--quiet",), ("--json",), ("--quiet", "--json")])
def test_one_line_survives_quiet_and_json(folder: Path, more: tuple[str, ...]) -> None:
    """What holds for the model, and no advice, in both runs."""
    shutil.copy(MODELS / "dense.onnx", folder / "dense.onnx")  # whose BatchNormalizations give rise to advice
    for again in ("", "up to date; "):
        result = run(folder, *more)
        lines = [line for line in result.stderr.splitlines() if line.startswith(str(folder))]
        assert result.exit_code == 0
        assert len(lines) == 1
        assert lines[0].startswith(f"{folder}/secret.onnx: UNVERIFIED: {again}the original model cannot be run: ")
        if "--quiet" in more:
            assert result.stderr.splitlines() == lines


def test_what_was_verified_is_quiet(folder: Path) -> None:
    (folder / "secret.onnx").unlink()
    for _ in range(2):
        assert run(folder, "-q").output == ""


@pytest.mark.parametrize("quiet", [(), ("-q",), ("--json",)])
def test_require_verified_says_why_it_ends_in_3(folder: Path, quiet: tuple[str, ...]) -> None:
    for _ in range(2):
        result = run(folder, "--require-verified", *quiet)
        assert result.exit_code == 3
        assert WHY in result.output
        assert NOT_WRITTEN in result.output
        assert not (folder.parent / "out" / "secret.onnx").exists()


@pytest.mark.parametrize("quiet", [(), ("-q",), ("--json",)])
def test_require_verified_after_a_run_without_it(folder: Path, quiet: tuple[str, ...]) -> None:
    run(folder)
    result = run(folder, "--require-verified", *quiet)
    assert result.exit_code == 3
    assert WHY in result.output
    assert f"{folder.parent}/out/secret.onnx {EARLIER}" in result.output
    assert "good.onnx " + EARLIER not in result.output


@pytest.mark.parametrize("quiet", [(), ("-q",), ("--json",)])
def test_require_verified_where_nothing_was_verified(folder: Path, quiet: tuple[str, ...]) -> None:
    fresh = run(folder, "--no-verify", "--require-verified", *quiet)
    assert (fresh.exit_code, fresh.output.count(f"{NO_VERIFY}; {NOT_WRITTEN}") > 1) == (3, True)
    assert run(folder, "--no-verify").exit_code == 0
    assert "2 skipped" in run(folder, "--no-verify").stderr  # the caller says again that it need not be verified
    later = run(folder, "--no-verify", "--require-verified", *quiet)
    assert later.exit_code == 3
    for name in ("good.onnx", "secret.onnx"):
        assert f"up to date; {NO_VERIFY}; {folder.parent}/out/{name} {EARLIER}" in later.output


def test_what_was_not_verified_is_when_that_is_wanted(folder: Path) -> None:
    run(folder, "--no-verify")
    assert "1 unverified, 1 verified" in run(folder).stderr
    assert "1 unverified, 1 skipped" in run(folder).stderr


def test_what_is_forbidden_and_in_doubt_says_both_every_time(folder: Path) -> None:
    for _ in range(2):
        result = run(folder, "--assert-none", "Conv", "-q")
        assert result.exit_code == 4
        (line,) = (line for line in result.stderr.splitlines() if "secret.onnx" in line)
        assert line.startswith(f"{folder}/secret.onnx: UNVERIFIED: 1 Conv remains, and --assert-none forbids it: n; ")
        assert WHY in line
    assert run(folder, "--assert-none", "Conv", "--require-verified").exit_code == 3


@pytest.mark.parametrize("held", ["[]", '{"status": "unverified"}', '{"status": "verified", "counts": null}'])
def test_a_memory_that_is_not_whole_is_no_memory(folder: Path, held: str) -> None:
    run(folder)
    for path in (folder.parent / "out" / ".bnfold").glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "found": json.loads(held)}))
    assert "1 unverified, 1 verified" in run(folder).stderr


def test_a_doubt_behind_a_url_names_no_temporary_folder(folder: Path) -> None:
    pytest.importorskip("fsspec")
    archive = shutil.make_archive(str(folder.parent / "models"), "zip", folder)
    command = ["optimize", f"zip://*.onnx::file://{archive}", str(folder.parent / "out"), "--jobs", "1"]
    for _ in range(2):
        result = CliRunner().invoke(main, [*command, "--verify", "full"])
        assert (result.exit_code, WHY in result.stdout) == (0, True), result.stderr
        assert "bnfold-" not in result.output


@pytest.mark.parametrize("checked", [("--verify", "full"), ("--no-verify",)])
def test_one_file_and_quiet(folder: Path, tmp_path: Path, checked: tuple[str, ...]) -> None:
    source = folder / "secret.onnx"
    command = ["optimize", str(source), str(tmp_path / "out.onnx"), "-q", *checked]
    lines = CliRunner().invoke(main, command).stderr.splitlines()
    refused = CliRunner().invoke(main, [*command, "--require-verified"])
    if "--no-verify" in checked:
        assert lines == []
        first, steps = f"{source}: {NO_VERIFY}", []
    else:
        first, *steps = lines
        assert [line.partition(" ")[0] for line in steps] == ["next:"]
        assert first.startswith(f"{source}: UNVERIFIED: the original model cannot be run: ")
    assert refused.exit_code == 3
    said = refused.stderr.splitlines()
    assert said[:2] == [first, "  nothing was written, because --require-verified was given"]
    assert [line.partition(" ")[0] for line in said[2:]] == ["next:"] * len(steps)


def test_standard_input_and_quiet(folder: Path, tmp_path: Path) -> None:
    data = (folder / "secret.onnx").read_bytes()
    command = ["optimize", "-", str(tmp_path / "out.onnx"), "-q", "--verify", "full"]
    result = CliRunner().invoke(main, command, input=data)
    assert result.stderr.startswith("standard input: UNVERIFIED: ")
