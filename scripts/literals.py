#!/usr/bin/env python3
"""Make each number in the code of verification ten times as large and as small, and list those that no test notices.

    .venv/bin/python scripts/literals.py --record          # once: which test reaches which line; some minutes
    .venv/bin/python scripts/literals.py --budget 20
    .venv/bin/python scripts/literals.py --only bnfold/verification/tolerance/compare.py:24:18:larger

Numbers of the tolerance, of sensitivity (`coverage`) and of the policy: floats, whole numbers from 2 on, and all
numbers of module constants; not indices, and no limits of cost (`COST`). With each alteration the tests run that
reach its line, or a line that reads the constant: first the quickest, then others in a random order, up to the budget
in seconds that they took when they were recorded; among them are the seeded faults and the smallest of them that are
seen. The first that fails notices it.
The exit code is 1 if something is not noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _environment import ROOT, require  # first, for its message to users of another Python

# isort: split
from _referee import altering, serving
from _referee.altering import Alteration

FILES = (
    "tolerance/*.py", "coverage/*.py", "conclusion.py", "parts.py", "policy.py", "request.py", "fixed_sizes.py",
    "inputs/cost.py", "end_to_end/*.py",
)  # fmt: skip
COST = {
    "tolerance/bits.py": {"_PIECE"},
    "tolerance/compare.py": {"_LARGE"},
    "tolerance/rounding.py": {"_BLOCK"},
    "coverage/learned.py": {"_MOST"},
    "coverage/mutants.py": {"_MOST_SLICES"},
    "coverage/record.py": {"SECONDS", "_FEWEST", "_MOST", "_OTHERS", "_PART"},
    "request.py": {"LONG", "RUNTIME_SHARE", "_BUSY", "_EARLY", "_QUICK", "_STEPS"},
    "fixed_sizes.py": {
        "_CHEAP_RUN", "_HINT_SECONDS", "_LARGEST_RUN", "_LIMIT_SECONDS", "_MOST_ASKED",
        "_MOST_ELSEWHERE", "_MOST_OPEN", "_MOST_SIZES", "_RUNTIME_SECONDS", "_USUAL",
    },
    "inputs/cost.py": {"HELD", "MOST_BYTES", "_SESSION_SECONDS"},
    "end_to_end/examine.py": {"_MANY"},
    "end_to_end/ort_check.py": {
        "LITTLE_TIME", "_FASTER", "_MUCH_TIME", "_RUNS", "_SIDES", "_SMALL", "_USUAL", "_WORTH_LESS",
    },
    "end_to_end/pair.py": {"_KEPT"},
    "end_to_end/samples.py": {"EVALUATIONS", "FEW", "_LITTLE_TIME", "_LONG", "_LOOSE_SECONDS", "_SURPRISE"},
}  # fmt: skip
"""Constants that say what a run may cost, or what is tried: time, memory, sizes of blocks, numbers of attempts.

With another number more or fewer claims are settled, and the others are left open. None of them enters a comparison:
no difference is called small enough that was not before. They are left out.
"""
JUDGES = ("tests/verification",)
RECORD = ROOT / "build" / "literals.json"
LEAST_INTEGER = 2


class Reached(NamedTuple):
    """What `--record` wrote: the seconds of each test, and by file and line the tests that reach it."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]


def main() -> int:
    """Print a line for each number that is not noticed, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"run the tests once, and add them to {RECORD.name}")
    parser.add_argument("--tests", nargs="+", default=JUDGES, metavar="PATH", help="which tests to record")
    parser.add_argument("--budget", type=float, default=20.0, metavar="S", help="seconds of tests for each number (20)")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the order (0)")
    parser.add_argument("--files", nargs="+", default=FILES, metavar="PATTERN", help="of verification (all that count)")
    parser.add_argument("--only", action="append", metavar="FILE:LINE:COL:KIND", help="these alterations")
    arguments = parser.parse_args()
    require("coverage", "pytest", install=".venv/bin/pip install -e .[test]")
    if arguments.record:
        return _record(arguments.tests)
    if not RECORD.is_file():
        sys.exit(f"scripts/literals.py: there is no {RECORD.relative_to(ROOT)}; run with --record first")
    reached = Reached(**json.loads(RECORD.read_text(encoding="utf-8")))
    started, counts = time.monotonic(), Counter[str]()
    for alteration in _chosen(arguments):
        if time.monotonic() - started > arguments.seconds:
            break
        tests = tests_of(alteration, reached, arguments.budget, random.Random(f"{arguments.seed} {alteration.label}"))
        noticed = noticing(alteration, tests)
        counts["noticed" if noticed else "not noticed" if tests else "not reached"] += 1
        if not noticed or arguments.only:
            print(f"| {alteration.label} | {alteration.text} | {noticed or _passed(tests)} |", flush=True)
    print(f"\n{sum(counts.values())} alterations: {', '.join(f'{n} {kind}' for kind, n in sorted(counts.items()))}")
    return int(counts["not noticed"] + counts["not reached"] > 0)


def _passed(tests: Sequence[str]) -> str:
    return f"{len(tests)} tests pass" if tests else "no test that was recorded reaches it"


def numbers(root: Path, file: str) -> list[Alteration]:
    """Return the alterations of the numbers of a file that are sizes, and no indices."""
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    indices = {
        (node.lineno, node.col_offset)
        for subscript in ast.walk(tree)
        if isinstance(subscript, ast.Subscript | ast.Slice)
        for part in ([subscript.slice] if isinstance(subscript, ast.Subscript) else [subscript])
        for node in ast.walk(part)
        if isinstance(node, ast.Constant)
    }
    small = {
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value < LEAST_INTEGER
    }
    return [
        each
        for each in altering.alterations(root, file, altering.literals)
        if not _is_cost(file, each, tree) and (not each.statement or (each.line, each.column) not in indices | small)
    ]


def _is_cost(file: str, alteration: Alteration, tree: ast.Module) -> bool:
    """Whether the number is one of a constant in `COST`."""
    names = next((names for end, names in COST.items() if file.endswith(f"verification/{end}")), set[str]())
    return not alteration.statement and _constant(alteration, tree)[0] in names


def _chosen(arguments: argparse.Namespace) -> list[Alteration]:
    folder = ROOT / "bnfold" / "verification"
    files = [path.relative_to(ROOT).as_posix() for each in arguments.files for path in sorted(folder.glob(each))]
    every = [alteration for file in files for alteration in numbers(ROOT, file)]
    if not arguments.only:
        random.Random(arguments.seed).shuffle(every)
        return every
    if missing := set(arguments.only) - {alteration.label for alteration in every}:
        sys.exit(f"scripts/literals.py: there is no such alteration: {', '.join(sorted(missing))}")
    return [alteration for alteration in every if alteration.label in arguments.only]


def _record(tests: Sequence[str]) -> int:
    """Run the tests, and write what they reach; the exit code is pytest's."""
    with tempfile.TemporaryDirectory() as scratch:
        code, reached = serving.in_child(lambda _: run_recorded(tests), Path(scratch), 7200.0)
    if RECORD.is_file():
        reached = merged(Reached(**json.loads(RECORD.read_text(encoding="utf-8"))), reached)
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(reached._asdict()), encoding="utf-8")
    print(f"{len(reached.seconds)} tests, {sum(reached.seconds.values()):.0f} s")
    return int(code)


def merged(old: Reached, new: Reached) -> Reached:
    """Return what both recorded, where both have a test the new one."""
    lines: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for reached, seconds in ((old, old.seconds.keys() - new.seconds.keys()), (new, new.seconds.keys())):
        for file, places in reached.lines.items():
            for line, names in places.items():
                lines[file][line] += [name for name in names if name in seconds]
    return Reached(old.seconds | new.seconds, lines)


def run_recorded(tests: Sequence[str]) -> tuple[int, Reached]:
    """Run the tests in this process; return pytest's exit code, and what each of them reaches."""
    import coverage

    measured = coverage.Coverage(data_file=None, config_file=False, include=[f"{ROOT}/bnfold/verification/*"])
    recorder = _Recorder(measured)
    measured.start()
    code = _run_pytest([*tests], recorder)
    measured.stop()
    lines: dict[str, dict[str, list[str]]] = defaultdict(dict)
    data = measured.get_data()
    for file in data.measured_files():
        for line, names in data.contexts_by_lineno(file).items():
            lines[Path(file).relative_to(ROOT).as_posix()][str(line)] = [name for name in names if name]
    return code, Reached(recorder.seconds, dict(lines))


class _Recorder:
    """A plugin that measures each test by itself."""

    def __init__(self, measured: Any) -> None:
        self.seconds: dict[str, float] = {}
        self._measured = measured

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._measured.switch_context(nodeid)
        self.seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._measured.switch_context("")
        self.seconds[nodeid] += time.process_time()


class _Failed:
    """A plugin that keeps the name of the test that failed first."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.name = self.name or f"import of {report.nodeid}"


def _run_pytest(words: Sequence[str], plugin: object) -> int:
    import pytest

    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pyproject.toml"),
        "-m",
        "",  # those that a default run leaves out as well
    ]
    return int(pytest.main([*words, *options], plugins=[plugin]))


def tests_of(alteration: Alteration, reached: Reached, budget: float, draw: random.Random) -> list[str]:
    """Return the tests that reach the number: half of the budget for the quickest of them.

    For a constant that only the import of a module reads, they are those that reach anything of that module.
    """
    places = [(reached.lines.get(file, {}), str(line)) for file, line in lines_of(alteration)]
    names = {name for lines, line in places for name in lines.get(line, ())}
    if not names and not alteration.statement:  # read where modules are imported: as a default, or by another constant
        names = {name for lines, _ in places for tests in lines.values() for name in tests}
    quickest = sorted(names, key=lambda name: (reached.seconds[name], name))
    others = draw.sample(quickest, len(quickest))
    chosen: list[str] = []
    for order, share in ((quickest, budget / 2), (others, budget)):
        for name in order:
            if name not in chosen and sum(reached.seconds[each] for each in chosen) < share:
                chosen.append(name)
    return chosen


def lines_of(alteration: Alteration) -> Iterator[tuple[str, int]]:
    """Yield the line of a number; for a module's constant those that read it, in every file of verification."""
    if alteration.statement:
        yield alteration.file, alteration.line
        yield alteration.file, alteration.statement
        return
    tree = ast.parse((ROOT / alteration.file).read_text(encoding="utf-8"))
    name, lines = _constant(alteration, tree)
    if not name:
        yield from ((alteration.file, line) for line in lines)
        return
    for path in sorted((ROOT / "bnfold" / "verification").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == name
            if is_read or (isinstance(node, ast.Attribute) and node.attr == name):
                yield path.relative_to(ROOT).as_posix(), node.lineno  # type: ignore[attr-defined] # of both kinds


def _constant(alteration: Alteration, tree: ast.Module) -> tuple[str, range]:
    """Return the name that a statement of the module assigns to, empty if it is a function or class; and its lines."""
    for node in tree.body:
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if alteration.line in lines:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            return next((target.id for target in targets if isinstance(target, ast.Name)), ""), lines
    return "", range(0)


def noticing(alteration: Alteration, tests: Sequence[str]) -> str:
    """Return the test that notices the alteration, or what else does; empty if nothing does."""
    trees = {alteration.module: altering.altered(ROOT, alteration, altering.literals)}

    def run(_: Path) -> str:
        serving.serve(trees, "bnfold", "tests")
        failed = _Failed()
        code = _run_pytest([*tests, "-x"], failed)
        return failed.name or ("" if code == 0 else f"pytest ends with {code}")

    if not tests:
        return ""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            name: str = serving.in_child(run, Path(scratch), 120.0)
        except serving.Late:
            return "it takes too long"
        except serving.Died as death:
            return f"the process died: {death}"
    return name


if __name__ == "__main__":
    sys.exit(main())
