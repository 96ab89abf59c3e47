#!/usr/bin/env python3
"""Alter the rewriting side of bnfold, one expression at a time, and see whether verification notices what goes wrong.

    .venv/bin/python scripts/mutate.py --count 800 --seed 0
    .venv/bin/python scripts/mutate.py --rooms folding semantics --kinds sign operands
    .venv/bin/python scripts/mutate.py --only bnfold/folding/affine.py:97:24:sign

Comparisons, signs, whole numbers (by one), guards and operands of and/or that are left out, filters, a dropped `not`,
swapped operands and axes. With each alteration, small models that reach the altered line are optimized, converted and
decomposed (models/, the seeded faults' originals, models of scripts/fuzz, small files of the corpus). Where the result
is another one than without it, the command is run again with verification, with onnxruntime and with `runtime="none"`,
and onnxruntime judges the result beside the original. Verification imports `ir`, and sees its alterations too.

Prints a table by room: how many alterations ended worst in what, with a runtime and without. Each alteration whose
wrong result was verified, or right one called failed, has a line, with the command that repeats it.
The exit code is 1 if a wrong result was verified.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from _environment import ROOT, require  # first, for its message to users of another Python

# isort: split
from _referee import altering, rewriting, tasks
from _referee.altering import Alteration
from _referee.rewriting import Baseline, Finding

ROOMS = (
    "analysis",
    "channels",
    "converting",
    "decomposing",
    "edits",
    "equalize",
    "folding",
    "ir",
    "semantics",
    "simplifying",
)
KINDS = (
    "compare", "sign", "constant+1", "constant-1", "not", "guard", "and", "or", "filter", "operands", "axes",
)  # fmt: skip


class Row(NamedTuple):
    """An alteration and what became of it."""

    alteration: Alteration
    found: list[Finding]


def main() -> int:
    """Print the table and the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, metavar="N", help="alterations to try (100)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="leave out so many, which ran before (0)")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which alterations, in which order (0)")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="models of each mode of scripts/fuzz (20)")
    parser.add_argument("--models", nargs="+", type=Path, metavar="FILE", help="these, and not the fixed set")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS, metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--only", action="append", metavar="FILE:LINE:COL:KIND", help="these alterations")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the models of what is listed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every finding, as they come")
    arguments = parser.parse_args()
    require("coverage", "onnxruntime", install=".venv/bin/pip install -e .[test]")
    rows: list[Row] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
    with tempfile.TemporaryDirectory() as scratch, suppress(KeyboardInterrupt):  # what there is by then is printed
        for row in _rows(arguments, Path(scratch)):
            rows.append(row)
            if arguments.json:
                arguments.json.write_text(json.dumps([*map(_plain, rows)], indent=1) + "\n", encoding="utf-8")
    _print_table(rows)
    return int(any(rewriting.worst(row.found, runtime).isupper() for row in rows for runtime in rewriting.RUNTIMES))


def _rows(arguments: argparse.Namespace, scratch: Path) -> Iterator[Row]:
    """Yield the alterations, with what each of them ended in."""
    started = time.monotonic()
    drawn = tasks.of_files(arguments.models) if arguments.models else tasks.tasks(scratch / "models", arguments.seeds)
    right = rewriting.baseline(drawn, scratch / "right")
    rewriting.preload(right)
    files = [
        file.relative_to(ROOT).as_posix()
        for room in arguments.rooms
        for file in sorted((ROOT / "bnfold" / room).rglob("*.py"))
    ]
    if arguments.only:
        files = [file for file in files if any(label.startswith(f"{file}:") for label in arguments.only)]
    every = [each for file in files for each in altering.alterations(ROOT, file, altering.expressions)]
    every = [each for each in every if each.kind in arguments.kinds]
    reached = [alteration for alteration in every if _reaching(alteration, right)]
    print(f"{len(drawn)} tasks; {len(every)} alterations are possible, {len(reached)} are reached", file=sys.stderr)
    chosen = choose(reached, arguments.seed)
    if arguments.only:
        chosen = [alteration for alteration in every if alteration.label in arguments.only]
        if missing := set(arguments.only) - {alteration.label for alteration in chosen}:
            sys.exit(f"scripts/mutate.py: there is no such alteration: {', '.join(sorted(missing))}")
    for index, alteration in enumerate(chosen if arguments.only else chosen[arguments.first :][: arguments.count]):
        if (spent := time.monotonic() - started) > arguments.seconds:
            break
        if index % 25 == 0:
            print(f"{index} alterations, {spent:.0f} s", file=sys.stderr)
        numbers = _reaching(alteration, right)
        random.Random(f"{arguments.seed} {alteration.label}").shuffle(numbers)
        trees = {alteration.module: altering.altered(ROOT, alteration, altering.expressions)}
        found = rewriting.findings(trees, numbers, drawn, right, scratch / "altered", rewriting.Trial())
        row = Row(alteration, found)
        _print_bad(row, drawn)
        if arguments.keep and _bad(row):
            _keep(row, drawn, scratch / "altered", arguments.keep)
        yield row


def _reaching(alteration: Alteration, right: Baseline) -> list[int]:
    """Return the tasks that reach the line or the statement; outside of functions, those that reach the file."""
    file, line, statement = alteration.file, alteration.line, alteration.statement
    if not statement:
        return [*right.files.get(file, ())]
    return [*(right.lines.get((file, line)) or right.lines.get((file, statement), ()))]


def choose(reached: Sequence[Alteration], seed: int) -> list[Alteration]:
    """Return them in a random order, the kinds in turns."""
    draw = random.Random(seed)
    groups = [[each for each in reached if each.kind == kind] for kind in KINDS]
    for group in groups:
        draw.shuffle(group)
    return [each for turn in zip_longest(*groups) for each in turn if each is not None]


def _bad(row: Row) -> list[Finding]:
    return [finding for finding in row.found if finding.kind in rewriting.LISTED]


def _print_bad(row: Row, drawn: Sequence[tasks.Task]) -> None:
    for finding in _bad(row):
        print(f"{finding.kind}, runtime {finding.runtime}: --only {row.alteration.label}", flush=True)
        print(f"    {row.alteration.text}\n    {drawn[finding.number].label}\n    {finding.reason}", flush=True)


def _keep(row: Row, drawn: Sequence[tasks.Task], made: Path, folder: Path) -> None:
    """Copy the originals and the results."""
    for finding in _bad(row):
        place = folder / row.alteration.label.replace("/", ".").replace(":", "-") / str(finding.number)
        shutil.copytree(made / str(finding.number), place, dirs_exist_ok=True)
        shutil.copy(drawn[finding.number].file, place / "before.onnx")


def _print_table(rows: Sequence[Row]) -> None:
    """Print how many alterations of each room ended worst in each kind: with onnxruntime / without a runtime."""
    counts = [
        Counter((_room(row), rewriting.worst(row.found, runtime)) for row in rows) for runtime in rewriting.RUNTIMES
    ]
    rooms = sorted({_room(row) for row in rows})
    print(f"\n| with onnxruntime / without | {' | '.join(rooms)} | all |\n|---|{'--:|' * (len(rooms) + 1)}")
    for kind in rewriting.WORST_FIRST:
        cells = [[count[room, kind] for count in counts] for room in rooms]
        cells.append([sum(column) for column in zip(*cells, strict=True)])
        print(f"| {kind} | {' | '.join(' / '.join(map(str, cell)) for cell in cells)} |")
    changed = sum(any(f.kind != "no effect" for f in row.found) for row in rows)
    print(f"\n{len(rows)} alterations, {changed} with an effect")


def _room(row: Row) -> str:
    return Path(row.alteration.file).parts[1]


def _plain(row: Row) -> dict[str, object]:
    return {"alteration": row.alteration.label, "text": row.alteration.text, "found": [f._asdict() for f in row.found]}


if __name__ == "__main__":
    sys.exit(main())
