#!/usr/bin/env python
"""Show which tool folds which pattern right: a Markdown table, judged in float64, every tool in its own process.

Needs the peers: `.venv/bin/pip install -e .[peers]`, then `.venv/bin/python scripts/pattern_table.py > table.md`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import _environment
import onnx
from _patterns import (
    asked,
    backward,
    branches,
    demands,
    forward,
    fused,
    listed,
    sampled,
    scopes,
    spelled_out,
    traps,
)
from _patterns.parts import Pattern
from _patterns.verdict import judge

TOOLS = ("bnfold", "onnxruntime", "onnxscript", "onnxsim", "onnxslim", "onnxoptimizer")
SECTIONS = {
    "Can be folded": [
        *backward.ROWS,
        *forward.ROWS,
        *spelled_out.ROWS,
        *listed.EXACT,
        *scopes.EXACT,
        *branches.EXACT,
        *demands.EXACT,
        *sampled.EXACT,
        *fused.EXACT,
        *asked.EXACT,
    ],
    "Traps: leaving alone is right": [
        *traps.ROWS,
        *listed.TRAPS,
        *scopes.TRAPS,
        *branches.TRAPS,
        *demands.TRAPS,
        *sampled.TRAPS,
        *fused.TRAPS,
        *asked.TRAPS,
    ],
}
MARKS = {"folded": "folded", "exchanged": "replaced", "left": "-", "wrong": "**wrong**", "crash": "*crash*"}


def main() -> int:
    """Run all tools; exit code 1 if bnfold is wrong anywhere, or does not fold an exact pattern."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only this one (may be repeated)")
    tools = parser.parse_args().tool or list(TOOLS)
    _environment.require(*tools)
    failed = False
    with tempfile.TemporaryDirectory() as work:
        for index, (title, rows) in enumerate(SECTIONS.items()):
            folder = Path(work) / str(index)
            folder.mkdir()
            for number, row in enumerate(rows):
                onnx.save(row.model(), folder / f"{number:03}.onnx")
                (folder / f"{number:03}.json").write_text(json.dumps(dict(row.options)), encoding="utf-8")
            verdicts = {tool: ask(tool, folder, rows) for tool in tools}
            print(f"\n### {title}\n")
            print_table([row.name for row in rows], verdicts)
            good = {"folded", "exchanged"} if index == 0 else {"folded", "exchanged", "left"}
            failed |= "bnfold" in verdicts and not good.issuperset(verdicts["bnfold"])
    return int(failed)


def ask(tool: str, folder: Path, rows: list[Pattern]) -> list[str]:
    """Return the tool's verdict on each model of a folder. A worker that dies is restarted after its last model."""
    made = folder / tool
    made.mkdir()
    worker = [sys.executable, str(_environment.ROOT / "scripts" / "_patterns" / "worker.py"), tool, str(folder)]
    while len(list(made.glob("*.note"))) < len(rows):
        subprocess.run(worker, capture_output=True, check=False)
    names = [f"{number:03}" for number in range(len(rows))]
    notes = [(made / f"{name}.note").read_text(encoding="utf-8") for name in names]
    return [
        judge(folder / f"{name}.onnx", made / f"{name}.onnx", note, whole=row.whole, measure=row.measure)
        for name, note, row in zip(names, notes, rows, strict=True)
    ]


def print_table(names: list[str], verdicts: dict[str, list[str]]) -> None:
    """Print a row each, and a last one that counts."""
    print("| pattern |", " | ".join(verdicts), "|")
    print("|---|", "---|" * len(verdicts), sep="")
    for number, name in enumerate(names):
        print(f"| {name} |", " | ".join(MARKS[found[number]] for found in verdicts.values()), "|")
    counts = [Counter(found) for found in verdicts.values()]
    totals = [", ".join(f"{count[kind]} {kind}" for kind in MARKS if count[kind]) for count in counts]
    print(f"| **of {len(names)}** |", " | ".join(totals), "|", flush=True)


if __name__ == "__main__":
    sys.exit(main())
