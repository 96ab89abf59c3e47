#!/usr/bin/env python
"""Count the BatchNormalizations and the nodes that each tool leaves in real networks: a Markdown table.

The networks are those of a folder with an INDEX.tsv that have BatchNormalizations with constant parameters, and any
files that are named. Every tool works on every network in a process of its own, with a time limit. Its result is
compared with the original in onnxruntime, at two choices of dynamic sizes if it runs at both; if onnxruntime cannot run
both, or they differ, in float64. "0 of 23" means no BatchNormalization among 23 nodes that are no Constant; *folded*
and *replaced* (by an Add) are bnfold's. The last lines compare bnfold with the simplifier that leaves the fewest
nodes of a network, of those whose result is right. Marks:

* "wrong": the results differ in float64;
* "?": float64 evaluation is impossible, too (plugin operators);
* "wrong shape": an output does not have its declared shape;
* "fixed sizes": an input that was open takes one size only;
* "new inputs": callers would have to set more inputs than before.

Needs the peers: `.venv/bin/pip install -e .[peers]`, then `.venv/bin/python scripts/corpus_table.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _environment import CORPUS, require, require_files
from _patterns.networks import Outcome, beside, listed, outcome, outcome_of

import bnfold
from bnfold.settings import VerifyOptions

TOOLS = ("bnfold optimize", "onnxruntime basic", "onnxscript", "onnxsim", "onnxslim", "onnxoptimizer")


def main() -> int:
    """Run all tools; exit code 1 if bnfold is wrong anywhere, or crashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="further networks")
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="DIR", help="a folder with an INDEX.tsv")
    parser.add_argument("--only", default="", metavar="TEXT", help="networks whose path contains TEXT")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only this one (may be repeated)")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds for one network (120)")
    parser.add_argument("--budget", type=float, default=30, metavar="S", help="seconds to compare one in (30)")
    arguments = parser.parse_args()
    tools = arguments.tool or TOOLS
    require(*(tool.split()[0] for tool in tools))
    found = listed(arguments.corpus) if (arguments.corpus / "INDEX.tsv").is_file() else []
    networks = require_files(
        [*found, *arguments.files],
        sought=f"network in {arguments.corpus / 'INDEX.tsv'}",
        only=arguments.only,
    )
    print("| network | folded | replaced | before |", " | ".join(tools), "|")
    print("|---|---|---|---|", "---|" * len(tools), sep="")
    found_by: dict[str, list[Outcome]] = {"before": [], **{tool: [] for tool in tools}}
    fates: Counter[str] = Counter()
    for path in networks:
        found_by["before"].append(outcome_of(path))
        for tool in tools:
            with tempfile.TemporaryDirectory() as work:
                found_by[tool].append(outcome(tool, path, Path(work), arguments.timeout, arguments.budget))
        own = _fates(path)
        fates += own
        name = path.relative_to(arguments.corpus) if path.is_relative_to(arguments.corpus) else path.name
        cells = [f"{rows[-1]}" for rows in found_by.values()]
        print(f"| {name} | {own['folded']} | {own['exchanged']} |", " | ".join(cells), "|", flush=True)
    totals = [_total(rows) for rows in found_by.values()]
    print(f"| **all {len(networks)}** | {fates['folded']} | {fates['exchanged']} |", " | ".join(totals), "|")
    for line in beside([path.stem for path in networks], found_by):
        print(line)
    return int(any("*" in row.mark for row in found_by.get("bnfold optimize", ())))


def _fates(path: Path) -> Counter[str]:
    """Count what became of the BatchNormalizations of a network with bnfold's default options."""
    try:
        rewritten = bnfold.optimize(path, verify=VerifyOptions(depth="none"))
    except bnfold.BnfoldError:
        return Counter()
    return Counter(row["verdict"] for row in rewritten.report.to_json()["batchnorms"])


def _total(rows: list[Outcome]) -> str:
    """Return all BatchNormalizations and nodes of a column, and how many results have which mark."""
    nodes, batchnorms = sum(row.nodes for row in rows), sum(row.batchnorms for row in rows)
    return f"{batchnorms} of {nodes} ({_described(Counter(row.mark for row in rows))})"


def _described(marks: Counter[str]) -> str:
    words = {"": "right", "?": "not comparable"}
    return ", ".join(f"{count} {words.get(mark, mark.strip('*'))}" for mark, count in sorted(marks.items()))


if __name__ == "__main__":
    sys.exit(main())
