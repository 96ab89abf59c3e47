#!/usr/bin/env python3
"""Time bnfold beside a file copy and the other tools: whole processes, in interleaved rounds, on generated models.

Needs the project's environment with the peers: `.venv/bin/pip install -e .[peers]`, then `.venv/bin/python
scripts/benchmark.py`. The models stay in --work for the next time. Memory is the child's peak resident set; "ulps W"
and "ulps b" are the largest errors of folded Conv weights and biases against extended precision.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import _environment  # first, for its message to users of another Python
from _bench import cases, table
from _bench.measure import paired
from _bench.tools import ROOT, TOOLS, packages_of, tools_for

_QUALITY = ROOT / "scripts" / "_bench" / "quality.py"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="tiny models, two rounds: does everything work?")
    size.add_argument(
        "--large", action="store_true", help="also a 1.5 GB file and 4 GB of external data (20 GB of disk)"
    )
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="bnfold and these tools only")
    parser.add_argument("--verified", action="store_true", help="also bnfold with verification, by default and local")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds that count (7)")
    parser.add_argument(
        "--timeout", type=float, default=180, metavar="S", help="seconds after which a tool is given up"
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="also time the bnfold of another checkout")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement to FILE")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "benchmark", metavar="DIR", help="where models are kept"
    )
    return parser.parse_args()


def selected(arguments: argparse.Namespace) -> list[cases.Case]:
    """Return the chosen cases."""
    known = cases.QUICK if arguments.quick else [*cases.STANDARD, *(cases.LARGE if arguments.large else [])]
    found = [case for case in known if not arguments.only or any(text in case.name for text in arguments.only)]
    if not found:
        sys.exit(f"scripts/benchmark.py: no case is called so; there are {', '.join(case.name for case in known)}")
    return found


def measure(case: cases.Case, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one case: make the model, run all tools, print the table."""
    source = case.make(arguments.work / "models").resolve()
    tools = tools_for(case, arguments.against.resolve() if arguments.against else None, verified=arguments.verified)
    if arguments.tool:
        tools = [tool for tool in tools if tool.name.startswith("bnfold") or tool.name in arguments.tool]

    def judge(out: Path) -> dict[str, float | None]:
        command = [sys.executable, str(_QUALITY), str(source), str(out)]
        result: dict[str, float | None] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return result

    rounds = arguments.rounds or (2 if arguments.quick else 7)
    folder = (arguments.work / "out").resolve()
    series = paired(tools, source, folder, rounds=rounds, timeout=arguments.timeout, judge=judge)
    print(table.as_text(case, series), end="\n\n", flush=True)
    return table.as_data(case, series)


def main() -> int:
    """Measure; 1 if bnfold itself failed anywhere."""
    arguments = parse()
    chosen = selected(arguments)
    _environment.require(*packages_of(chosen, arguments.tool))
    print(*(f"{key} {value}" for key, value in table.machine().items()), sep=" · ", end="\n\n")
    results = [measure(case, arguments) for case in chosen]
    if arguments.json:
        document = {"machine": table.machine(), "cases": results}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(any(result["tools"]["bnfold"]["failure"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
