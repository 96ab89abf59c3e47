"""Do two IRs compute the same? Both run in OpenVINO on the CPU, held to float32, on the same seeded inputs.

There is no float64 referee here, so a difference is weighed against two measured effects of rounding: that of the new
constants, each moved by one unit of the type it is *stored* in, and that of float32 arithmetic, shown by the *original*
with its own float32 constants and inputs moved by one unit. What counts as a fault is then decided by the same
arithmetic as for ONNX (`bnfold.verification.tolerance.compare`). Nothing here knows how models are rewritten.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.interop.openvino.disturb import (
    by_body,
    disturbed,
    disturbed_feeds,
    longest_sum,
    new_weights,
    single_precision,
)
from bnfold.interop.openvino.document import Document, read_document
from bnfold.interop.openvino.feeds import candidates
from bnfold.interop.openvino.load import IrModel, load
from bnfold.interop.openvino.naming import named_results, output_names
from bnfold.interop.openvino.stage import stage
from bnfold.ir.elements import Array
from bnfold.report.events import Report
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.verification import Verdict, WitnessRow
from bnfold.verification.comparing.outputs import (
    Compared,
    compared,
    inconclusive,
    largest_difference,
    output_rows,
)
from bnfold.verification.comparing.sides import explained
from bnfold.verification.inputs.drawing import CannotFeed, Feeds
from bnfold.verification.request import Clock
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult
from bnfold.verification.sentences import agree
from bnfold.verification.tolerance.compare import ROUNDS
from bnfold.verification.tolerance.floats import FLOAT_TYPES
from bnfold.verification.tolerance.storage import agrees, errors
from bnfold.verification.verdict import Status

RUNTIME = "openvino"
HINT = "openvino, which runs these models, is not installed: pip install 'bnfold[openvino]'"

LANES = 16
"""Terms of a sum that are added side by side: floats in a vector register, of those that OpenVINO uses."""

COARSEST = 2.0**-5
"""Of the scale: the largest difference that is ever put down to rounding."""

Results = Sequence[Mapping[str, Array]]
Round = tuple[RuntimeResult, RuntimeResult]
"""What runs gave with the new constants moved, and those of the original with its own and the inputs moved."""
Progress = Callable[[str, int, int], None]


class _Undecided(Exception):
    """The two cannot be compared; the message says why."""


class _Fault(Exception):
    """The two differ in a way that no tolerance concerns."""


@dataclass(slots=True, eq=False)
class _Bench:
    """Both models and what they gave."""

    before: Path
    after: Path
    clock: Clock
    folder: Path
    seed: int
    feeds: list[Feeds] = field(default_factory=list)
    expected: RuntimeResult = field(default_factory=lambda: RuntimeResult(RUNTIME))

    def run(self, path: Path, feeds: Sequence[Feeds] | None = None) -> RuntimeResult:
        return RuntimeProcess(RUNTIME).run(path, self.feeds if feeds is None else feeds, self.clock.left)


def verify(
    before: Path,
    after: Path | IrModel,
    checks: VerifyOptions,
    progress: Progress | None = None,
    _options: Options | None = None,
    _report: Report | None = None,
) -> Verdict:
    """Compare two IRs (.xml, the .bin beside it), whoever made them; one in memory is staged for OpenVINO to read.

    ``checks.inputs`` has shapes, and ``checks.data`` recorded arrays, by the tensor names of the inputs. Depth and
    witness do not matter (but ``none``, which leaves nobody to ask): there is one runtime, and it runs whole models.
    A model that cannot be run is no error: the verdict is ``unverified`` then, as it is without the openvino package.

    Raises:
        BadInput: A file cannot be read, recorded data does not fit, or a shape is given for an input that is not there.
    """
    if isinstance(after, IrModel):
        with (
            tempfile.TemporaryDirectory(prefix="bnfold-") as folder,
            stage(after, OutputOptions(Path(folder) / "model.xml")) as staged,
        ):
            return verify(before, staged.path, checks, progress)
    clock = Clock(checks.verify_seconds)
    status: Status
    try:
        return _verify(before, after, checks, clock, progress or (lambda *_: None))
    except (_Undecided, CannotFeed) as reason:
        status, text, test = "unverified", str(reason), "nothing"
    except _Fault as finding:
        status, text, test = "failed", str(finding), "interface"
    return Verdict(status, text, test, seed=checks.seed, seconds=clock.seconds)


def _verify(before: Path, after: Path, checks: VerifyOptions, clock: Clock, tell: Progress) -> Verdict:
    model = load(before)
    load(after)
    if checks.runtime == "none":
        raise _Undecided("only OpenVINO can run these models, and --runtime none leaves it out")
    if find_spec(RUNTIME) is None:
        raise _Undecided(HINT)
    with tempfile.TemporaryDirectory(prefix="bnfold-") as folder, clock.phase("runtime"):
        bench = _Bench(before, after, clock, Path(folder), checks.seed)
        _run_original(bench, model, checks)
        tell("original", 1, 3)
        return _compared(bench, model, tell)


def _run_original(bench: _Bench, model: IrModel, checks: VerifyOptions) -> None:
    """Settle on the first inputs that the original takes."""
    error = ""
    for feeds in candidates(model, checks):
        bench.feeds = feeds
        bench.expected = bench.run(bench.before)
        if bench.expected.ran:
            return
        error = bench.expected.error
    raise _Undecided(f"OpenVINO does not run the original: {error}")


def _compared(bench: _Bench, model: IrModel, tell: Progress) -> Verdict:
    actual = bench.run(bench.after)
    if not actual.ran:
        raise _Fault(f"OpenVINO runs the original, but not the rewritten model: {actual.error}")
    tell("rewritten", 2, 3)
    old, new = read_document(bench.before), read_document(bench.after)
    made = new_weights(old, new)
    missing = sorted(bench.expected.results[0].keys() ^ actual.results[0].keys())
    if missing:
        raise _Fault(f"the two models have different outputs: {missing}")
    growth = float(np.sqrt(1 + longest_sum(model) / LANES))
    names = output_names(model, bench.expected.results[0])
    found = explained(
        (_round(bench, old, new, made, number) for number in range(ROUNDS)),
        lambda rounds: [
            _judged(name, index, bench.expected.results, actual.results, rounds, growth)
            for index in range(len(bench.feeds))
            for name in names
        ],
        lambda found: any(item.is_in_doubt for item in found),
    )
    tell("disturbed", 3, 3)
    status, reason = _decided(found, made)
    if status == "verified":
        _check_bodies(bench, new, made, actual)
    elif status == "failed":
        _check_runtime(bench, model, found)
    row = WitnessRow(actual.runtime, None, ran_before=True, ran_after=True)
    decided = "nothing" if status == "unverified" else "storage precision"
    return Verdict(status, reason, decided, output_rows(found), (row,), samples=len(bench.feeds), seed=bench.seed)


def _round(bench: _Bench, old: Document, new: Document, made: Sequence[ir.Stored], number: int) -> Round:
    with ThreadPoolExecutor(2) as pool:  # the runtime works in processes of its own
        rounding = pool.submit(_rounded, bench, new, made, number)
        arithmetic = pool.submit(_rounded, bench, old, single_precision(old), number, move_inputs=True)
        return rounding.result(), arithmetic.result()


def _judged(name: str, index: int, before: Results, after: Results, rounds: Sequence[Round], growth: float) -> Compared:
    """Judge output ``name`` on sample ``index``.

    A unit on every product shows what rounding the products does, not what rounding their sums does: that is more by
    ``growth``, the root of their length, over the eight or sixteen terms that a processor adds at once.
    Raises _Undecided where no number differs, but which of them were picked.
    """
    expected, actual = before[index][name], after[index][name]
    draws = [
        [
            *([{name: new.results[index][name]}] if new.ran else []),
            {name: _shifted(actual, expected, old.results[index][name], growth)},
        ]
        for new, old in rounds
    ]
    dtype = onnx.helper.np_dtype_to_tensor_dtype(expected.dtype)
    item = compared(name, index, expected, actual, draws, dtype, new=int(rounds[0][0].ran))
    wavers = any(not np.array_equal(draw[name], actual) for group in draws for draw in group)
    if item.difference.fault and dtype not in FLOAT_TYPES and wavers:
        raise _Undecided(f"output {name!r} jumps: rounding alone changes which elements it picks")
    return item


def _shifted(actual: Array, expected: Array, draw: Array, growth: float) -> Array:
    """Return the result moved as the original's is, ``growth`` times as far."""
    if actual.dtype.kind != "f" or not actual.shape == expected.shape == draw.shape:
        return actual if np.array_equal(draw, expected) else draw
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(actual.astype(np.float64) + growth * (draw.astype(np.float64) - expected))


def _decided(found: Sequence[Compared], made: Sequence[ir.Stored]) -> tuple[Status, str]:
    """Decide: however coarse the type of the weights, no difference beyond `COARSEST` is rounding."""
    fault = next((item for item in found if item.difference.fault), None)
    if fault is not None:
        return "failed", fault.sentence
    largest = max(largest_difference(dtype) for dtype in (None, *(tensor.dtype for tensor in made)))
    limit = min(largest, COARSEST)
    if doubt := inconclusive(found, lambda item: item.difference.relative > limit):
        return "unverified", doubt
    return "verified", agree(output_rows(found), len({item.sample for item in found}), "OpenVINO")


def _check_bodies(bench: _Bench, document: Document, made: Sequence[ir.Stored], actual: RuntimeResult) -> None:
    """Raise _Undecided for a body with new constants to which no output reacts: it was never entered."""
    for name, weights in by_body(document, made).items():
        moved = _rounded(bench, document, weights, 0)
        pairs = zip(actual.results, moved.results, strict=True)
        if all(np.array_equal(old[key], new[key], equal_nan=True) for old, new in pairs for key in old):
            raise _Undecided(
                f"no output reacts to the new constants of {name} on these inputs; give inputs that reach them "
                "with --data, or draw more with --samples"
            )


def _check_runtime(bench: _Bench, model: IrModel, found: Sequence[Compared]) -> None:
    """Raise _Undecided where OpenVINO does not compute the *original* as the float64 referee does.

    It has errors of its own (in 2026.4, a ReduceMean that drops axes, with a Multiply for each channel behind it), and
    what a runtime gets wrong in two ways is no evidence. Where the referee lacks an operator, there is no such doubt.
    """
    dtypes = {item.name: item.dtype for item in found}
    values = dict(named_results(model, bench.expected.results[0]))
    for feeds, given in zip(bench.feeds, bench.expected.results, strict=True):
        try:
            truth = reference.evaluate(model, feeds, list(values.values()), limit_seconds=bench.clock.left)
        except (BnfoldError, MemoryError):
            return
        for name, value in values.items():
            measured = errors([{name: truth[value]}], [given], name)
            if measured is not None and not agrees(measured, dtypes[name]):
                raise _Undecided(
                    f"output {name!r} of the original differs in OpenVINO from float64 by {measured.largest:.2g} "
                    "of its largest value, so OpenVINO cannot show whether the two models agree"
                )


def _rounded(
    bench: _Bench, document: Document, weights: Sequence[ir.Stored], number: int, *, move_inputs: bool = False
) -> RuntimeResult:
    """Return the model with ``weights`` moved, and the inputs too where that is asked."""
    if not weights and not move_inputs:
        return RuntimeResult(RUNTIME, error="nothing was rounded")
    folder = Path(tempfile.mkdtemp(dir=bench.folder))
    seed = bench.seed + 1000 * (number + 1)
    feeds = disturbed_feeds(bench.feeds, seed) if move_inputs else bench.feeds
    testimony = bench.run(disturbed(document, weights, seed, folder), feeds)
    if not testimony.ran:
        raise _Undecided(f"OpenVINO does not run the model once more: {testimony.error}")
    return testimony
