"""Every command of the documentation, the Action and the hook that gates: what must not pass does not."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from click.testing import CliRunner

from bnfold.cli.commands import main
from tests import documents
from tests.conftest import MODELS, ROOT
from tests.test_action import step

pytestmark = pytest.mark.large

HEAD = '<ir_version: 8, opset_import: ["" : 13, "elsewhere" : 1]> g (float[2,3] data) => (float[2,3] y)'
SOUND = f"{HEAD} <float[3] w = {{1.5, 2.5, 3.7}}> {{ h = Mul (data, w)  y = Relu (h) }}"
WRONG = SOUND.replace("3.7", "3.9")
UNKNOWN = f"{HEAD} {{ h = elsewhere.Secret (data)  y = Relu (h) }}"
OTHER = UNKNOWN.replace("Secret (data)", "Secret <level = 2> (data)")
"""Nothing can run either of them, so that nobody knows whether they compute the same."""

GATES = re.compile(
    r"\bbnfold (?:verify\b.*|(?:optimize|fold|convert|upgrade|inspect)\b.*--(?:require-verified|assert-none).*)"
)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("sound", SOUND), ("wrong", WRONG), ("unknown", UNKNOWN), ("other", OTHER)):
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "inputs.npz", data=np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    shutil.copy(MODELS / "bn15_training.onnx", tmp_path / "training.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code(*words: str) -> int:
    return CliRunner().invoke(main, words).exit_code


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("more", [(), ("--tolerance", "0.01"), ("--tolerance", "float16")])
@pytest.mark.parametrize(
    ("pair", "flags", "expected"),
    [
        (("sound", "sound"), (), 0),
        (("sound", "wrong"), (), 1),
        (("sound", "wrong"), ("--allow-unverified",), 1),
        (("unknown", "other"), (), 3),
        (("unknown", "other"), ("--require-verified",), 3),
        (("unknown", "other"), ("--allow-unverified",), 0),
        (("unknown", "other"), ("--require-verified", "--allow-unverified"), 0),
    ],
)
def test_verify(pair: tuple[str, str], flags: tuple[str, ...], expected: int, more: tuple[str, ...]) -> None:
    names = [f"{name}.onnx" for name in pair]
    assert code("verify", *names, *flags, *more) == expected
    assert code("verify", *names, *flags, *more, "--json", "--report", "report.html") == expected


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [("optimize",), ("fold",), ("convert", "--opset", "15"), ("upgrade",)])
def test_the_commands_that_write_end_well_unless_asked(command: tuple[str, ...]) -> None:
    unchecked = (*command, "sound.onnx", "out.onnx", "--no-verify")
    assert code(*unchecked) == 0
    assert code(*unchecked, "--require-verified") == 3


def documented() -> list[str]:
    """The gates in blocks of README.md and docs/, whether these are run or not."""
    pages = (page.read_text(encoding="utf-8") for page in documents.documents())
    blocks = (block for text in pages for block in re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    found = {match[0] for block in blocks for line in block.splitlines() if (match := GATES.search(line))}
    # These ask about one value, or read the files that such a command wrote.
    found = {line for line in found if not re.search(r"--explain|--save|part/", line)}
    return sorted(re.split(r"[;|&`]|  +#| -> ", line)[0].strip() for line in found)


def test_there_are_some_of_each_kind() -> None:
    kinds = {line.split()[1] for line in documented()}
    assert {"verify", "optimize", "inspect"} <= kinds
    assert any("--tolerance" in line for line in documented())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", documented())
def test_what_is_documented_lets_nothing_through(line: str) -> None:
    command, *words = shlex.split(line)[1:]
    options = words[next(index for index, word in enumerate(words) if word.startswith("--")) :] if "--" in line else []
    if command == "verify":
        assert code(command, "sound.onnx", "sound.onnx", *options) == 0
        assert code(command, "sound.onnx", "wrong.onnx", *options) == 1
        assert code(command, "unknown.onnx", "other.onnx", *options) == 3
        return
    output = [] if command == "inspect" or "--in-place" in options else ["out.onnx"]
    if "--assert-none" in options:
        if "--decompose" in options:  # which leaves none
            options = options[options.index("--assert-none") :]
        assert code(command, "training.onnx", *output, *options) == 4
    if "--require-verified" in options:
        assert code(command, "sound.onnx", *output, *options) == 0
        assert code(command, "sound.onnx", *output, *options, "--no-verify") == 3


@pytest.mark.parametrize("arguments", ["", "--tolerance 0.01", "--require-verified"])
def test_the_action_verifies(folder: Path, arguments: str) -> None:
    assert step(folder, COMMAND="verify", MODEL="sound.onnx", OUTPUT="sound.onnx", ARGUMENTS=arguments)[:2] == (0, "")
    wrong, said, _ = step(folder, COMMAND="verify", MODEL="sound.onnx", OUTPUT="wrong.onnx", ARGUMENTS=arguments)
    assert (wrong, "title=bnfold::FAILED: " in said) == (1, True)
    unknown, said, page = step(folder, COMMAND="verify", MODEL="unknown.onnx", OUTPUT="other.onnx", ARGUMENTS=arguments)
    assert (unknown, "title=bnfold::UNVERIFIED: " in said) == (3, True)
    assert "**Failed:** UNVERIFIED: " in page


def test_the_action_lets_through_what_it_is_told_to(folder: Path) -> None:
    told = {"COMMAND": "verify", "ARGUMENTS": "--allow-unverified"}
    assert step(folder, **told, MODEL="unknown.onnx", OUTPUT="other.onnx")[:2] == (0, "")
    assert step(folder, **told, MODEL="sound.onnx", OUTPUT="wrong.onnx")[0] == 1


def test_the_action_optimizes_only_what_it_verifies(folder: Path) -> None:
    assert step(folder, COMMAND="optimize", MODEL="sound.onnx", OUTPUT="out.onnx")[:2] == (0, "")
    code, said, _ = step(folder, COMMAND="optimize", MODEL="sound.onnx", OUTPUT="new.onnx", ARGUMENTS="--no-verify")
    assert (code, "::error file=sound.onnx" in said, (folder / "new.onnx").exists()) == (3, True, False)
    assert step(folder, COMMAND="check", MODEL="training.onnx", REPORT="")[0] == 4


def test_the_hook_passes_neither_what_is_forbidden_nor_what_cannot_be_read(folder: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    words = [*hook["entry"].split()[1:], *hook["args"]]
    (folder / "broken.onnx").write_bytes(b"no model")
    assert code(*words, "sound.onnx") == 0
    assert code(*words, "sound.onnx", "training.onnx") == 4
    assert code(*words, "sound.onnx", "broken.onnx") == 1
    assert code(*words, "nowhere.onnx") != 0
