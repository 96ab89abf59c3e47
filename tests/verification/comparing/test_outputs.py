from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import Code, Experiment, Why, verify
from bnfold.verification.comparing.outputs import experiment
from bnfold.verification.tolerance.compare import Difference
from tests.verification.graphs import Depth, model


def noisy_beside(op: str, factor: str) -> ir.Model:
    """A channel in which rounding the factor decides everything, and one that has nothing to do with it."""
    body = f"""(float[N,1,8] x) => (float[N,2,8] y) {{
        m = Mul (x, {factor})  s = Sin (m)  b = {op} (x)  t = Tanh (b)  y = Concat <axis = 1> (s, t)
    }}"""
    return ir.load(model(body, {factor: np.array(1.1e9)}))


@pytest.mark.parametrize(("depth", "status"), [("auto", "failed"), ("full", "unverified"), ("local", "failed")])
def test_the_noise_of_one_channel_explains_no_difference_of_another(depth: Depth, status: str) -> None:
    before = noisy_beside("Abs", "k")
    assert verify(before, noisy_beside("Neg", "anew"), depth=depth, runtime="none").status == status
    assert verify(before, noisy_beside("Abs", "anew"), depth=depth, runtime="none").verified


def test_one_run_says_what_was_found_or_why_there_are_no_results() -> None:
    feeds = {"x": np.ones((2, 3))}
    equal = experiment(feeds, "normal", Difference(scale=2.0, max_abs=1.0, allowed=0.75), hidden=3)
    assert equal == Experiment({"x": (2, 3)}, "normal", Code.TESTED, 0.5, 0.75, 3)
    far = experiment(feeds, "large", Difference(excess=2.0, fault="too far", code=Code.DIFFERS))
    assert (far.found, far.note) == (Code.DIFFERS, "too far")
    none = experiment(feeds, "zeros", Why(Code.NO_FIT, "does not fit"))
    assert none == Experiment({"x": (2, 3)}, "zeros", Code.NO_FIT, note="does not fit")
