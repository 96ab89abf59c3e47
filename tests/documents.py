"""The blocks of README.md and docs/ that are run: what is in them, what files they want, what they should show.

A fenced block below a line ``<!-- run -->`` is run; ``<!-- run: a.onnx as b.onnx, needs PACKAGE -->`` says which of
models/ it finds in its folder, and under which name (else resnet_opset6.onnx as model.onnx; ``models/`` is a folder of
three), and what has to be installed. The blocks under one heading that want the same share a folder. ``$`` lines of a
``console`` block are run by bash, what follows them must be among what they print, in that order: ``…`` stands for
anything, and times and errors may differ. ``python`` blocks are run as programs; a block below ``<!-- output -->`` is
what the one before printed; ``<!-- run: saved as a.py -->`` leaves a
program there under this name. Of ``yaml`` and ``dockerfile`` blocks the lines that call bnfold are run;
``python -m tests.documents`` prints those that install it as well, for .ci/run, which has a new environment for them.
``<!-- not run: WHY -->`` stands above what cannot be run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import MODELS, ROOT

_BLOCK = re.compile(
    r"^(?P<heading>\#\#\#?\ [^\n]*)$"
    r"|^<!--\ (?P<marker>run|output)(:\ (?P<wants>[^>]*))?\ -->\n+```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_SHOWN = re.compile(r"…|\d+\.\d+ s\b|\d\.\d+e[+-]\d\d")
_SAVED = re.compile(r"(?:, )?saved as (\S+\.py)")
_FOLDER = {"float16.onnx": "float16.onnx", "mlp.onnx": "mlp.onnx", "depthwise.onnx": "old/depthwise.onnx"}


@dataclass(frozen=True)
class Block:
    """One block to run; ``shows`` is the block below it that says what it prints, ``file`` what it is saved as."""

    language: str
    body: str
    shows: str = ""
    file: str = ""


@dataclass
class Part:
    """The blocks under one heading that want the same files."""

    document: Path
    heading: str
    wants: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def needs(self) -> list[str]:
        """Packages that have to be there."""
        return re.findall(r"needs (\w+)", self.wants)

    def prepare(self, folder: Path) -> None:
        """Put the files there that the blocks find."""
        wanted = [item.strip() for item in self.wants.split(",") if item.strip() and "needs" not in item]
        for item in wanted or ["resnet_opset6.onnx as model.onnx"]:
            if item == "models/":
                for name, place in _FOLDER.items():
                    (folder / "models" / place).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(MODELS / name, folder / "models" / place)
                continue
            name, _, alias = item.partition(" as ")
            shutil.copy(MODELS / name, folder / (alias or name))


def documents() -> list[Path]:
    """README.md and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def parts() -> list[Part]:
    """What is to be run, in the order of the pages."""
    return [part for document in documents() for part in read(document)]


def read(document: Path) -> list[Part]:
    """The parts of one page."""
    found: dict[tuple[str, str], Part] = {}
    heading, last = "", None
    for match in _BLOCK.finditer(document.read_text(encoding="utf-8")):
        if match["heading"]:
            heading = match["heading"].strip("# ")
        elif match["marker"] == "output":
            assert last is not None, f"{document}: an output without a program"
            last.blocks[-1] = replace(last.blocks[-1], shows=match["body"])
        else:
            saved = _SAVED.search(match["wants"] or "")
            wants = _SAVED.sub("", match["wants"] or "")
            last = found.setdefault((heading, wants), Part(document, heading, wants))
            last.blocks.append(Block(match["language"], match["body"], file=saved[1] if saved else ""))
    return list(found.values())


def run(block: Block, folder: Path, environment: dict[str, str], *, python: str = sys.executable) -> None:
    """Run a block in ``folder``; AssertionError where it fails, or does not print what is shown."""
    if block.language == "python":
        program = folder / (block.file or "program.py")
        program.write_text(block.body, encoding="utf-8")
        printed = _call([python, program.name], folder, environment)
        if not block.file:
            program.unlink()
        compare(block.shows.splitlines(), printed)
        return
    for command, shown in commands(block):
        compare(shown, _call(["bash", "-o", "pipefail", "-c", command], folder, environment))


def commands(block: Block, *, programs: str = "bnfold") -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, and the lines shown below it; of files for other tools those that run ``programs``."""
    if block.language != "console":
        for command in re.findall(rf"(?:run:|RUN) ((?:{programs}) .*)$", block.body, re.MULTILINE):
            yield command, []
        for command in re.findall(r'^ENTRYPOINT \["(.*)"\]$', block.body, re.MULTILINE):
            yield f"{command} model.onnx out.onnx", []
        return
    for piece in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        lines = piece.replace("\\\n", " ").splitlines()
        yield lines[0], lines[1:]


def compare(shown: list[str], printed: str) -> None:
    """Each line that is shown must be printed, in the order shown; more may be printed."""
    rest = iter(printed.splitlines())
    for line in shown:
        pattern = _pattern(line)
        assert any(re.fullmatch(pattern, candidate.rstrip()) for candidate in rest), f"{line!r} is not in:\n{printed}"


def _pattern(line: str) -> str:
    """The line as it is, but for ``…``, seconds, and errors in scientific notation."""
    pieces = {"…": ".*"}
    found = _SHOWN.findall(line)
    texts = [re.escape(text) for text in _SHOWN.split(line.rstrip())]
    holes = [pieces.get(hole, r"\d+\.\d+ s" if hole.endswith("s") else r"\d\.\d+e[+-]\d\d") for hole in found]
    return "".join(text + hole for text, hole in zip(texts, [*holes, ""], strict=True))


def _call(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"{command[-1]}\nexit code {done.returncode}\n{done.stdout}"
    return done.stdout


def unmarked(document: Path) -> list[str]:
    """The first lines of fenced blocks without a word on whether they are run."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"^(.*)\n+```\w*\n(.*)\n(?:.*\n)*?```$", text, re.MULTILINE)
    return [first for above, first in blocks if not re.fullmatch(r"<!-- (run(: .*)?|output|not run: .+) -->", above)]


def for_other_tools() -> list[str]:
    """The commands of the Dockerfiles and of the CI job, in their order; all of them are about model.onnx."""
    blocks = [block for part in parts() for block in part.blocks if block.language in ("dockerfile", "yaml")]
    return [command for block in blocks for command, _ in commands(block, programs="bnfold|pip")]


if __name__ == "__main__":
    sys.stdout.write("\n".join(for_other_tools()) + "\n")
