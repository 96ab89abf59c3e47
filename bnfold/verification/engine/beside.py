"""Two models beside results that another program computed: PyTorch's module, say."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from bnfold import ir, reference
from bnfold.ir.elements import Array
from bnfold.verification.comparing.outputs import Compared
from bnfold.verification.comparing.sides import evaluator
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.request import Clock
from bnfold.verification.tolerance.compare import Difference, compare_values
from bnfold.verification.tolerance.rounding import PerturbedWeights


class Beside:
    """A model before and after a rewrite, evaluated in float64 and compared with results from elsewhere.

    Every weight counts as rounded: what made the original may have computed any of them.

    Attributes:
        outputs: The names of the outputs, in order.
        clock: The time limit, which begins when this is made.
    """

    def __init__(
        self, before: ir.Model, after: ir.Model, seconds: float, policy: reference.Policy | None = None
    ) -> None:
        nothing = ir.load(onnx.helper.make_model(onnx.helper.make_graph([], "nothing", [], [])))
        self.clock = Clock(seconds)
        self._pair = ModelPair(before, after, PerturbedWeights(nothing, after), evaluator(policy, self.clock))
        self.outputs = self._pair.outputs

    @property
    def is_random(self) -> bool:
        """Whether the original has drawn random numbers."""
        return bool(self._pair.drawn)

    def compare(
        self, feeds: DrawnFeeds, truth: Mapping[str, Array], sample: int
    ) -> tuple[dict[str, Array], list[Compared]]:
        """Compare the rewritten model's outputs with ``truth``, and its inputs of discontinuous operators as well.

        Returns:
            What the original computes, and a finding for each value.

        Raises:
            Unsupported: A model cannot be evaluated.
            OutOfTime: The time limit struck.
        """
        original = self._pair.expect(feeds)
        return original, self._pair.compare(feeds, {**original, **truth}, sample)

    @staticmethod
    def difference(truth: Array, result: Array, dtype: int | None) -> Difference:
        """Compare one array with the truth, with no allowance for rounded weights."""
        return compare_values(truth, result, (), dtype, by_channel=False)
