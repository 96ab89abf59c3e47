"""The reference evaluator: a float64 evaluation of whole models that shares no code with the rewriting side.

It has its own kernels for every version of the normalisations, for legacy operators that no evaluator has or gets
right, and for what real networks spend their time in; onnx's reference implementation serves, node by node, for
operators on a list that was checked. An operator version on neither is refused (`CannotEvaluate`), never guessed.
"""

from bnfold.reference.alterations import Alterations, Substitute
from bnfold.reference.constants import constant, keeping_constants
from bnfold.reference.dispatch import unknown_operator
from bnfold.reference.evaluate import Observer, OutOfTime, evaluate
from bnfold.reference.prepared import KeptWeights, Prepared
from bnfold.reference.registered import callers_word
from bnfold.reference.registry import CannotEvaluate, Misfit, Noise, Random, TooShort
from bnfold.reference.trial import Refusal, ShapeTrial, try_shapes
from bnfold.reference.work import Work
from bnfold.settings import Policy

__all__ = [
    "Alterations",
    "CannotEvaluate",
    "KeptWeights",
    "Misfit",
    "Noise",
    "Observer",
    "OutOfTime",
    "Policy",
    "Prepared",
    "Random",
    "Refusal",
    "ShapeTrial",
    "Substitute",
    "TooShort",
    "Work",
    "callers_word",
    "constant",
    "evaluate",
    "keeping_constants",
    "try_shapes",
    "unknown_operator",
]
