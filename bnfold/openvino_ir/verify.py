"""Do two IRs compute the same? Both run in OpenVINO on the CPU, held to float32, on the same seeded inputs.

There is no float64 referee here, so a difference is weighed against two measured effects of rounding: that of the new
constants, each moved by one unit of the type it is *stored* in, and that of float32 arithmetic, shown by the *original*
with its own float32 constants and inputs moved by one unit. What counts as a fault is then decided by the same
arithmetic as for ONNX (`bnfold.verification.compare`). Nothing here knows how models are rewritten.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from bnfold import ir
from bnfold.openvino_ir.disturb import by_body, disturbed, disturbed_feeds, new_weights, single_precision
from bnfold.openvino_ir.document import Document, read
from bnfold.openvino_ir.lift import IrModel, load, tensor_names
from bnfold.verification import BUDGET_SECONDS, OutputRow, Verdict, WitnessRow
from bnfold.verification.clock import Clock
from bnfold.verification.compare import ROUNDS, Difference, difference, tolerance
from bnfold.verification.data import load_data
from bnfold.verification.floats import FLOAT_TYPES, float_type
from bnfold.verification.full import BLIND, LARGEST_DIFFERENCE
from bnfold.verification.inputs import CannotFeed, input_shapes, random_feeds
from bnfold.verification.shapes import sizings
from bnfold.verification.verdict import Status
from bnfold.verification.witness import Testimony, Witness

RUNTIME = "openvino"
HINT = "openvino, which runs these models, is not installed: pip install bnfold[openvino]"
_COARSEST = 2.0**-5
"""Of the scale. However coarse the type that weights are stored in, no larger difference is put down to rounding."""

Array = npt.NDArray[Any]
Feeds = dict[str, Array]
Results = Sequence[Mapping[str, Array]]


class _Undecided(Exception):
    """The two cannot be compared; the message says why."""


class _Fault(Exception):
    """The two differ in a way that no tolerance concerns."""


@dataclass(slots=True)
class _Bench:
    """Both models and what they gave."""

    before: Path
    after: Path
    clock: Clock
    feeds: list[Feeds]
    expected: Testimony
    folder: Path
    seed: int

    def run(self, path: Path, feeds: Sequence[Feeds] | None = None) -> Testimony:
        return Witness(RUNTIME).testify(path, self.feeds if feeds is None else feeds, self.clock.left)


def verify(
    before: Path,
    after: Path,
    *,
    inputs: Mapping[str, Sequence[int]] | None = None,
    data: Path | None = None,
    samples: int = 1,
    seed: int = 0,
    witness: str = RUNTIME,
    budget_seconds: float = BUDGET_SECONDS,
    progress: Callable[[str, int, int], None] | None = None,
) -> Verdict:
    """Compare two IRs (.xml, the .bin beside it), whoever made them.

    ``inputs`` has shapes, and ``data`` recorded arrays, by tensor name or by the name of the Parameter. A model that
    cannot be run is no error: the verdict is ``unverified`` then, as it is without the openvino package.

    Raises:
        BadInput: A file cannot be read, recorded data does not fit, or a shape is given for an input that is not there.
    """
    clock = Clock(budget_seconds)
    tell = progress or (lambda *_: None)
    status: Status
    try:
        model = load(before)
        load(after)
        if witness == "none":
            raise _Undecided("no runtime was to be asked (--witness none), and nothing else can run these models")
        if find_spec(RUNTIME) is None:
            raise _Undecided(HINT)
        with tempfile.TemporaryDirectory(prefix="bnfold-") as folder, clock.phase("runtime"):
            bench = _bench(model, before, after, clock, Path(folder), inputs or {}, data, samples, seed)
            tell("original", 1, 3)
            return _compared(bench, model, tell)
    except _Undecided as reason:
        status, text = "unverified", str(reason)
    except _Fault as finding:
        status, text = "failed", str(finding)
    return Verdict(status, text, "nothing" if status == "unverified" else "interface", seed=seed, seconds=clock.seconds)


# -- what to run them on


def _bench(  # noqa: PLR0913 - the options of one verification
    model: IrModel,
    before: Path,
    after: Path,
    clock: Clock,
    folder: Path,
    inputs: Mapping[str, Sequence[int]],
    data: Path | None,
    samples: int,
    seed: int,
) -> _Bench:
    """The first inputs that the original takes, with what it makes of them."""
    error = ""
    for feeds in _candidates(model, inputs, data, samples, seed):
        bench = _Bench(before, after, clock, feeds, Testimony(RUNTIME), folder, seed)
        bench.expected = bench.run(before)
        if bench.expected.ran:
            return bench
        error = bench.expected.error
    raise _Undecided(f"OpenVINO does not run the original: {error}")


def _candidates(
    model: IrModel, inputs: Mapping[str, Sequence[int]], data: Path | None, samples: int, seed: int
) -> Iterator[list[Feeds]]:
    if data is not None:
        yield [run.feeds for run in load_data(data, model)]
        return
    tried: list[dict[str, tuple[int, ...]]] = []
    for sizing in sizings():
        try:
            shapes = input_shapes(model, sizing, inputs)
        except CannotFeed as error:
            raise _Undecided(str(error)) from error
        if shapes not in tried:
            tried.append(shapes)
            drawn = [random_feeds(model, shapes, seed, index) for index in range(samples)]
            yield drawn + _other_branches(drawn)


def _other_branches(drawn: Sequence[Feeds]) -> list[Feeds]:
    """The same inputs with every boolean turned round, where there are any: what an If does not enter, it does then."""
    turned = [
        {name: ~array if array.dtype == bool else array for name, array in feeds.items()}
        for feeds in drawn
        if any(array.dtype == bool for array in feeds.values())
    ]
    return turned


# -- what they gave


@dataclass(frozen=True, slots=True)
class _Output:
    """One output on one sample."""

    name: str
    difference: Difference
    dtype: int
    shape: tuple[int, ...]
    response: float
    wavers: bool


def _compared(bench: _Bench, model: IrModel, tell: Callable[[str, int, int], None]) -> Verdict:
    actual = bench.run(bench.after)
    if not actual.ran:
        raise _Fault(f"OpenVINO runs the original, but not the rewritten model: {actual.error}")
    tell("rewritten", 2, 3)
    old, new = read(bench.before), read(bench.after)
    made = new_weights(old, new)
    names = _names(model, bench.expected.results[0])
    _check_interface(bench.expected.results, actual.results)
    rounds: list[tuple[Testimony, Testimony]] = []
    while True:
        with ThreadPoolExecutor(2) as pool:  # the runtime works in processes of its own
            rounding = pool.submit(_rounded, bench, new, made, len(rounds))
            arithmetic = pool.submit(_rounded, bench, old, single_precision(old), len(rounds), move_inputs=True)
            rounds.append((rounding.result(), arithmetic.result()))
        found = [
            _output(name, index, bench.expected.results, actual.results, rounds, has_new=bool(made))
            for index in range(len(bench.feeds))
            for name in names
        ]
        if len(rounds) == ROUNDS or not any(item.difference.is_in_doubt for item in found):
            break
    tell("disturbed", 3, 3)
    coarsest = max((float_type(tensor.dtype).roundoff for tensor in made), default=0.0)
    status, reason = _decide(found, coarsest, has_new=bool(made))
    if status == "verified":
        _check_bodies(bench, new, made, actual)
    row = WitnessRow(actual.runtime, None, ran_before=True, ran_after=True)
    decided = "nothing" if status == "unverified" else "storage precision"
    return Verdict(status, reason, decided, _rows(found), (row,), samples=len(bench.feeds), seed=bench.seed)


def _check_bodies(bench: _Bench, document: Document, made: Sequence[ir.Stored], actual: Testimony) -> None:
    """Raise _Undecided for a body with new constants to which no output reacts: it was never entered."""
    for name, weights in by_body(document, made).items():
        moved = _rounded(bench, document, weights, 0)
        pairs = zip(actual.results, moved.results, strict=True)
        if all(np.array_equal(old[key], new[key], equal_nan=True) for old, new in pairs for key in old):
            raise _Undecided(
                f"no output reacts to the new constants of {name} on these inputs; inputs that lead there can be given "
                "with --data, or more be drawn with --samples"
            )


def _rounded(
    bench: _Bench, document: Document, weights: Sequence[ir.Stored], number: int, *, move_inputs: bool = False
) -> Testimony:
    """The model with ``weights`` moved, and the inputs too where that is asked."""
    if not weights and not move_inputs:
        return Testimony(RUNTIME, error="nothing was rounded")
    folder = Path(tempfile.mkdtemp(dir=bench.folder))
    seed = bench.seed + 1000 * (number + 1)
    feeds = disturbed_feeds(bench.feeds, seed) if move_inputs else bench.feeds
    testimony = bench.run(disturbed(document, weights, seed, folder), feeds)
    if not testimony.ran:
        raise _Undecided(f"OpenVINO does not run the model once more: {testimony.error}")
    return testimony


def _names(model: IrModel, results: Mapping[str, Array]) -> list[str]:
    """One name for each output: of several that a tensor has, the first."""
    (scope, *_) = model.scopes
    names, aliases = [], set()
    for _, value in scope.results:
        port = scope.made.get(value)
        known = []
        if port is not None:
            ports = scope.net.layers[port[0]].ports("output")
            known = [name for found in ports if found.get("id") == port[1] for name in tensor_names(found)]
        found = [name for name in known if name in results]
        names += found[:1]
        aliases.update(found)
    return list(dict.fromkeys([*names, *(name for name in results if name not in aliases)]))


def _check_interface(before: Results, after: Results) -> None:
    missing = sorted(before[0].keys() ^ after[0].keys())
    if missing:
        raise _Fault(f"the two models have different outputs: {missing}")


def _output(
    name: str,
    index: int,
    before: Results,
    after: Results,
    rounds: Sequence[tuple[Testimony, Testimony]],
    *,
    has_new: bool,
) -> _Output:
    expected, actual = before[index][name], after[index][name]
    dtype = onnx.helper.np_dtype_to_tensor_dtype(expected.dtype)
    kind = float_type(dtype)
    response, wavers = 0.0, False
    draws: list[list[Array]] = []
    for new, old in rounds:
        moved = [new.results[index][name]] if new.ran else []
        response = max([response, *(_response(actual, draw) for draw in moved)])
        shaken = old.results[index][name]
        wavers |= any(not np.array_equal(draw, actual) for draw in moved) or not np.array_equal(shaken, expected)
        if actual.shape == expected.shape == shaken.shape and dtype in FLOAT_TYPES:
            with np.errstate(invalid="ignore", over="ignore"):
                moved.append(actual.astype(np.float64) + (shaken.astype(np.float64) - expected))
            draws.append(moved)
    allowed = tolerance(expected, actual, draws, kind, by_channel=False) if draws else None
    return _Output(
        name, difference(expected, actual, kind, allowed), dtype, expected.shape, response if has_new else 1.0, wavers
    )


def _response(actual: Array, draw: Array) -> float:
    """How far an output moved, relative to its largest element."""
    if actual.dtype.kind != "f" or draw.shape != actual.shape:
        return 0.0
    usable = np.isfinite(actual) & np.isfinite(draw)
    size = float(np.abs(actual, where=usable, out=np.zeros(actual.shape)).max(initial=0.0))
    move = np.subtract(draw, actual, where=usable, out=np.zeros(actual.shape))
    return float(np.abs(move).max(initial=0.0)) / size if size else 0.0


def _decide(found: Sequence[_Output], coarsest: float, *, has_new: bool) -> tuple[Status, str]:
    for item in found:
        fault = item.difference.fault
        if fault and item.dtype not in FLOAT_TYPES and item.wavers:
            return "unverified", f"output {item.name!r} jumps: rounding alone changes which elements it picks"
        if fault:
            size = f" ({item.difference.relative:.2g} of its scale, {item.difference.allowed:.2g} allowed)"
            return "failed", f"output {item.name!r}: {fault}{size if item.difference.same_pattern else ''}"
    if has_new and not any(item.response > BLIND * float_type(item.dtype).roundoff for item in found):
        return (
            "unverified",
            "no output reacts to the new constants on these inputs, so a fault in them would not be seen",
        )
    unit = max(coarsest, float_type(None).roundoff)
    limit = min(LARGEST_DIFFERENCE * unit / float_type(None).roundoff, _COARSEST)
    for item in found:
        if item.difference.relative > limit:
            return "unverified", (
                f"output {item.name!r} differs by {item.difference.relative:.2g} of its scale; rounding could cause "
                "that, but nothing shows that the original is so sensitive"
            )
    worst = max((item.difference.relative for item in found), default=0.0)
    if worst == 0:
        return "verified", "both models give the same results in OpenVINO"
    return "verified", f"both models agree in OpenVINO to {worst:.2g} of the scale, which rounding explains"


def _rows(found: Sequence[_Output]) -> tuple[OutputRow, ...]:
    """One row an output: its worst sample."""
    worst: dict[str, _Output] = {}
    for item in found:
        if item.name not in worst or item.difference.excess > worst[item.name].difference.excess:
            worst[item.name] = item
    return tuple(
        OutputRow(
            name=item.name,
            dtype=onnx.TensorProto.DataType.Name(item.dtype).lower(),
            shape=item.shape,
            scale=item.difference.scale,
            max_abs=item.difference.max_abs,
            rms=item.difference.rms,
            relative=item.difference.relative,
            ulps=item.difference.ulps,
            allowed=item.difference.allowed,
            same_pattern=item.difference.same_pattern,
            fault=item.difference.fault,
        )
        for item in worst.values()
    )
