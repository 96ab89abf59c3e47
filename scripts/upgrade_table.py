#!/usr/bin/env python3
"""Count the real models that upgrade to an equivalent model: bnfold beside the converters of onnx and onnxscript.

The models are those of the onnx package's own test data below the target opset. With --corpus they are those of a
folder, and with --converter-tests the upward conversions of the version converter's tests, to their opsets. "Equal"
means: onnx's checker has no complaint that it did not have before, and `bnfold verify` finds them numerically
equivalent in float64. Models that the reference evaluator cannot run in the first place (withdrawn drafts, plugins,
unsuitable inputs) are counted by themselves, as upgraded or not. Run `.venv/bin/python scripts/upgrade_table.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _environment import require, require_files  # first, for its message to users of another Python
from _upgrade.convert import TOOLS
from _upgrade.judging import Converter, Outcome, as_data, outcome, runs
from _upgrade.models import Entry, conversions, entries, folders

_VERDICTS = ("equal", "differs", "invalid", "unverified", "failed")
Results = dict[str, dict[Entry, Outcome]]


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="a folder of further models")
    parser.add_argument("--converter-tests", type=Path, metavar="DIR", help="the unpacked source of the installed onnx")
    parser.add_argument("--target", type=int, default=15, metavar="N", help="opset to reach (15)")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose path contains TEXT")
    parser.add_argument("--tool", action="append", choices=list(TOOLS), help="these tools only")
    parser.add_argument("--budget", type=float, default=30, metavar="S", help="seconds to compare one model in (30)")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds to upgrade one model in (60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result to FILE")
    return parser.parse_args()


def measure(arguments: argparse.Namespace, models: list[Entry]) -> Results:
    """Run every tool on every model."""
    results: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        for tool in arguments.tool or TOOLS:
            converter = Converter(tool, arguments.timeout)
            results[tool] = {
                entry: outcome(converter, entry.path, Path(folder) / "out.onnx", entry.target, arguments.budget)
                for entry in models
            }
            converter.close()
    return results


def show(results: Results, models: list[Entry], runnable: set[Entry]) -> None:
    """Print a table for each source of models, then the reasons."""
    for source in dict.fromkeys(entry.source for entry in models):
        chosen = [entry for entry in models if entry.source == source]
        valid = [entry for entry in chosen if entry in runnable]
        print(f"{source}: {len(chosen)} models below their target, {len(valid)} of them run in the referee\n")
        print(f"| of these {len(valid)} | {' | '.join(_VERDICTS)} |\n|---|{'---|' * len(_VERDICTS)}")
        for tool, outcomes in results.items():
            counts = Counter(outcomes[entry].verdict for entry in valid)
            print(f"| {tool} | {' | '.join(str(counts[verdict]) for verdict in _VERDICTS)} |")
        print()
    for tool, outcomes in results.items():
        for title, wanted in (("models that run", True), ("models that do not", False)):
            reasons = Counter(
                (result.verdict, result.reason)
                for entry, result in outcomes.items()
                if (entry in runnable) == wanted and result.verdict != "equal"
            )
            for place, ((verdict, reason), count) in enumerate(reasons.most_common()):
                if place == 0:
                    print(f"{tool}, {title}:")
                print(f"  {count:4} {verdict}: {reason}")


def main() -> int:
    """Measure; 1 if bnfold itself made a difference or an invalid model anywhere."""
    arguments = parse()
    require(*(tool.split(".")[0] for tool in arguments.tool or TOOLS))
    with tempfile.TemporaryDirectory() as folder:
        return _report(arguments, Path(folder))


def _report(arguments: argparse.Namespace, folder: Path) -> int:
    for place in folders(arguments.corpus).values():
        require_files(place.rglob("*.onnx"), sought=f"model in {place}")
    models = entries(arguments.corpus, arguments.target, arguments.only)
    if arguments.converter_tests is not None:
        require_files([arguments.converter_tests / "tests" / "python" / "version_converter_test.py"], sought="tests")
        models += conversions(arguments.converter_tests, folder, arguments.only)
    if not models:
        sys.exit(
            f"scripts/upgrade_table.py: no model below opset {arguments.target} has {arguments.only!r} in its path"
        )
    results = measure(arguments, models)
    runnable = {
        entry
        for entry in models
        if runs(entry.path, [outcomes[entry] for outcomes in results.values()], arguments.budget)
    }
    show(results, models, runnable)
    if arguments.json:
        document = {
            tool: {entry.name: as_data(result, runs=entry in runnable) for entry, result in outcomes.items()}
            for tool, outcomes in results.items()
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    ours = results.get("bnfold", {}).values()
    return int(any(result.verdict in ("differs", "invalid") for result in ours))


if __name__ == "__main__":
    raise SystemExit(main())
