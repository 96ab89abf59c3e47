#!/usr/bin/env python3
"""Compare the verdicts of two versions of bnfold's verification on the same pairs of models.

    .venv/bin/python scripts/verdicts.py --before ../old --after . --generator ../frozen
    .venv/bin/python scripts/verdicts.py --after . --generator ../frozen --json recorded.json
    .venv/bin/python scripts/verdicts.py --before recorded.json --after . --generator ../frozen --sets seeded fuzz

Each version is a checkout. The pairs (an original and a rewritten model) are made once, by the rewrites, the seeded
faults and the fuzzer of a third one, the generator, so that they stay the same from run to run: real networks (corpus),
past findings of the fuzzer (findings), seeded faults and their right variants (seeded), and seeds of its modes
``faults`` and ``verify`` (fuzz). Each verdict that differs is printed with both reasons, and counts at the end.
``--json`` records the verdicts of ``--after``, for a later ``--before``.
The exit code is 1 if a verdict differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from _environment import ROOT  # first, for its message to users of another Python

HERE = Path(__file__).parent / "_referee"
SETS = ("corpus", "findings", "seeded", "fuzz")
DEPTHS, RUNTIMES = ("auto", "full", "local"), ("none", "onnxruntime")

Verdict = dict[str, str]
Pair = dict[str, Any]


class Version(Protocol):
    """A version that is asked about one pair after the other."""

    def ask(self, pair: Pair, settings: dict[str, Any]) -> None:
        """Ask for a verdict."""

    def answer(self) -> Verdict | None:
        """Return the verdict; None if there is none of this pair."""


class Checkout:
    """A version that verifies in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, pair: Pair, settings: dict[str, Any]) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(json.dumps({**pair, **settings}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Verdict | None:
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"scripts/verdicts.py: the process of a version ended with code {self._process.wait()}")
        verdict: Verdict = json.loads(line)
        return verdict


class Record:
    """The verdicts of an earlier run."""

    def __init__(self, file: Path) -> None:
        self._verdicts: dict[str, Verdict] = json.loads(file.read_text(encoding="utf-8"))
        self._key = ""

    def ask(self, pair: Pair, settings: dict[str, Any]) -> None:
        self._key = key(pair, settings)

    def answer(self) -> Verdict | None:
        return self._verdicts.get(self._key)


def key(pair: Pair, settings: dict[str, Any]) -> str:
    """Return the name of a verdict in a record: it ends in a digest of both models."""
    digest = hashlib.sha256(Path(pair["before"]).read_bytes() + Path(pair["after"]).read_bytes()).hexdigest()[:16]
    return f"{pair['set']}: {pair['name']} | {settings['depth']}, {settings['runtime']} | {digest}"


def main() -> int:
    """Print the differences and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="the old version, or what --json recorded")
    parser.add_argument("--after", type=Path, default=ROOT, metavar="CHECKOUT", help="the new version (this one)")
    parser.add_argument("--generator", type=Path, default=ROOT, metavar="CHECKOUT", help="what makes the pairs (this)")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET", help=", ".join(SETS))
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed of the fuzzer (0)")
    parser.add_argument("--count", type=int, default=300, metavar="N", help="seeds of each of its modes (300)")
    parser.add_argument("--bytes", type=int, default=2_000_000, metavar="N", help="largest network (2000000)")
    parser.add_argument("--only", default="", metavar="TEXT", help="pairs with this in their name")
    parser.add_argument("--depth", nargs="+", choices=DEPTHS, default=["auto"], help="of verification (auto)")
    parser.add_argument("--runtime", nargs="+", choices=RUNTIMES, default=RUNTIMES, help="of verification (both)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="limit of one verification (60)")
    parser.add_argument("--reasons", action="store_true", help="other reasons for the same verdict differ as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="record the verdicts of the new version")
    arguments = parser.parse_args()
    for checkout in filter(None, (arguments.before, arguments.after, arguments.generator)):
        if not checkout.is_file() and not (checkout / "bnfold" / "__init__.py").is_file():
            sys.exit(f"scripts/verdicts.py: {checkout} is no checkout of bnfold")
    recorded: dict[str, Verdict] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    differing = 0
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as opened:
        pairs = [pair for pair in _pairs(arguments, Path(scratch)) if arguments.only in pair["name"]]
        print(f"{len(pairs)} pairs", file=sys.stderr)
        places = filter(None, (arguments.before, arguments.after))
        versions: list[Version] = [opened.enter_context(_version(place)) for place in places]
        for pair, depth, runtime in product(pairs, arguments.depth, arguments.runtime):
            settings = {"depth": depth, "runtime": runtime, "seconds": arguments.seconds}
            verdicts = _verdicts(versions, pair, settings)
            counts[pair["set"], *(verdict["status"] if verdict else "-" for verdict in verdicts)] += 1
            recorded[key(pair, settings)] = verdicts[-1] or {}
            differing += _print_difference(pair, settings, verdicts, reasons=arguments.reasons)
    _print_counts(counts)
    if arguments.json:
        arguments.json.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(differing > 0)


def _pairs(arguments: argparse.Namespace, folder: Path) -> list[Pair]:
    """Let the generator write the pairs."""
    asked = {"sets": arguments.sets, "first": arguments.first, "count": arguments.count, "bytes": arguments.bytes}
    command = [sys.executable, HERE / "writing.py", arguments.generator.resolve(), folder, json.dumps(asked)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    pairs: list[Pair] = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
    return pairs


@contextmanager
def _version(place: Path) -> Iterator[Version]:
    if place.is_file():
        yield Record(place)
        return
    command = [sys.executable, str(HERE / "answering.py"), str(place.resolve())]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        yield Checkout(process)


def _verdicts(versions: Sequence[Version], pair: Pair, settings: dict[str, Any]) -> list[Verdict | None]:
    for version in versions:
        version.ask(pair, settings)
    return [version.answer() for version in versions]


def _print_difference(
    pair: Pair, settings: dict[str, Any], verdicts: Sequence[Verdict | None], *, reasons: bool
) -> bool:
    """Print both verdicts if they differ; a pair that a record does not have differs from nothing."""
    answers = [verdict if reasons else verdict["status"] for verdict in verdicts if verdict is not None]
    if len(answers) < 2 or answers[0] == answers[1]:
        return False
    print(f"{pair['set']}: {pair['name']} ({settings['depth']}, {settings['runtime']})")
    for name, verdict in zip(("before", "after"), verdicts, strict=True):
        assert verdict is not None, "there are two"
        print(f"    {name:6} {verdict['status']} ({verdict['decided_by']}): {verdict['reason']}", flush=True)
    return True


def _print_counts(counts: Counter[tuple[str, ...]]) -> None:
    columns = ("set", "before", "after")[: len(next(iter(counts), ()))]
    columns = ("set", "verdict") if len(columns) == 2 else columns
    print(f"\n| {' | '.join(columns)} | verdicts |\n|{'---|' * len(columns)}--:|")
    for row, count in sorted(counts.items()):
        print(f"| {' | '.join(row)} | {count} |")


if __name__ == "__main__":
    sys.exit(main())
