"""The mistakes of a first day: each is answered by one line that says what was meant, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from bnfold.cli.group import EXAMPLES, GROUPS
from bnfold.cli.habits import COUNTERPARTS
from bnfold.cli.needs import COMMON, NEEDS
from tests.conftest import MODELS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model, a folder of models, an empty folder and a text."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "bn9.onnx", "model.onnx")
    for name in ("many", "empty"):
        Path(name).mkdir()
    shutil.copy(MODELS / "bn9.onnx", "many")
    Path("notes.txt").write_text("hello\n", encoding="utf-8")
    Path("link.json").symlink_to("model.onnx")
    Path("linked.json").symlink_to("many/bn9.onnx")
    Path("name.json").hardlink_to("notes.txt")
    onnx.save(onnx.load("model.onnx"), "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    Path("big.html").symlink_to("big.data")
    np.savez("inputs.npz", x=np.zeros((2, 3, 8, 8), np.float32))
    Path("inputs.json").hardlink_to("inputs.npz")
    return tmp_path


def run(line: str) -> Result:
    return CliRunner().invoke(main, line.split())


def files(folder: Path) -> dict[str, bytes]:
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in paths}


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        # paths
        ("modle.onnx out.onnx", 1, "modle.onnx: cannot be read: No such file or directory"),
        ("optimize out.onnx model.onnx", 1, "out.onnx: cannot be read"),
        ("model.onnx notes.txt/out.onnx", 1, "notes.txt is a file, not a folder"),
        (
            "model.onnx model.onnx",
            2,
            "OUT is the input file. Choose another name, or add --in-place.",
        ),
        ("empty out", 1, "empty: no .onnx files there"),
        ("no*.onnx out", 1, "no*.onnx: no .onnx files there"),
        ("many many", 2, "many: is the folder of the models; choose another one"),
        ("many out.onnx", 2, "many is a folder, so OUT must be a folder too, not out.onnx"),
        ("many notes.txt", 2, "notes.txt: is a file, but 1 models need a folder"),
        ("notes.txt out.onnx", 1, "notes.txt: not an ONNX model: a text file"),
        ("inspect notes.txt", 1, "not an ONNX model: a text file"),
        ("verify many model.onnx", 2, "model.onnx: is a file, and many is compared with a folder; name a folder"),
        # one file by two names
        (
            "model.onnx out.onnx --report link.json",
            2,
            "link.json: the report would overwrite the input",
        ),
        ("model.onnx link.json --report link.json --in-place", 2, "the report would overwrite the output"),
        ("model.onnx - --report link.json", 2, "link.json: the report would overwrite the input"),
        ("inspect model.onnx --report link.json", 2, "link.json: the report would overwrite the input"),
        ("inspect many --report linked.json", 2, "the report would overwrite the input many/bn9.onnx"),
        ("many out --report linked.json", 2, "the report would overwrite the input many/bn9.onnx"),
        ("many empty --external-data why.json --report empty/why.json", 2, "overwrite the data file of empty/bn9.onnx"),
        ("many out --scheduler name.json --report name.json", 2, "the report would overwrite the scheduler file"),
        ("many out --data notes.txt --report name.json", 2, "the report would overwrite the recorded inputs"),
        ("model.onnx out.json --report out.json", 2, "the report would overwrite the output"),
        ("model.onnx out.json --report empty/../out.json", 2, "the report would overwrite the output"),
        ("model.onnx out.onnx --external-data why.json --report why.json", 2, "overwrite the data file of the output"),
        (
            "model.onnx out.onnx --keep-failed why.json --report why.json",
            2,
            "the report would overwrite a failed result",
        ),
        ("model.onnx out.onnx --data inputs.npz --report inputs.json", 2, "would overwrite the recorded inputs"),
        ("model.onnx inputs.npz --data inputs.npz", 2, "inputs.npz: the output would overwrite the recorded inputs"),
        ("model.onnx out.onnx --keep-failed inputs.npz --data inputs.npz", 2, "would overwrite the recorded inputs"),
        ("model.onnx out.onnx --keep-failed model.onnx", 2, "model.onnx: a failed result would overwrite the input"),
        ("model.onnx model.onnx --in-place --keep-failed model.onnx", 2, "a failed result would overwrite the output"),
        ("model.onnx out.onnx --keep-failed out.onnx", 2, "out.onnx: a failed result would overwrite the output"),
        ("model.onnx out.onnx --keep-failed w --external-data w", 2, "would overwrite the data file of"),
        ("model.onnx out.onnx --external-data out.onnx", 2, "the output would overwrite the data file of the output"),
        ("big.onnx big.data", 2, "big.data: the output would overwrite the input's data; choose another name"),
        ("big.onnx out.onnx --keep-failed big.data", 2, "big.data: a failed result would overwrite the input's data"),
        ("big.onnx out.onnx --report big.html", 2, "big.html: the report would overwrite the input's data"),
        ("inspect big.onnx --report big.html", 2, "big.html: the report would overwrite the input's data"),
        ("model.onnx out.onnx --keep-failed many", 2, "is a directory"),
        ("model.onnx out.onnx --keep-failed notes.txt/bad.onnx", 1, "notes.txt is a file, not a folder"),
        # too few and too many words
        ("model.onnx", 2, "as in `bnfold optimize model.onnx out.onnx`"),
        ("fold many", 2, "as in `bnfold fold many out.onnx`"),
        ("verify model.onnx", 2, "Missing argument 'AFTER'"),
        ("inspect model.onnx out.onnx", 1, "out.onnx: cannot be read: No such file or directory"),
        ("optimise model.onnx out.onnx", 2, "Did you mean 'optimize'?"),
        ("squeeze model.onnx out.onnx", 2, "neither a command (optimize, fold, upgrade, convert, inspect, verify, "),
        ("downgrade", 2, "use `bnfold convert IN OUT --opset N`"),
        ("convert model.onnx out.onnx", 2, "Missing option '--opset' or '--ir-version'"),
        ("convert model.onnx out.onnx --opset low", 2, "'low' is neither an opset number nor"),
        ("convert model.onnx out.onnx --ir-version 2", 2, "2 is not possible: the installed onnx"),
        ("model.onnx out.onnx 3", 2, "use --samples 3"),
        ("a.onnx b.onnx c.onnx out", 1, "a.onnx: cannot be read: No such file or directory"),
        # options of other tools
        ("model.onnx out.onnx --overwrite-input-shape x:1,3,8,8", 2, "--fix-shapes NAME=1,3,224,224"),
        ("--input-shape x:1,3,8,8 model.onnx out.onnx", 2, "--input NAME=1,3,224,224"),
        ("model.onnx out.onnx --model-check", 2, "bnfold always verifies"),
        ("model.onnx out.onnx --save-as-external-data", 2, "--external-data NAME.data"),
        ("model.onnx out.onnx --dtype fp16", 2, "run bnfold first"),
        ("model.onnx -o out.onnx", 2, "the output is the second argument"),
        ("model.onnx out.onnx --skip-fuse-bn", 2, "`bnfold upgrade`, which does not fold"),
        ("model.onnx out.onnx --inplace", 2, "--in-place"),
        ("-V", 2, "use --version"),
        # values
        ("model.onnx out.onnx --target-opset 99", 2, "opset 99 does not exist"),
        (
            "model.onnx out.onnx --opset 13 --target-opset 14",
            2,
            "13 and 14 contradict each other: --opset and ",
        ),
        ("convert model.onnx out.onnx --opset 13 --opset keep", 2, "13 and keep contradict each other"),
        ("model.onnx out.onnx --input x/1,3", 2, "is not of the form NAME=2,3,224,224"),
        ("run model.onnx out.onnx python -c 1", 2, "bnfold's options come first, then IN OUT -- COMMAND"),
        ("model.onnx out.onnx --input nothere=1,3,8,8", 2, "the model has no input 'nothere'; its inputs are "),
        ("model.onnx out.onnx --input x=1,3", 1, "has 4 dimensions, the shape given has 2: (1, 3)"),
        ("model.onnx out.onnx --data nowhere.npz", 2, "'nowhere.npz' does not exist"),
        ("model.onnx out.onnx --data notes.txt", 1, "not an .npz archive"),
        ("model.onnx out.onnx --report why.txt", 2, "ends neither in .json nor in .html"),
        ("model.onnx out.onnx --report notes.txt/why.json", 1, "notes.txt is a file, not a folder"),
        ("model.onnx out.onnx --assert-none Batchnorm", 2, "did you mean BatchNormalization?"),
        ("model.onnx out.onnx --only conv", 2, "--only: there is no operator 'conv'; did you mean Conv?"),
        ("model.onnx out.onnx --except Foo", 2, "--except: there is no operator 'Foo'"),
        ("model.onnx out.onnx --decompose-ops BN", 2, "--decompose-ops: there is no operator 'BN'"),
        (
            "model.onnx out.onnx --external-data ../w.data",
            2,
            "takes a plain file name, not '../w.data'; the data file",
        ),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(line: str, code: int, told: str, folder: Path) -> None:
    before = files(folder)
    result = run(line)
    assert result.exit_code == code, result.output
    assert told in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert len([text for text in result.stderr.splitlines() if text.startswith(("bnfold: ", "Error: "))]) == 1
    assert files(folder) == before


@pytest.mark.parametrize("wanted", [["--json"], ["--report", "why.json"]])
def test_what_a_report_cannot_say_is_told_before_the_result_is_in_place(wanted: list[str], folder: Path) -> None:
    """The variance claims three elements and has none, and the mean is nobody's, so that nothing else reads it."""
    body = "g (float[2,3,4] x, float[3] m) => (float[2,3,4] y) { y = BatchNormalization (x, s, s, m, v) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> {body}')
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(3, np.float32), "s"))
    proto.graph.initializer.append(onnx.TensorProto(name="v", data_type=1, dims=[3]))
    Path("lies.onnx").write_bytes(proto.SerializeToString())
    before = files(folder)
    line = ["optimize", "lies.onnx", "out.onnx", "--decompose", "remaining", "--no-verify", *wanted]
    result = CliRunner().invoke(main, line)
    assert (result.exit_code, "does not fit its dims" in result.stderr) == (1, True), result.stderr
    assert files(folder) == before


def test_html_without_jinja2_is_told_before_any_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.cli.publish.find_spec", lambda _: None)
    before = files(folder)
    result = run("model.onnx out.onnx --report why.html")
    assert result.exit_code == 1
    assert "pip install jinja2" in result.stderr
    assert files(folder) == before


def test_openvino_that_is_not_installed_is_told_before_any_work(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("bnfold.settings.result.find_spec", lambda _: None)
    before = files(folder)
    result = run("model.onnx out.onnx --runtime openvino")
    assert result.exit_code == 2
    assert "pip install openvino" in result.stderr
    assert files(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        "-q model.onnx out.onnx",
        "--target-opset 18 model.onnx out.onnx",
        "--target-opset 18 --opset 18 model.onnx out.onnx",
    ],
)
def test_options_may_come_before_the_model_without_a_command(line: str, folder: Path) -> None:
    assert run(line).exit_code == 0
    assert (folder / "out.onnx").exists()


def test_a_folder_without_a_command_is_optimized(folder: Path) -> None:
    assert run("many out").exit_code == 0
    assert (folder / "out" / "bn9.onnx").exists()


@pytest.mark.parametrize("option", COUNTERPARTS)
def test_no_counterpart_hides_an_option_of_our_own(option: str) -> None:
    result = run(f"model.onnx out.onnx {option}")
    assert result.exit_code == 2
    assert COUNTERPARTS[option] in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "command", ["", "optimize", "fold", "upgrade", "inspect", "run", "verify", "diff", "completion"]
)
def test_help_has_examples_that_fit_a_line(command: str) -> None:
    shown = run(f"{command} --help").stdout
    _, _, after = shown.partition("Examples:\n")
    examples, _, _ = after.partition("\n\n")
    assert [line.split("  ")[1] for line in examples.splitlines()] == [text for text, _ in EXAMPLES[command or "main"]]
    assert max(map(len, examples.splitlines())) <= 80
    assert not command or len(shown.partition("Examples:\n")[0].splitlines()) < 14  # on the first screen


def test_every_option_is_in_a_group_of_the_long_help() -> None:
    grouped = {name for names in GROUPS.values() for name in names}
    assert grouped >= COMMON
    for name, command in main.commands.items():
        short = CliRunner().invoke(main, [name, "--help"]).stdout
        is_all_shown = "--help-all" not in short
        shown = short if is_all_shown else CliRunner().invoke(main, [name, "--help-all"]).stdout
        listed = [option for option in command.params if isinstance(option, click.Option)]
        assert {option.name for option in listed if option.expose_value} <= grouped, name
        assert all(any(f"{flag} " in shown or f"{flag}," in shown for flag in option.opts) for option in listed), name
        assert "help(" not in shown, "nobody is sent elsewhere"
        rare = [option for option in listed if option.name in grouped - COMMON]
        assert bool(rare) != is_all_shown, name
        assert not rare or f"{len(rare)} more options: " in short
        for option in rare:
            assert f"  {option.opts[-1]} " not in short, name


def test_the_long_help_of_all_commands_has_every_option() -> None:
    shown = run("--help-all").stdout
    for name, command in main.commands.items():
        assert f"bnfold {name} " in shown or f"main {name} " in shown
        assert all(option.opts[-1] in shown for option in command.params if isinstance(option, click.Option)), name


def test_a_need_leads_to_a_command_that_has_the_option() -> None:
    shown = run("--help").stdout
    for need, line in NEEDS:
        name, *words = line.partition(" -- ")[0].split()
        flags = {flag for option in main.commands[name].params for flag in option.opts}
        assert {word for word in words if word.startswith("-")} <= flags, line
        assert f"{need} " in shown
        assert f"bnfold {line}\n" in shown
        assert all(len(row) <= 80 for row in shown.splitlines() if f"bnfold {line}" in row), line


@pytest.mark.parametrize("line", [line for _, line in NEEDS if line.startswith(("optimize", "fold", "conv", "insp"))])
def test_a_need_is_met_by_what_the_help_says(line: str) -> None:
    if "onnxruntime" in line or "--latency" in line:
        pytest.importorskip("onnxruntime")
    told = {"OUT/": "out", "IN/": "many", "OUT": "out.onnx", "IN": "model.onnx", "NAME": "remove-identity"}
    told["x=1,3,8,8"] = "x=1,3,7,9"
    words = [told.get(word, word) for word in line.split()]
    if not {"--verify", "--require-verified", "--explain", "inspect"} & {*words}:
        words.append("--no-verify")
    result = run(" ".join(words))
    assert result.exit_code == (4 if "--assert-none" in line else 0), result.output


@pytest.mark.parametrize("line", sorted({line for rows in EXAMPLES.values() for line, _ in rows}))
def test_examples_of_the_help_work(line: str) -> None:
    for name in ("in.onnx", "a.onnx", "before.onnx", "half.onnx"):
        shutil.copy("model.onnx", name)
    for name in ("pass.py", "half.py"):
        Path(name).write_text("import shutil, sys; shutil.copy(*sys.argv[1:])", encoding="utf-8")
    assert run("model.onnx after.onnx").exit_code == 0
    shutil.copytree("many", "models")
    for name in ("pass.py", "to_fp16.py"):
        Path(name).write_text("import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])", encoding="utf-8")
    words = line.replace("x=1,3,224,224", "x=1,3,7,9").removeprefix("bnfold ")
    result = run(words)
    expected = 1 if words.startswith("diff") else 4 if "--assert-none" in line and "--as-is" in line else 0
    assert result.exit_code == expected, result.output
