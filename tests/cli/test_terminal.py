"""Tables on a terminal of any width, and in a pipe."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

import bnfold
from bnfold.batch.scheduler import INTERRUPTED
from bnfold.batch.worker import Counts, FileResult
from bnfold.cli import tables, terminal
from bnfold.cli.commands import main
from bnfold.pipeline.outcome import ProcessedModel
from bnfold.verification.claims import Evidence
from bnfold.verification.codes import Code
from bnfold.verification.sentences import parts_agree
from bnfold.verification.verdict import RuntimeRow, Verdict
from tests.conftest import MODELS

LONG = "block_" + "deep_" * 60 + "norm"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The model of dense blocks, with one BatchNormalization that stays under a name wider than any terminal."""
    proto = onnx.load(MODELS / "dense.onnx")
    (node,) = [node for node in proto.graph.node if node.name == "node16"]
    node.name = LONG
    path = tmp_path / "dense.onnx"
    onnx.save(proto, path)
    return path


def lines(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_a_pipe_gets_one_line_a_row_whole_names_and_no_blanks_at_the_end(model: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", str(model)])
    rows = result.stdout.splitlines()
    assert len(rows) == 9
    assert sum(row.startswith(LONG) for row in rows) == 1
    assert all(row == row.rstrip() for row in rows)
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_terminal_s_width_is_kept_and_nothing_is_cut(
    width: int, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    shown = lines(CliRunner().invoke(main, ["inspect", str(model)]).stdout)
    assert max(map(len, shown)) <= width
    assert "…" not in "".join(shown)
    first = "".join(line[:width].split(" ")[0] for line in shown[1:])
    assert LONG in first
    assert any("scale" in word for word in shown[0].split()) == (width >= 110)


def test_a_narrow_terminal_says_which_columns_it_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(main, ["inspect", str(MODELS / "dense.onnx")])
    assert "a terminal of 110 columns shows scale and shift as well" in " ".join(lines(shown.stderr))


def test_lines_are_wrapped_at_words_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "  note: " + "word " * 30 + "end"
    terminal.say(text)
    assert capsys.readouterr().err == f"{text}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    terminal.say(text)
    wrapped = lines(capsys.readouterr().err)
    assert max(map(len, wrapped)) <= 40
    assert " ".join(line.strip() for line in wrapped) == text.strip()
    assert wrapped[0].startswith("  note: word")
    assert all(line.startswith("    word") for line in wrapped[1:-1])


def test_a_verdict_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    row = Evidence("Conv a", "", ("a",), "verified")
    heard = "outputs agree to 2.8e-07 (rounding allows 1.4e-06)"
    runtime = RuntimeRow("onnxruntime 1", agrees=None, ran_before=True, ran_after=True, notes=(heard,))
    reason = parts_agree(1, "rewrite", f"onnxruntime 1: {heard}")
    terminal.verdict(Verdict("verified", reason, "local", code=Code.TESTED, witnesses=(runtime,), local=(row,)))
    assert lines(capsys.readouterr().err) == [
        f"verified: 1 rewrite was checked in float64, and the whole model was run in onnxruntime 1: {heard}"
    ]


def test_what_needs_attention_comes_first_with_what_can_be_done() -> None:
    result = CliRunner().invoke(main, ["inspect", str(MODELS / "dense.onnx")])
    became = [re.split(r"\s{2,}", row)[5] for row in result.stdout.splitlines()[1:]]
    assert became == sorted(became, key=lambda word: word != "left")
    assert became.count("left") == 3
    assert "  What to do about shared-value: usually nothing" in result.stderr


def test_ranges_are_those_of_the_affine() -> None:
    (row,) = CliRunner().invoke(main, ["inspect", str(MODELS / "bn15_training.onnx")]).stdout.splitlines()[1:]
    assert re.split(r"\s{2,}", row)[3:5] == ["-", "-"]
    rows = CliRunner().invoke(main, ["inspect", str(MODELS / "dense.onnx")]).stdout.splitlines()[1:]
    assert all(re.fullmatch(r"-?[\d.e-]+ to -?[\d.e-]+", re.split(r"\s{2,}", row)[3]) for row in rows)


def test_a_folder_has_a_row_a_model_worst_first(tmp_path: Path) -> None:
    for name in ("bn9.onnx", "dense.onnx"):
        (tmp_path / name).write_bytes((MODELS / name).read_bytes())
    (tmp_path / "zz.onnx").write_bytes(b"no model")
    result = CliRunner().invoke(main, ["inspect", str(tmp_path)])
    assert result.exit_code == 1
    names = [Path(row.split()[0]).name for row in result.stdout.splitlines()[1:]]
    assert names == ["zz.onnx", "dense.onnx", "bn9.onnx"]
    assert "3 shared-value" in result.stdout
    assert "1 failed, 2 inspected" in result.stderr


def test_a_runtime_that_is_wrong_about_the_original_explains_the_error(tmp_path: Path) -> None:
    """At opset 9 onnxruntime gives the inverse deviation as fifth output, where the text says variance."""
    outputs = ", ".join(f"float[{size}] {name}" for name, size in zip("ymvst", ("N,3,L", 3, 3, 3, 3), strict=True))
    weights = ", ".join(f"float[3] {name} = {{1, 2, 3}}" for name in "abcd")
    text = f"""<ir_version: 8, opset_import: ["": 9]> g (float[N,3,L] x) => ({outputs}) <{weights}>
    {{ y, m, v, s, t = BatchNormalization (x, a, b, c, d) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "five.onnx")
    result = CliRunner().invoke(main, ["fold", str(tmp_path / "five.onnx"), str(tmp_path / "out.onnx")])
    assert result.exit_code == 0
    (note,) = (line for line in result.stderr.splitlines() if "differs from float64 by" in line)
    assert note.startswith("  note: onnxruntime ")
    assert "'t'" in note


def test_a_model_that_nothing_happened_to_says_so(tmp_path: Path) -> None:
    """An operator that nobody can compute, so that the parts would be compared, and no part has changed."""
    text = '<ir_version: 8, opset_import: ["": 15, "d": 1]> g (float[N] x) => (float[N] y) { y = d.Unknown (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    result = CliRunner().invoke(main, ["optimize", str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx")])
    assert "verified without an independent runtime: nothing that is computed has changed; onnxruntime" in result.stderr
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx")])
    assert (
        "note: the whole models were not compared: the original model cannot be run: bnfold has no reference "
        in result.stderr
    )


def test_after_an_interruption_what_is_done_and_how_to_go_on_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    done, left = FileResult("a.onnx", "b/a.onnx", "verified"), FileResult("c.onnx", "b/c.onnx", "failed", INTERRUPTED)
    terminal.batch_summary([done, left, left], table=True)
    told = capsys.readouterr()
    assert "a.onnx" in told.out
    assert "c.onnx" not in told.out
    assert told.err.splitlines() == ["1 verified; 0.0 s", f"{INTERRUPTED}; 2 of 3 models are not done"]


def test_of_many_notes_of_a_kind_a_few_are_shown(tmp_path: Path) -> None:
    """Nine convolutions in a row with a factor each, as exporters spell a normalisation out."""
    chain = "".join(f"c{i} = Conv (y{i}, w{i})  y{i + 1} = Mul (c{i}, a)" for i in range(9))
    weights = ", ".join(f"float[1,1,1] w{i} = {{2}}" for i in range(9))
    text = f"""<ir_version: 8, opset_import: ["": 15]> g (float[N,1,L] y0) => (float[N,1,L] y9)
    <{weights}, float[1,1,1] a = {{3}}> {{ {chain} }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    command = ["fold", str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx"), "--all-affines"]
    folded = re.compile("  note: constant arithmetic folded: .*")
    short = folded.findall(CliRunner().invoke(main, command).stderr)
    assert len(short) == 5
    assert short[-1] == "  note: constant arithmetic folded: 5 more (--verbose has them all)"
    assert len(folded.findall(CliRunner().invoke(main, [*command, "--verbose"]).stderr)) == 9


def test_an_inspection_says_what_is_simplified(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[2] x) => (float[2] y) {
        a = Identity (x) b = Identity (a) y = Relu (b) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    for words in (["inspect"], ["optimize", "--dry-run"]):
        result = CliRunner().invoke(main, [*words, str(tmp_path / "m.onnx")])
        assert result.exit_code == 0, result.stderr
        (row,) = (line for line in result.stderr.splitlines() if line.startswith("nodes "))
        assert row.startswith("nodes 3 → 1: ")
        assert row.endswith("×2")  # noqa: RUF001 - it is one


def test_notes_of_verification_are_printed_with_verbose(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 15, "d": 1]> g (float[N] x) => (float[N] y) { y = d.Unknown (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    words = ["optimize", str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx")]
    note = "  note: the whole models were not compared: "
    assert note not in CliRunner().invoke(main, words).stderr
    assert note in CliRunner().invoke(main, [*words, "--verbose"]).stderr


def test_long_names_in_notes_are_cut_in_the_middle_without_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    name = ";".join(f"layer{number}" for number in range(30))
    note = f"constant arithmetic folded: {name} short"
    terminal._notes([note], verbose=True)
    assert capsys.readouterr().err == f"  note: {note}\n"
    terminal._notes([note], verbose=False)
    shown = capsys.readouterr().err.split()
    assert [len(word) for word in shown[-2:]] == [60, 5]
    assert shown[-2].startswith("layer0;layer1")
    assert shown[-2].endswith(";layer29")


def test_where_no_part_has_changed_none_was_checked() -> None:
    heard = "onnxruntime 1: outputs are identical"
    said = parts_agree(0, "change", heard)
    assert said == f"nothing that is computed has changed, and the whole model was run in {heard}"


LONG = "a_network_with_a_name_that_is_longer_than_half_of_a_line_v1.onnx"


def rows_of_a_folder() -> list[FileResult]:
    counts = Counts(53, 2, {"no-gain": 2}, 1, (1197, 210), 393)
    good = FileResult(f"nets/{LONG}", "o/a", "verified", counts=counts, bytes_before=1_100_000, bytes_after=980_000)
    bad = FileResult("nets/broken.onnx", "o/b", "failed", "nets/broken.onnx: not an ONNX model", seconds=0.25)
    doubt = FileResult("nets/c.onnx", "o/c", "unverified", "too long; next: add --verify full", counts=counts)
    old = FileResult("nets/d.onnx", "o/d", "skipped", "up to date", counts=counts, bytes_before=5, bytes_after=5)
    return [replace(good, seconds=83.0), old, doubt, bad]


def test_a_folder_in_a_pipe_is_a_line_a_model_with_figures_the_doubtful_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal.batch_summary(rows_of_a_folder(), table=True, seconds=140.4)
    told = capsys.readouterr()
    head, *lines = told.out.splitlines()
    assert head.split() == ["model", "in", "nets/", "BatchNormalization", "nodes", "size", "time", "what", "happened"]
    assert [line.split()[:2] for line in lines] == [
        ["broken.onnx", "failed"], ["c.onnx", "unverified"], [LONG, "verified"], ["d.onnx", "skipped"]
    ]  # fmt: skip
    assert lines[0].split()[-4:] == ["not", "an", "ONNX", "model"]
    assert " 53 → 2  1,197 → 210  1.1 → 1.0 MB   1:23  1 replaced by an Add; 2 no-gain" in lines[2]
    assert lines[3].split()[-4:] == ["an", "Add;", "2", "no-gain"]
    sums = "1 failed, 1 unverified, 1 verified, 1 skipped; 3,591 → 630 nodes, 1,179 Constants became initializers"
    assert f"{sums}, 1.1 → 1.0 MB, 2:20" in told.err.splitlines()


@pytest.mark.parametrize(
    ("verified", "said"),
    [
        ([True, True], "2 skipped (verified before); "),
        ([True, False], "2 skipped (1 verified before); "),
        ([False], "1 skipped; "),
    ],
)
def test_what_an_earlier_run_found_of_those_skipped_is_said(
    verified: list[bool], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [FileResult(f"{place}.onnx", "o", "skipped", is_verified=each) for place, each in enumerate(verified)]
    terminal.batch_summary(rows, table=True)
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_folder_on_a_terminal_fits_it(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    tables.models(rows_of_a_folder(), terminal.ORDER)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= columns
    (name,) = (line.split()[0] for line in lines if "verified" in line.split()[1:2])
    assert (name == LONG) == (columns == 120) or "…" in name
    assert name.startswith("a_netw")
    assert name.endswith(".onnx")
    assert lines[2].strip() == "nets/broken.onnx: not an ONNX model", "below its model"


def test_times_and_sizes_of_a_folder() -> None:
    assert [tables.duration(seconds) for seconds in (0.04, 59.94, 59.96, 140, 4000)] == [
        "0.0 s", "59.9 s", "1:00", "2:20", "1:06:40"
    ]  # fmt: skip
    pairs = [(None, None), (5, None), (None, 7), (999_000, 1_001_000), (764e6, 760e6), (900, 900)]
    assert [tables.sizes(*pair) for pair in pairs] == [  # type: ignore[arg-type] # 764e6 is whole
        "-", "5 bytes", "7 bytes", "1.0 MB", "764.0 → 760.0 MB", "900 bytes"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--runtime", "none"], "note: no runtime was asked, because --runtime none was given"),
        (["--verify", "local"], "note: no runtime runs whole models with --verify local"),
        (["--opset", "keep"], "; onnxruntime"),
        (["--opset", "keep", "-v"], "; onnxruntime"),
    ],
)
def test_why_no_runtime_ran_is_said_once(words: list[str], reason: str, tmp_path: Path) -> None:
    line = ["optimize", str(MODELS / "resnet_opset6.onnx"), str(tmp_path / "out.onnx"), *words]
    told = CliRunner().invoke(main, line).stderr
    assert "verified without an independent runtime" in told
    assert ".;" not in told
    assert told.count(reason) == 1


def test_a_runtime_that_did_not_look_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    note = "onnxruntime did not look at the rewritten model: it has more than 1 GB of weights"
    verdict = Verdict("verified", "each of 3 rewrites was checked", "local", code=Code.TESTED, notes=(note, "more"))
    outcome = bnfold.inspect(MODELS / "bn9.onnx")
    assert isinstance(outcome, ProcessedModel)
    terminal.summary(replace(outcome, verdict=verdict), verbose=False, quiet=False, is_refused=False)
    told = capsys.readouterr().err
    assert f"note: {note}" in told
    assert "note: more" not in told


def test_the_table_of_a_folder_has_a_column_for_an_opset_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name in ("bn9", "in_function"):
        shutil.copy(MODELS / f"{name}.onnx", tmp_path / "models")
    (tmp_path / "models" / "broken.onnx").write_bytes(b"no model")
    line = ["convert", "models", "out", "--opset", "16", "--no-verify", "--report", "r.json"]
    for _ in range(2):  # the second time, from what was remembered
        head, *rows = CliRunner().invoke(main, line).stdout.splitlines()
        assert head.split()[3:5] == ["opset", "BatchNormalization"]
        cells = {row.split()[0]: row.split()[2:5] for row in rows}
        assert cells["bn9.onnx"] == ["9", "→", "16"]
        assert cells["broken.onnx"][0] == "-"
    (row,) = (row for row in json.loads(Path("r.json").read_text(encoding="utf-8"))["models"] if "bn9" in str(row))
    assert row["counts"]["opset"] == {"before": 9, "after": 16}
    assert "opset" not in CliRunner().invoke(main, ["fold", "models", "kept", "--no-verify"]).stdout


def test_arithmetic_has_no_version(capsys: pytest.CaptureFixture[str]) -> None:
    from bnfold.cli import tables

    row: dict[str, Any] = {"graph": "", "into": [], "reason": None, "verdict": "kept", "affine": None}
    norms = [
        {**row, "name": "n", "version": 15, "mode": "inference"},
        {**row, "name": "a", "version": 0, "mode": "spelled-out"},
    ]
    tables.batchnorms(norms)
    assert [line.split()[1:3] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["15", "inference"],
        ["-", "affine"],
    ]
