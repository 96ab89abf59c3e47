#!/usr/bin/env python3
"""Convert onnx's own node tests, or networks, to lower opsets: how many are equal, refused, wrong or invalid.

Every test of the installed onnx, or every file that is named (a network, or the node tests of another release), is
converted without verification to each --opset below its own, by bnfold or by onnx.version_converter (--tool).

* *Invalid*: onnx's checker and strict shape inference reject the result at the target's opset and IR version, and
  accept the original.
* *Wrong*: neither onnxruntime nor onnx's reference evaluator computes the test's expected outputs, or those of the
  original.
* *Not comparable*: neither of them runs the model, or its results are random.

With --lowest, each goes to the lowest opset that it reaches instead. The checker has to accept the result, and
onnxruntime has to load it from opset 7 on, where its support begins; one opset below has to be refused, and the reasons
for that are counted.

Run `.venv/bin/python scripts/downgrade_table.py [FOLDER] --opset 17 --opset 13`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from _environment import require  # first, for its message to users of another Python
from _upgrade.running import RUNTIMES, alike, attempt, complaint

TOOLS = ("bnfold", "version_converter")
VERDICTS = ("equal", "refused", "wrong", "invalid", "not comparable")


class NodeTest(NamedTuple):
    """A model, its inputs, and its expected outputs."""

    name: str
    model: Any
    feeds: dict[str, Any]
    expected: list[Any]


class Result(NamedTuple):
    """Result of one test at one opset."""

    verdict: str
    why: str = ""


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="networks, or folders of them, instead")
    parser.add_argument("--opset", type=int, action="append", metavar="N", help="opset to reach (17, 13 and 11)")
    parser.add_argument(
        "--tool", choices=TOOLS, default="bnfold", metavar="TOOL", help=f"{' or '.join(TOOLS)} (bnfold)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="tests whose name contains TEXT")
    parser.add_argument("--lowest", action="store_true", help="go as low as possible, and say what is in the way below")
    parser.add_argument("--count", type=int, metavar="N", help="stop after N models")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result to FILE")
    return parser.parse_args()


def tests(only: str) -> Iterator[NodeTest]:
    """Return the node tests of the installed onnx that have data and are of its own domain."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if only not in case.name or case.model is None or not case.data_sets:
            continue
        if any(entry.domain not in ("", "ai.onnx") for entry in case.model.opset_import):
            continue
        given, expected = case.data_sets[0]
        names = [value.name for value in case.model.graph.input]
        yield NodeTest(case.name, case.model, dict(zip(names, given, strict=False)), list(expected))


def networks(paths: Sequence[Path], only: str) -> Iterator[NodeTest]:
    """Return models of files: with the data of onnx's tests beside them, or random inputs of the unchanged model."""
    import onnx

    for path in sorted(file for each in paths for file in (each.rglob("*.onnx") if each.is_dir() else [each])):
        if only not in str(path) or not isinstance(model := attempt(partial(onnx.load, path)), onnx.ModelProto):
            continue
        data = path.parent / "test_data_set_0"
        given = attempt(partial(_stored, data, model))
        if isinstance(given, tuple) and data.is_dir():
            names = [value.name for value in model.graph.input]
            yield NodeTest(str(path), model, dict(zip(names, given[0], strict=False)), given[1])
        else:
            yield NodeTest(str(path), model, random_inputs(model), [])


def _stored(data: Path, model: Any) -> tuple[list[Any], list[Any]]:
    return stored(data, "input", model), stored(data, "output", model)


def stored(folder: Path, what: str, model: Any) -> list[Any]:
    """Return the inputs or outputs that are stored beside a test of some release of onnx, in order."""
    import onnx

    found, values = [], getattr(model.graph, what)
    for number, value in enumerate(values):
        kind, file = value.type.WhichOneof("value"), folder / f"{what}_{number}.pb"
        holder, read = {
            "sequence_type": (onnx.SequenceProto(), onnx.numpy_helper.to_list),
            "optional_type": (onnx.OptionalProto(), onnx.numpy_helper.to_optional),
        }.get(kind, (onnx.TensorProto(), onnx.numpy_helper.to_array))
        holder.ParseFromString(file.read_bytes())
        found.append(read(holder))
    return found


def random_inputs(model: Any) -> dict[str, Any]:
    """Draw numbers for each mandatory input: one row, and 64 for any other dynamic size."""
    import numpy as np
    import onnx

    rng, feeds = np.random.default_rng(0), {}
    stored = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        kind = value.type.tensor_type
        if value.name in stored or not kind.elem_type:
            continue
        sizes = [dim.dim_value or (64 if axis else 1) for axis, dim in enumerate(kind.shape.dim)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        drawn = rng.normal(size=sizes) if dtype.kind == "f" else rng.integers(0, 2, size=sizes)
        feeds[value.name] = drawn.astype(dtype)
    return feeds


def lowered_by(tool: str, model: Any, opset: int) -> Any:
    """Return the converted model, or a result if there is none."""
    import bnfold

    try:
        if tool == "bnfold":
            return bnfold.convert(model, opset=opset, verify=bnfold.VerifyOptions(depth="none")).to_proto()
        from onnx import version_converter

        return version_converter.convert_version(model, opset)
    except bnfold.BnfoldError as error:
        return Result("refused", str(error))
    except Exception as error:  # noqa: BLE001 - a bug of ours, to be counted with the others; the peer refuses so
        return Result("wrong" if tool == "bnfold" else "refused", f"traceback: {error!r}")


def result_at(test: NodeTest, opset: int, tool: str) -> Result:
    """Convert a test's model to ``opset`` and compare."""
    lowered = lowered_by(tool, test.model, opset)
    if isinstance(lowered, Result):
        return lowered
    if (found := complaint(lowered)) and not complaint(test.model):
        return Result("invalid", found)
    wrong = ""
    for run in RUNTIMES:
        after = attempt(partial(run, lowered, test.feeds))
        if isinstance(after, Exception):
            continue
        if alike(test.expected, after, 5):
            return Result("equal")
        before, again = (attempt(partial(run, test.model, test.feeds)) for _ in range(2))
        if isinstance(before, Exception) or not alike(before, again):
            continue
        if alike(before, after):
            return Result("equal")
        if test.expected and not alike(test.expected, before, 5):
            continue  # it does not compute the test itself
        wrong = wrong or run.__name__
    return Result("wrong", f"other numbers in {wrong}") if wrong else Result("not comparable")


def result_at_lowest(test: NodeTest) -> tuple[int, str, str]:
    """Return the lowest opset of a model, what is in the way below, and what is wrong; -1 if it is refused."""
    import bnfold

    unchecked = bnfold.VerifyOptions(depth="none")
    try:
        outcome = bnfold.convert(test.model, opset="lowest", verify=unchecked)
    except bnfold.BnfoldError as error:
        return -1, str(error), ""
    lowered, found = outcome.to_proto(), outcome.report.opset_after
    wrong = "" if complaint(test.model) else complaint(lowered)
    if not wrong and found >= _RUNTIME_SINCE and not isinstance(attempt(lambda: loaded(test.model)), Exception):
        refused = attempt(lambda: loaded(lowered))
        wrong = str(refused) if isinstance(refused, Exception) else ""
    if found == 1:
        return found, "", wrong
    below = attempt(lambda: bnfold.convert(test.model, opset=found - 1, verify=unchecked))
    return found, str(below), wrong or ("" if isinstance(below, bnfold.BnfoldError) else "goes lower")


_RUNTIME_SINCE = 7
"""The first opset that onnxruntime supports."""


def loaded(model: Any) -> Any:
    """Return a session of onnxruntime, which optimises nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def show_lowest(given: Iterator[NodeTest]) -> None:
    """Print a line for each lowest opset, then the reasons below it by kind, then what is wrong."""
    results = {test.name: result_at_lowest(test) for test in given}
    for opset, count in sorted(Counter(found for found, _, _ in results.values()).items()):
        print(f"{opset:>5}  {count:>5}")
    kinds: dict[tuple[int, str], list[str]] = {}
    for name, (opset, below, _) in results.items():
        kinds.setdefault((opset, re.sub(r"'[^']*'|\([^()]*\)", "…", below)), []).append(name)
    for (opset, kind), names in sorted(kinds.items(), key=lambda entry: -len(entry[1])):
        print(f"{len(names):>5}  at {opset}: {kind or 'nothing is below'}   e.g. {names[0]}")
    for name, (opset, _, wrong) in results.items():
        if wrong:
            print(f"{name} at {opset}: {wrong}")


def show(results: dict[int, dict[str, Result]]) -> None:
    """Print a table, then the wrong or invalid results, then the operators that were refused."""
    print("opset  " + "  ".join(f"{verdict:>14}" for verdict in VERDICTS))
    for opset, found in results.items():
        counts = Counter(result.verdict for result in found.values())
        print(f"{opset:>5}  " + "  ".join(f"{counts[verdict]:>14}" for verdict in VERDICTS))
    for opset, found in results.items():
        for name, result in found.items():
            if result.verdict in ("wrong", "invalid"):
                print(f"{opset} {name}: {result.verdict}: {result.why}")


def main(arguments: argparse.Namespace) -> None:
    """Measure, and print."""
    warnings.simplefilter("ignore")
    targets: Sequence[int] = arguments.opset or (17, 13, 11)
    results: dict[int, dict[str, Result]] = {opset: {} for opset in targets}
    given = networks(arguments.paths, arguments.only) if arguments.paths else tests(arguments.only)
    given = itertools.islice(given, arguments.count)
    if arguments.lowest:
        show_lowest(given)
        return
    for test in given:
        own = next((entry.version for entry in test.model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        for opset in targets:
            if opset < own:
                results[opset][test.name] = result_at(test, opset, arguments.tool)
    show(results)
    if arguments.json:
        data = {opset: {name: result._asdict() for name, result in found.items()} for opset, found in results.items()}
        arguments.json.write_text(json.dumps(data, indent=1), encoding="utf-8")


if __name__ == "__main__":
    require("onnxruntime")
    main(parse())
