"""Two models that only a runtime can run, compared in the types that they store.

There is no evaluation in float64 here, so a difference is weighed against two measured effects of rounding: that of the
new constants, each moved by one unit of the type it is *stored* in, and that of float32 arithmetic, shown by the
*original* with its own float32 constants and inputs moved by one unit. What counts as a fault is then decided by the
same arithmetic as for ONNX (`bnfold.verification.tolerance.compare`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.settings import VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.verification.claims import ClaimOutcome, NumberKind, Why, about_whole
from bnfold.verification.codes import Code
from bnfold.verification.comparing.doubts import inconclusive
from bnfold.verification.comparing.outputs import (
    Compared,
    are_in_doubt,
    compared,
    experiments,
    first_fault,
    largest_difference,
    output_rows,
)
from bnfold.verification.comparing.sides import explained
from bnfold.verification.explaining import ComparedModels, with_explanation
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.inputs.drawing import CannotFeed, DrawnFeeds
from bnfold.verification.obstacles import Broken, NotCompared, Obstacle, not_run, silent
from bnfold.verification.request import Clock
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult
from bnfold.verification.sentences import agree
from bnfold.verification.tolerance.compare import ROUNDS
from bnfold.verification.tolerance.floats import FLOAT_TYPES
from bnfold.verification.tolerance.storage import agrees, errors
from bnfold.verification.verdict import RuntimeRow, Verdict, verdict_on

COARSEST = 2.0**-5
"""Of the scale: the largest difference that is ever put down to rounding."""

RuntimeResults = Sequence[Mapping[str, Array]]
Round = tuple[RuntimeResult, RuntimeResult]
"""What runs gave with the new constants moved, and those of the original with its own and the inputs moved."""


class RuntimePair(ABC):
    """Two models and the runtime that runs them. A subclass says how they run, and how their constants are moved.

    Attributes:
        runtime: The runtime's package.
        label: Its name in sentences.
        feeds: The inputs that are compared, once they are chosen.
        checks: The settings of the verification.
    """

    runtime: str
    label: str

    def __init__(self, model: ir.Model, rewritten: ir.Model, checks: VerifyOptions) -> None:
        self.model, self.checks = model, checks
        self._models = ComparedModels(model, rewritten, has_parts=False)
        self.clock = Clock(checks.verify_seconds)
        self.feeds: list[DrawnFeeds] = []

    @abstractmethod
    def start(self) -> None:
        """Start to compare. Raises NotCompared if they cannot be run at all."""

    @abstractmethod
    def before(self) -> RuntimeResult:
        """Run the original on `feeds`."""

    @abstractmethod
    def after(self) -> RuntimeResult:
        """Run the rewritten model on `feeds`."""

    @abstractmethod
    def rounded(self, number: int) -> RuntimeResult:
        """Run the rewritten model with its new constants moved by a unit; an error without results if it has none."""

    @abstractmethod
    def inexact(self, number: int) -> RuntimeResult:
        """Run the original with its constants and inputs moved by a unit."""

    @abstractmethod
    def new_types(self) -> list[int]:
        """Return the element types of the new constants."""

    @abstractmethod
    def growth(self) -> float:
        """Return by how much more rounding sums moves results than rounding products does."""

    @abstractmethod
    def names(self, result: Mapping[str, Array]) -> list[str]:
        """Return the names of the outputs in ``result``, in order."""

    @abstractmethod
    def evaluate(self, feeds: DrawnFeeds, result: Mapping[str, Array]) -> dict[str, Array]:
        """Evaluate the original in float64; values by the names in ``result``. Raises BnfoldError where it cannot."""

    @abstractmethod
    def unreached(self, actual: RuntimeResult) -> str:
        """Return the part with new constants that no run enters; empty if there is none."""

    @staticmethod
    def stop(reason: str) -> NoReturn:
        """Raise NotCompared for this reason."""
        raise NotCompared(silent(reason))

    def run(self, path: Path, feeds: Sequence[DrawnFeeds] | None = None) -> RuntimeResult:
        """Run a file on `feeds`, or on others, within the time that is left."""
        return RuntimeProcess(self.runtime).run(path, self.feeds if feeds is None else feeds, self.clock.left)

    def run_again(self, path: Path, feeds: Sequence[DrawnFeeds]) -> RuntimeResult:
        """Run a changed copy of a model that ran. Raises NotCompared if it does not."""
        found = self.run(path, feeds)
        if not found.ran:
            self.stop(f"{self.label} does not run the model once more: {found.error}")
        return found

    def verify(self, progress: Progress) -> Verdict:
        """Compare the two models; a model that cannot be run is ``unverified``.

        Raises BadSetting if an explanation is asked for of a value that neither model has.
        """
        if self.checks.explain:
            self._models.require(self.checks.explain)
        return with_explanation(self._verdict(progress), self._models, self.checks)

    def _verdict(self, progress: Progress) -> Verdict:
        try:
            with self.clock.phase("runtime"):
                self.start()
                return self._compare(self._run_original(), progress)
        except CannotFeed as error:
            outcome = ClaimOutcome(doubt=not_run(error))
        except Obstacle as obstacle:
            outcome = obstacle.outcome
        row = about_whole([value.name for value in self.model.graph.outputs], outcome, prover="runtime")
        return verdict_on(row, "interface", seed=self.checks.seed, seconds=self.clock.seconds, ledger=(row,))

    def _run_original(self) -> RuntimeResult:
        """Choose the first inputs that the original takes."""
        error = ""
        for drawn in candidates(self.model, self.checks):
            self.feeds = drawn if self.checks.data is not None else drawn + _other_branches(drawn)
            found = self.before()
            if found.ran:
                return found
            error = found.error
        return self.stop(f"{self.label} does not run the original: {error}")

    def _compare(self, expected: RuntimeResult, progress: Progress) -> Verdict:
        progress("original", 1, 3)
        actual = self.after()
        if not actual.ran:
            reason = f"{self.label} runs the original, but not the rewritten model: {actual.error}"
            raise Broken(Why(Code.REFUSED, reason))
        progress("rewritten", 2, 3)
        missing = sorted(expected.results[0].keys() ^ actual.results[0].keys())
        if missing:
            raise Broken(Why(Code.INTERFACE, f"the two models have different outputs: {missing}"))
        names, growth = self.names(expected.results[0]), self.growth()
        found = explained(
            (self._round(number) for number in range(ROUNDS)),
            lambda rounds: [
                _compared(name, index, expected.results, actual.results, rounds, growth)
                for index in range(len(self.feeds))
                for name in names
            ],
            lambda found, _: are_in_doubt(found),
        )
        progress("disturbed", 3, 3)
        outcome, rows = self._decide(found), output_rows(found)
        if outcome.agrees and (part := self.unreached(actual)):
            reason = f"no output reacts to the new constants of {part} on these inputs; give inputs that reach them "
            raise NotCompared(Why(Code.NO_REACTION, f"{reason}with --data, or draw more with --samples"))
        if outcome.differs:
            self._check_runtime(expected, found)
        row = RuntimeRow(actual.runtime, None, ran_before=True, ran_after=True)
        kind: NumberKind = "drawn" if self.checks.data is None else "recorded"
        runs = experiments(found, [(feeds, kind) for feeds in self.feeds])
        agreed = Why(Code.TESTED, agree(rows, len({item.sample for item in found}), self.label))
        whole = about_whole(names, outcome, agreed, runs, "runtime")
        return verdict_on(
            whole,
            "storage precision",
            outputs=rows,
            witnesses=(row,),
            samples=len(self.feeds),
            seed=self.checks.seed,
            ledger=(whole,),
        )

    def _round(self, number: int) -> Round:
        with ThreadPoolExecutor(2) as pool:  # the runtime works in processes of its own
            rounding = pool.submit(self.rounded, number)
            arithmetic = pool.submit(self.inexact, number)
            return rounding.result(), arithmetic.result()

    def _decide(self, found: Sequence[Compared]) -> ClaimOutcome:
        """Decide: however coarse the type of the weights, no difference beyond `COARSEST` is rounding."""
        fault = first_fault(found)
        if fault is not None:
            return ClaimOutcome(fault=Why(Code.DIFFERS, fault.sentence))
        limit = min(max(map(largest_difference, (None, *self.new_types()))), COARSEST)
        return ClaimOutcome(doubt=inconclusive(found, lambda item: item.difference.relative > limit))

    def _check_runtime(self, expected: RuntimeResult, found: Sequence[Compared]) -> None:
        """Raise NotCompared if the runtime does not compute the *original* as float64 does.

        It has errors of its own (OpenVINO 2026.4: a ReduceMean that drops axes, with a Multiply for each channel behind
        it), and what a runtime gets wrong in two ways is no evidence. If the reference evaluator lacks an operator,
        there is no such doubt.
        """
        dtypes = {item.name: item.dtype for item in found}
        for feeds, given in zip(self.feeds, expected.results, strict=True):
            try:
                truth = self.evaluate(feeds, given)
            except (BnfoldError, MemoryError):
                return
            for name in truth:
                measured = errors([truth], [given], name)
                if measured is not None and not agrees(measured, dtypes[name]):
                    self.stop(
                        f"output {name!r} of the original differs in {self.label} from float64 by "
                        f"{measured.largest:.2g} of its largest value, so {self.label} cannot show whether the two "
                        "models agree"
                    )


def _other_branches(drawn: Sequence[DrawnFeeds]) -> list[DrawnFeeds]:
    """Return the same inputs with every boolean inverted, if there are any, so that every If takes its other branch."""
    return [
        {name: ~array if array.dtype == bool else array for name, array in feeds.items()}
        for feeds in drawn
        if any(array.dtype == bool for array in feeds.values())
    ]


def _compared(
    name: str, index: int, before: RuntimeResults, after: RuntimeResults, rounds: Sequence[Round], growth: float
) -> Compared:
    """Compare output ``name`` on sample ``index``.

    A unit on every product shows what rounding the products does, not what rounding their sums does: that is more by
    ``growth``.
    Raises NotCompared if no number differs, but which elements were picked.
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
        RuntimePair.stop(f"output {name!r} jumps: rounding alone changes which elements it picks")
    return item


def _shifted(actual: Any, expected: Any, draw: Any, growth: float) -> Array:
    """Return the result moved as the original's is, ``growth`` times as far."""
    if actual.dtype.kind != "f" or not actual.shape == expected.shape == draw.shape:
        return np.asarray(actual if np.array_equal(draw, expected) else draw)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(actual.astype(np.float64) + growth * (draw.astype(np.float64) - expected))
