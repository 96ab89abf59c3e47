#!/usr/bin/env python
"""Run each pass of onnxoptimizer by itself on real networks, and compare bnfold's verdict with onnxruntime's.

    .venv/bin/python scripts/pass_table.py FILE|FOLDER... [--most 20] [--largest 30] [--tools]

Every pass works on every network in a process of its own; with --tools, whole simplifiers do. If its result is not
that of the pass that does nothing, onnxruntime runs it and the original on four inputs, without optimisation: the pass
is *right* if all outputs agree to a few roundings, or as well as those of the original that onnxruntime optimizes;
*wrong* if some do not, or if the result cannot be loaded. Then bnfold verifies it. Prints a row for each pass that
changed a network, each disagreement, and each right result that stays unverified. Exit code 1 if a wrong result is
verified, or a right one failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from _environment import CORPUS, require, require_models  # first, for its message to users of another Python

# isort: split
import numpy as np
import onnx
from _bench import table
from _upgrade.running import alike, attempt, in_onnxruntime

import bnfold
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.settings import VerifyOptions
from bnfold.verification.runtimes.timing import feeds_for

_SEEDS = 4
_PASS_SECONDS = 120
_RUN = "import sys, onnx; model = onnx.load(sys.argv[1]); {}; onnx.save(model, sys.argv[2])"
_PASS = "import onnxoptimizer as o; model = o.optimize(model, [sys.argv[3]])"
_TOOLS = {
    "onnxoptimizer": "import onnxoptimizer as o; model = o.optimize(model)",
    "onnxscript": "import onnxscript.optimizer as o; model = o.optimize(model)",
    "onnxsim": "import onnxsim as o; model, _ = o.simplify(model)",
    "onnxslim": "import onnxslim as o; model = o.slim(model)",
    "onnxruntime": "import onnxruntime as o; options = o.SessionOptions(); "
    "options.graph_optimization_level = o.GraphOptimizationLevel.ORT_ENABLE_BASIC; "
    "options.optimized_model_filepath = sys.argv[2]; "
    "o.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider']); model = onnx.load(sys.argv[2])",
}
_NOTHING = "nop"
_AMPLIFIED = 4
"""Accepted times of what onnxruntime's own optimisation changes."""


class Judged(NamedTuple):
    """A changed result: whether it is *right* or *wrong*, bnfold's verdict and reason, and the seconds that it took."""

    truth: str
    verdict: str
    reason: str
    seconds: float


def main() -> int:
    """Print the table and the disagreements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", default=[CORPUS], metavar="PATH", help="files and folders")
    parser.add_argument("--most", type=int, default=20, metavar="N", help="networks to try (20)")
    parser.add_argument("--largest", type=float, default=30, metavar="MB", help="of their files (30)")
    parser.add_argument("--tools", action="store_true", help="whole simplifiers in place of the passes")
    arguments = parser.parse_args()
    require("onnxoptimizer")
    from onnxoptimizer import get_fuse_and_elimination_passes

    names = _TOOLS if arguments.tools else sorted({*get_fuse_and_elimination_passes()} - {_NOTHING})
    small = [path for path in require_models(arguments.paths) if path.stat().st_size < 1e6 * arguments.largest]
    rows: dict[str, list[Judged]] = defaultdict(list)
    disagreements, undecided, unchanged, networks = [], [], 0, 0
    for path in small:
        if networks == arguments.most:
            break
        with tempfile.TemporaryDirectory() as folder:
            judge = _Judge(path, Path(folder))
            if not judge.expected:
                continue
            networks += 1
            for name in names:
                result = judge.judged(name)
                if result is None:
                    unchanged += 1
                    continue
                rows[name].append(result)
                if (result.truth, result.verdict) in (("wrong", "verified"), ("right", "failed")):
                    disagreements.append(f"{path.name}, {name}: {result.truth}, but {result.verdict}")
                if (result.truth, result.verdict) == ("right", "unverified"):
                    undecided.append(f"{path.name}, {name}: right, but unverified: {result.reason}")
    print("\n".join(_table(rows)))
    seconds = [result.seconds for results in rows.values() for result in results]
    print(f"\n{networks} networks; {len(seconds)} results that changed something, {unchanged} that did not")
    if seconds:
        print(f"processor seconds of a verification: {table.distribution(seconds, '.1f')}")
    print("\n".join([*undecided, *(disagreements or ["no disagreement"])]))
    return int(bool(disagreements))


class _Judge:
    """A network with inputs and its outputs; without ``expected``, onnxruntime does not run it."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.model = attempt(lambda: onnx.load(path))
        self.expected: list[list[Array]] = []
        self.feeds = list(self._feeds())
        outputs = attempt(lambda: self._outputs(self.model))
        self.plain = self._pass(_NOTHING)
        if self.plain is not None and isinstance(outputs, list) and outputs:
            self.expected = outputs

    def _feeds(self) -> Iterator[dict[str, Array]]:
        for seed in range(_SEEDS):
            try:
                found = list(feeds_for(self.path, VerifyOptions(seed=seed)))
            except BnfoldError:
                return
            yield dict(next((feeds for feeds in found if self._runs(feeds)), found[0]))

    def _runs(self, feeds: Mapping[str, Array]) -> bool:
        return isinstance(attempt(lambda: in_onnxruntime(self.model, dict(feeds))), list)

    def _outputs(self, model: onnx.ModelProto) -> list[list[Array]]:
        return [in_onnxruntime(model, feeds) for feeds in self.feeds]

    def _pass(self, name: str) -> Path | None:
        """Return the result of a pass; None if it crashes or takes too long."""
        out = self.folder / f"{name}.onnx"
        command = [sys.executable, "-c", _RUN.format(_TOOLS.get(name, _PASS)), str(self.path), str(out), name]
        try:
            subprocess.run(command, capture_output=True, timeout=_PASS_SECONDS, check=True)
        except subprocess.SubprocessError:
            return None
        return out

    def judged(self, name: str) -> Judged | None:
        """Return None for a pass that changes nothing, or makes no file."""
        out = self._pass(name)
        if out is None or self.plain is None or out.read_bytes() == self.plain.read_bytes():
            return None
        found = attempt(lambda: self._outputs(onnx.load(out)))
        is_right = isinstance(found, list) and all(map(self._agrees, found, self.expected, self.feeds))
        started = time.process_time()
        try:
            verdict = bnfold.verify(self.path, out)
            said: tuple[str, str] = verdict.status, verdict.reason
        except BnfoldError as error:  # a pass may store a tensor twice, or write what is no model for other reasons
            said = "failed", str(error)
        return Judged("right" if is_right else "wrong", *said, time.process_time() - started)

    def _agrees(self, found: list[Array], expected: list[Array], feeds: dict[str, Array]) -> bool:
        """Whether results agree to a few roundings, or as well as the network's own do where it amplifies these."""
        if alike(found, expected):
            return True
        other = attempt(lambda: in_onnxruntime(self.model, feeds, optimized=True))
        return isinstance(other, list) and all(map(_is_nearer, found, other, expected))


def _is_nearer(found: Array, other: Array, wanted: Array) -> bool:
    """Whether ``found`` is at most a few times as far from ``wanted`` as ``other`` is."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype or found.dtype.kind != "f":
        return alike(found, wanted)
    apart, own = (np.abs(each.astype(float) - wanted).max(initial=0.0) for each in (found, other))
    return bool(apart <= _AMPLIFIED * own)


def _table(rows: dict[str, list[Judged]]) -> Iterator[str]:
    yield "| pass | changed | right | verified | unverified | failed | wrong | verified | unverified | failed |"
    yield "|---|" + "--:|" * 9
    for name, results in sorted(rows.items()):
        count = Counter((result.truth, result.verdict) for result in results)
        cells = [str(len(results))]
        for truth in ("right", "wrong"):
            numbers = [count[truth, verdict] for verdict in ("verified", "unverified", "failed")]
            cells += [str(sum(numbers)), *map(str, numbers)]
        yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
