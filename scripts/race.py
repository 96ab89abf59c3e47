#!/usr/bin/env python
"""Measure processor seconds of bnfold, verified and not, and of onnxslim, over a folder of networks: a Markdown table.

Each tool works on each network in a process of its own, one after the other, with a time limit. A cell has the
processor seconds of the whole process tree, the nodes and the BatchNormalizations that are left, and for bnfold the
verdict. At the end there are the median, the nine tenths, the worst and the sum of each column, and of its ratio to
onnxslim (for `--simplify`: to itself without verification). Needs onnxslim: `.venv/bin/pip install -e .[peers]`, then
`.venv/bin/python scripts/race.py FOLDER`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from _environment import ROOT, require, require_models  # first, for its message to users of another Python

# isort: split
from _bench import measure, table, tools
from _patterns.networks import left

_VERDICTS = {
    "verified:": "verified",
    "verified": "verified",  # without an independent runtime
    "UNVERIFIED:": "UNVERIFIED",
    "FAILED:": "FAILED",
    "not": "not verified",
}

OPTIONS = {
    "default": (),
    "no-simplify": ("--no-simplify",),
    "no-verify": ("--no-verify",),
    "local": ("--verify", "local"),
    "simplify": ("--simplify",),
    "simplify no-verify": ("--simplify", "--no-verify"),
    "onnxslim after": ("--simplify", "onnxslim"),
    "onnxslim after, no-verify": ("--simplify", "onnxslim", "--no-verify"),
}
"""bnfold's arguments, by the tool's name."""

BESIDE = {
    "default": "onnxslim",
    "no-simplify": "onnxslim",
    "local": "onnxslim",
    "simplify": "simplify no-verify",
    "onnxslim after": "onnxslim after, no-verify",
}
"""The column that a ratio is taken of."""


class Result(NamedTuple):
    """A tool's result on a network; without ``seconds`` there is none."""

    seconds: float | None
    text: str
    nodes: int = 0


def main() -> int:
    """Run all tools; exit code 1 if a run failed or did not end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="FOLDER", help="networks, or folders of them")
    parser.add_argument("--tool", action="append", choices=[*OPTIONS, "onnxslim"], help="only this (may be repeated)")
    parser.add_argument("--at-least", type=int, default=0, metavar="BYTES", help="leave out smaller files")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds for one run (300)")
    arguments = parser.parse_args()
    names = arguments.tool or ["onnxslim", *OPTIONS]
    require(*(["onnxslim"] if "onnxslim" in names else []))
    networks = require_models(arguments.paths, sought="network", at_least=arguments.at_least)
    print(table.head(["network", *names]))
    rows = []
    for network in networks:
        with tempfile.TemporaryDirectory() as work:
            row = {name: raced(name, network.resolve(), Path(work), arguments.timeout) for name in names}
        print(f"| {network.name} |", " | ".join(result.text for result in row.values()), "|", flush=True)
        rows.append(row)
    for line in summary(names, rows):
        print(line)
    return int(any(result.seconds is None for row in rows for result in row.values()))


def raced(name: str, source: Path, folder: Path, timeout: float) -> Result:
    """Run a tool on a network in a process of its own."""
    out = folder / "out.onnx"
    out.unlink(missing_ok=True)
    tool = tools.bnfold(name, ROOT, "optimize", *OPTIONS[name]) if name in OPTIONS else tools.peer(name)
    run = measure.process(tool.command(source, out), folder, timeout, tool.environment)
    if not out.is_file():
        return Result(None, f"exit {run.code}")
    nodes, norms = left(out)
    rolled_back = ", rolled back" if "rolled back" in run.errors else ""
    return Result(run.cpu, f"{run.cpu:.2f} s, {nodes}, {norms}{_verdict(run.errors)}{rolled_back}", nodes)


def _verdict(text: str) -> str:
    """Return the verdict in bnfold's output."""
    heads = (line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip())
    return next((f", {_VERDICTS[head]}" for head in heads if head in _VERDICTS), "")


def summary(names: Sequence[str], rows: Sequence[dict[str, Result]]) -> list[str]:
    """Return the last rows of the table: the distributions of seconds and of ratios."""
    columns = {tool: [row[tool].seconds for row in rows] for tool in names}
    lines = []
    for what, find in {**table.DISTRIBUTION, "sum": sum}.items():
        cells = []
        for tool in names:
            seconds = [second for second in columns[tool] if second is not None]
            beside = columns.get(BESIDE.get(tool, ""), [None] * len(rows))
            ratios = [a / b for a, b in zip(columns[tool], beside, strict=True) if a is not None and b]
            shown = f"; {find(ratios):.2f} x" if ratios and find is not sum else ""
            cells.append(f"{find(seconds):.2f} s{shown}" if seconds else "")
        lines.append(f"| **{what}** | " + " | ".join(cells) + " |")
    common = [row for row in rows if all(result.seconds is not None for result in row.values())]
    cells = [str(sum(row[tool].nodes for row in common)) for tool in names]
    return [*lines, f"| **nodes of {len(common)} networks** | " + " | ".join(cells) + " |"]


if __name__ == "__main__":
    sys.exit(main())
