#!/usr/bin/env python3
"""Compare float16 and int8 versions of networks with `bnfold verify --tolerance`, and each error with onnxruntime's.

    .venv/bin/python scripts/tolerance_table.py [PATH …] [--most 10] [--seed 0]

Of each network, as `bnfold optimize` writes it at opset 13 or newer, onnxconverter-common makes a float16 version
(every other one with float32 inputs and outputs) and onnxruntime an int8 version (in turns: QDQ, operators on integers,
dynamic scales). Inputs are drawn here and given to both with --data. Prints a row for each output: what bnfold says,
and the same error as onnxruntime alone computes it from the two files, without graph optimisation (as bnfold runs them)
and with it (as they are deployed).
The exit code is 1 if one of bnfold's numbers is another than onnxruntime's, by more than its rounding;
what optimisation changes in the error is the rounding of an int8 model.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from _environment import CORPUS, require, require_models  # first, for its message to users of another Python

# isort: split
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import bnfold

Feeds = dict[str, npt.NDArray[Any]]

LEAST_NODES, MOST_BYTES, OPSET = 9, 30_000_000, 13
SIZE = 64
"""Of dynamic axes but the first, which is 1."""
FLOAT_ROUNDING = 1e-6
"""Of an output's largest value: what the number of threads changes in a sum of float32."""
TOLERANCES = {"float16": "float16", "int8": "0.05"}


class Version(NamedTuple):
    """A narrower version of a network: what made it, and its file."""

    how: str
    kind: str
    file: Path


class Errors(NamedTuple):
    """The largest and the mean difference of an output, as shares of its largest value."""

    largest: float
    mean: float


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", default=[CORPUS], metavar="PATH", help="files and folders")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="networks (10)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs (0)")
    arguments = parser.parse_args()
    require("onnxconverter_common")
    onnxruntime.set_default_logger_severity(4)
    logging.disable(logging.WARNING)  # of the quantiser, which recommends its preprocessing
    warnings.simplefilter("ignore")  # of the converter, which lists what it rounds to zero
    files = require_models(arguments.paths)
    columns = "network | version | output | bnfold: largest | allowed | mean | beyond"
    columns += " | onnxruntime: largest | mean | optimised"
    print(f"| {columns} | verdict |\n|---|---|---|{'--:|' * 7}---|")
    wrong = 0
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, before, feeds) in enumerate(_networks(files, Path(scratch), arguments)):
            for version in _versions(number, before, feeds):
                counts[version.how] += 1
                wrong += _rows(name, before, version, feeds)
    print(f"\n{', '.join(f'{count} {how}' for how, count in counts.items())}; {wrong} errors are not onnxruntime's")
    return int(wrong > 0)


def _networks(files: Sequence[Path], scratch: Path, asked: argparse.Namespace) -> Iterator[tuple[str, Path, Feeds]]:
    """Yield networks that onnxruntime runs, one of each architecture: a name, a file, and inputs."""
    kinds: set[str] = set()
    for file in files:
        if len(kinds) == asked.most or file.stat().st_size > MOST_BYTES:
            continue
        target = scratch / f"{len(kinds)}.onnx"
        try:
            opset = bnfold.inspect(file).report.opset_before or 0
            options = bnfold.Options(target_opset=max(opset, OPSET), overridable="freeze")
            bnfold.optimize(file, target, options=options, verify=bnfold.VerifyOptions(depth="none"))
            model = onnx.load(target)
            kind = ",".join(
                sorted(f"{op}{count}" for op, count in Counter(n.op_type for n in model.graph.node).items())
            )
            if len(model.graph.node) < LEAST_NODES or kind in kinds or not _has_weights(model):
                continue
            feeds = _inputs(target, asked.seed)
            run(target, feeds)
        except Exception:  # noqa: BLE001 - a file that bnfold or onnxruntime does not take is no network to measure
            continue
        kinds.add(kind)
        yield file.stem, target, feeds


def _has_weights(model: onnx.ModelProto) -> bool:
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer) > 1000


def _inputs(file: Path, seed: int) -> Feeds:
    draw = np.random.default_rng(seed)
    return {
        each.name: draw.random(
            [dim if isinstance(dim, int) and dim > 0 else SIZE if axis else 1 for axis, dim in enumerate(each.shape)],
            np.float32,
        )
        for each in session(file).get_inputs()
    }


class _Calibration(CalibrationDataReader):  # type: ignore[misc] # its package has no types
    def __init__(self, feeds: Feeds) -> None:
        self._feeds = iter([feeds])

    def get_next(self) -> Feeds | None:
        return next(self._feeds, None)


def _versions(number: int, before: Path, feeds: Feeds) -> Iterator[Version]:
    from onnxconverter_common import float16

    keeps = number % 2 == 0
    half = before.with_suffix(".half.onnx")
    onnx.save(float16.convert_float_to_float16(onnx.load(before), keep_io_types=keeps), half)
    yield Version(f"float16{'' if keeps else ', inputs and outputs too'}", "float16", half)
    target = before.with_suffix(".int8.onnx")
    if number % 3 == 2:
        quantize_dynamic(before, target, weight_type=QuantType.QUInt8)
        yield Version("int8, dynamic", "int8", target)
        return
    form = (QuantFormat.QDQ, QuantFormat.QOperator)[number % 3]
    quantize_static(before, target, _Calibration(feeds), quant_format=form)
    yield Version(f"int8, {form.name}", "int8", target)


def session(file: Path, *, optimised: bool = False) -> onnxruntime.InferenceSession:
    """Open a model in onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def run(file: Path, feeds: Feeds, *, optimised: bool = False) -> Feeds:
    """Return the outputs of a model, its inputs cast to the types that it takes."""
    opened = session(file, optimised=optimised)
    types = {each.name: np.float16 if each.type == "tensor(float16)" else np.float32 for each in opened.get_inputs()}
    names = [each.name for each in opened.get_outputs()]
    return dict(zip(names, opened.run(names, {name: feeds[name].astype(types[name]) for name in types}), strict=True))


def _errors(before: Feeds, after: Feeds) -> dict[str, Errors]:
    found = {}
    for name, expected in before.items():
        wide, other = expected.astype(np.float64), after[name].astype(np.float64)
        scale, delta = np.abs(wide).max(), np.abs(other - wide)
        found[name] = Errors(float(delta.max() / scale), float(delta.mean() / scale))
    return found


def _is_run(file: Path, feeds: Feeds) -> bool:
    with suppress(Exception):  # whatever onnxruntime raises
        return bool(run(file, feeds))
    return False


def _rows(name: str, before: Path, version: Version, feeds: Feeds) -> int:
    """Print the rows of one version, and return how many of bnfold's errors are not those of onnxruntime."""
    data = before.with_suffix(".npz")
    np.savez(data, allow_pickle=False, **feeds)
    tolerance = TOLERANCES[version.kind]
    words = ["verify", before, version.file, "--data", data, "--tolerance", tolerance, "--json"]
    command = [sys.executable, "-P", "-m", "bnfold", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    verdict = json.loads(done.stdout)
    if not verdict["outputs"]:
        print(f"| {name} | {version.how} | - | - | - | - | - | - | - | - | {verdict['summary']} |")
        return int(_is_run(version.file, feeds))
    plain, optimised = ([run(file, feeds, optimised=each) for file in (before, version.file)] for each in (False, True))
    alone, deployed = _errors(*plain), _errors(*optimised)
    wrong = 0
    for row in verdict["outputs"]:
        own, other = alone[row["name"]], deployed[row["name"]]
        rounding = FLOAT_ROUNDING + abs(other.largest - own.largest)
        is_wrong = not abs(float(row["relative"]) - own.largest) <= rounding
        wrong += is_wrong
        numbers = (float(row[key]) for key in ("relative", "allowed", "mean", "beyond"))
        cells = [f"{each:.3g}" for each in (*numbers, *own, other.largest)]
        said = f"{verdict['status']}, exit code {done.returncode}"
        print(f"| {name} | {version.how} | {row['name']} | {' | '.join(cells)} | {said}{', **other**' * is_wrong} |")
    sys.stdout.flush()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
