"""The tools of the benchmark: bnfold's command line, a file copy, and every peer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from _bench.cases import Case

ROOT = Path(__file__).resolve().parent.parent.parent
_PEERS = Path(__file__).with_name("peers.py")
_PEERS_OF = {
    "optimize": ("onnx", "onnxruntime", "onnxscript", "onnxsim", "onnxslim", "onnxoptimizer"),
    "upgrade": ("onnx", "version_converter"),
}
TOOLS = ("bnfold", "cp", "python", *dict.fromkeys(name for names in _PEERS_OF.values() for name in names))
_BNFOLD = "import sys; from bnfold.__main__ import run; sys.exit(run())"  # as the installed command does

Command = Callable[[Path, Path], list[str]]


@dataclass(frozen=True)
class Tool:
    """A program that turns an input file into an output file.

    Attributes:
        name: Name of the row.
        command: Arguments for a given input and output.
        rewrites: Whether BatchNormalizations are counted in its output.
        environment: Variables to set.
    """

    name: str
    command: Command
    rewrites: bool = True
    environment: dict[str, str] = field(default_factory=dict)


def tools_for(case: Case, against: Path | None, *, verified: bool = False) -> list[Tool]:
    """Return the tools that can do the case's job, bnfold first, then the file copy.

    bnfold runs without verification, as the peers do. With ``verified`` it also runs with the default and locally.
    """
    checkouts = {"bnfold": ROOT} | ({f"bnfold in {against.name}": against} if against else {})
    if case.job == "start":
        bare = Tool("python", lambda *_: [sys.executable, "-c", "pass"], rewrites=False)
        return [*(bnfold(name, path, "--help") for name, path in checkouts.items()), bare]
    bnfolds = [bnfold(name, path, case.job, "--no-verify", "--quiet") for name, path in checkouts.items()]
    if verified and case.job == "optimize":
        bnfolds += [bnfold("bnfold, verified", ROOT, case.job, "--quiet")]
        bnfolds += [bnfold("bnfold, local", ROOT, case.job, "--quiet", "--verify", "local")]
    return [*bnfolds, Tool("cp", _copy, rewrites=False), *map(peer, _PEERS_OF.get(case.job, ()))]


def packages_of(cases: Iterable[Case], wanted: Collection[str] | None) -> list[str]:
    """Return the packages that the cases need; ``wanted`` are the tools to measure, or None for all."""
    names = dict.fromkeys(name for case in cases for name in _PEERS_OF.get(case.job, ()))
    names.pop("version_converter", None)  # a part of onnx
    return [name for name in names if wanted is None or name in wanted]


def bnfold(name: str, checkout: Path, *words: str) -> Tool:
    """Return the ``bnfold`` of a checkout: its command and options are ``words``."""

    def command(source: Path, out: Path) -> list[str]:
        files = [] if words == ("--help",) else [str(source), str(out)]
        return [sys.executable, "-c", _BNFOLD, words[0], *files, *words[1:]]

    return Tool(name, command, rewrites=words != ("--help",), environment={"PYTHONPATH": str(checkout)})


def _copy(source: Path, out: Path) -> list[str]:
    """Copy every byte and share no block, as a file system without reflinks has to."""
    flags = ["--reflink=never"] if sys.platform == "linux" else []
    return ["cp", *flags, *(str(path) for path in sorted(source.parent.iterdir())), str(out.parent)]


def peer(name: str) -> Tool:
    """Return another tool by its name in `peers.py`."""

    def command(source: Path, out: Path) -> list[str]:
        return [sys.executable, str(_PEERS), name, str(source), str(out)]

    return Tool(name, command, rewrites=name != "onnx")
