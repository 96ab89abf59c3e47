"""Compare two IRs numerically: run both in OpenVINO on the CPU, in float32, on the same seeded inputs.

`bnfold.verification.engine.in_runtime` describes the comparison. Nothing here knows how models are rewritten.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BadSetting
from bnfold.interop.openvino.disturb import (
    by_body,
    disturbed,
    disturbed_feeds,
    longest_sum,
    new_weights,
    single_precision,
)
from bnfold.interop.openvino.document import Document, read_document
from bnfold.interop.openvino.load import IrModel, load
from bnfold.interop.openvino.naming import named_results, output_names
from bnfold.interop.openvino.stage import stage
from bnfold.ir.elements import Array
from bnfold.report.events import Report
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.verification import Verdict
from bnfold.verification.engine import RuntimePair, RuntimeResult

HINT = "openvino, which runs these models, is not installed: pip install openvino"

LANES = 16
"""Partial sums that OpenVINO adds side by side: floats in one of its vector registers."""


def verify(
    before: Path,
    after: Path | IrModel,
    checks: VerifyOptions,
    progress: Progress | None = None,
    _options: Options | None = None,
    _report: Report | None = None,
) -> Verdict:
    """Compare two IRs (an .xml file with its .bin); an IR in memory is written to a temporary folder first.

    ``checks.inputs`` has shapes, and ``checks.data`` has recorded arrays, by the tensor names of the inputs. The depth
    is ignored, because OpenVINO runs whole models only. The runtime is ignored too, except that ``none`` leaves nothing
    to run the models with. If a model cannot be run, or openvino is not installed, the verdict is ``unverified``; that
    is no error.

    Raises:
        BadInput: A file cannot be read, recorded data does not fit, or a shape is given for an input that does not
            exist.
        BadSetting: A tolerance is given, or a folder to save a part in.
    """
    if checks.tolerance is not None:
        raise BadSetting("tolerance", "a tolerance is for ONNX models, not for OpenVINO IRs")
    if checks.save is not None:
        raise BadSetting("save", "parts are cut out of ONNX models, not of OpenVINO IRs")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bnfold-")))
        if isinstance(after, IrModel):
            after = stack.enter_context(stage(after, OutputOptions(folder / "model.xml"))).path
        pair = _IrPair(load(before), load(after), before, after, checks, folder)
        return pair.verify(progress or (lambda *_: None))


class _IrPair(RuntimePair):
    """Two IRs, run by OpenVINO."""

    runtime, label = "openvino", "OpenVINO"

    def __init__(
        self, model: IrModel, rewritten: IrModel, before: Path, after: Path, checks: VerifyOptions, folder: Path
    ) -> None:
        super().__init__(model, rewritten, checks)
        self._ir, self._before, self._after, self._folder = model, before, after, folder

    def start(self) -> None:
        if self.checks.runtime == "none":
            self.stop("only OpenVINO can run these models, and --runtime none leaves it out")
        if find_spec(self.runtime) is None:
            self.stop(HINT)
        self._old, self._new = read_document(self._before), read_document(self._after)
        self._made = new_weights(self._old, self._new)

    def before(self) -> RuntimeResult:
        return self.run(self._before)

    def after(self) -> RuntimeResult:
        return self.run(self._after)

    def rounded(self, number: int) -> RuntimeResult:
        if not self._made:
            return RuntimeResult(self.runtime, error="nothing was rounded")
        return self._moved(self._new, self._made, number)

    def inexact(self, number: int) -> RuntimeResult:
        seed = self._seed(number)
        return self._moved(self._old, single_precision(self._old), number, disturbed_feeds(self.feeds, seed))

    def new_types(self) -> list[int]:
        return [tensor.dtype for tensor in self._made]

    def growth(self) -> float:
        """Return the square root of the number of terms that are added one after the other."""
        return float(np.sqrt(1 + longest_sum(self._ir) / LANES))

    def names(self, result: Mapping[str, Array]) -> list[str]:
        return output_names(self._ir, result)

    def evaluate(self, feeds: dict[str, Array], result: Mapping[str, Array]) -> dict[str, Array]:
        values = dict(named_results(self._ir, result))
        truth = reference.evaluate(self._ir, feeds, list(values.values()), limit_seconds=self.clock.left)
        return {name: truth[value] for name, value in values.items()}

    def unreached(self, actual: RuntimeResult) -> str:
        for name, weights in by_body(self._new, self._made).items():
            moved = self._moved(self._new, weights, 0)
            pairs = zip(actual.results, moved.results, strict=True)
            if all(np.array_equal(old[key], new[key], equal_nan=True) for old, new in pairs for key in old):
                return name
        return ""

    def _seed(self, number: int) -> int:
        return self.checks.seed + 1000 * (number + 1)

    def _moved(
        self,
        document: Document,
        weights: Sequence[ir.Stored],
        number: int,
        feeds: Sequence[dict[str, Array]] | None = None,
    ) -> RuntimeResult:
        """Run a copy in which each of the ``weights`` is moved by one unit in the last place."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        path = disturbed(document, weights, self._seed(number), folder)
        return self.run_again(path, self.feeds if feeds is None else feeds)
