#!/usr/bin/env python3
"""Measure the latency of real networks before and after bnfold and its peers, in onnxruntime and OpenVINO.

    .venv/bin/python scripts/latency_table.py FOLDER [--rounds 60] [--threads 1 2] [--runtimes onnxruntime openvino]

Prints a row for each model, runtime and number of threads: median ratios to the original of a control (the same file
once more), of bnfold's result, and of the results of onnxslim and onnxsim if they are installed. A loss is marked:
the lower bound of the median ratio (95 %, bootstrap) is above 1.02, and is so again in a second race of twice the
rounds, for which the models are loaded anew. The exit code is 1 if bnfold loses anywhere, or the control does. Look
at ratios, never at seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _environment import CORPUS, require_models  # first, for its message to users of another Python

# isort: split
from _bench import racing, table

import bnfold
from bnfold.errors import BnfoldError
from bnfold.settings import VerifyOptions
from bnfold.verification.runtimes import timing

PEERS = ("onnxslim", "onnxsim")
_TOOL_SECONDS = 300


def main() -> int:
    """Print the table and the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", default=[CORPUS], metavar="PATH", help="files and folders")
    parser.add_argument("--rounds", type=int, default=60, metavar="N", help="of the first race (60)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="that a first race may take (20)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--runtimes", nargs="+", choices=racing.RUNTIMES, default=[*racing.RUNTIMES])
    parser.add_argument("--exchange", choices=("auto", "always"), default="auto")
    arguments = parser.parse_args()
    runtimes = [name for name in arguments.runtimes if find_spec(name) is not None]
    if not runtimes:
        sys.exit(f"none of these is installed: {', '.join(arguments.runtimes)}")
    models = require_models(arguments.paths)
    columns = ("control", "bnfold", *(peer for peer in PEERS if find_spec(peer) is not None))
    print(table.head(["model", "runtime", "threads", "rounds", *columns]))
    lost: Counter[str] = Counter()
    ratios: list[float] = []
    for path in models:
        with tempfile.TemporaryDirectory() as folder:
            for runtime, threads, race, losers in _races(path, Path(folder), runtimes, arguments):
                lost.update(losers)
                ratios += [race.median("bnfold")] if "bnfold" in race.times else []
                cells = [_cell(race, name, losers) for name in columns]
                rounds = len(race.times["original"])
                print(f"| {path.stem} | {runtime} | {threads} | {rounds} |", " | ".join(cells), "|", flush=True)
    if ratios:
        print(f"\nbnfold ÷ original: best {min(ratios):.3f}, {table.distribution(ratios, '.3f')}")
    print("losses:", ", ".join(f"{name} {count}" for name, count in lost.items()) or "none")
    return int(lost["bnfold"] > 0 or lost["control"] > 0)


def _cell(race: racing.Race, name: str, losers: list[str]) -> str:
    if name not in race.times:
        return "-"
    return f"{race.median(name):.3f}{' **loss**' if name in losers else ''}"


def _races(
    path: Path, folder: Path, runtimes: list[str], arguments: argparse.Namespace
) -> Iterator[tuple[str, int, racing.Race, list[str]]]:
    """Race one model in each runtime that takes it; a model that a tool cannot rewrite is left out."""
    files = {"original": path, "control": path} | dict(_rewritten(path, folder, arguments.exchange))
    if "bnfold" not in files:
        return
    try:
        inputs = [*timing.feeds_for(path, VerifyOptions())]
    except BnfoldError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return
    for runtime in runtimes:
        for threads in arguments.threads:
            load = partial(_runs, files, inputs, runtime, threads)
            race, losers = racing.losers(load, arguments.rounds, arguments.seconds)
            if race.times:
                yield runtime, threads, race, list(losers)


def _runs(
    files: dict[str, Path], inputs: Sequence[Mapping[str, Any]], runtime: str, threads: int
) -> dict[str, racing.Run]:
    """Return functions that run each file, on the first inputs that the original takes."""
    make, trouble = racing.RUNTIMES[runtime], ""
    for feeds in inputs:
        runs: dict[str, racing.Run] = {}
        try:
            for name, file in files.items():
                runs[name] = make(file, feeds, threads)
                runs[name]()
        except Exception as error:  # noqa: BLE001 - runtimes raise anything
            trouble = " ".join(str(error).split())[:200]
            if "original" in runs and name != "original":
                runs.pop(name, None)
                files = {kept: file for kept, file in files.items() if kept != name}
                print(f"{name}: {trouble}", file=sys.stderr)
                return _runs(files, [feeds], runtime, threads)
            continue
        return runs
    print(f"{files['original'].name}: {runtime}: {trouble}", file=sys.stderr)
    return {}


def _rewritten(path: Path, folder: Path, exchange: str) -> Iterator[tuple[str, Path]]:
    """Yield each tool's result on a model."""
    target = folder / "bnfold.onnx"
    try:
        options = bnfold.Options(exchange=exchange)  # type: ignore[arg-type] # one of the choices
        bnfold.optimize(path, target, options=options, verify=VerifyOptions(depth="none"))
        yield "bnfold", target
    except BnfoldError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return
    for peer in PEERS:
        target = folder / f"{peer}.onnx"
        if find_spec(peer) is None:
            continue
        command = [sys.executable, "-m", peer, str(path), str(target)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TOOL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0 and target.exists():
            yield peer, target


if __name__ == "__main__":
    sys.exit(main())
