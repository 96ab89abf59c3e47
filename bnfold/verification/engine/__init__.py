"""How other rooms compare models: in a runtime, beside results from elsewhere, or on inputs of their own.

`bnfold.verification.verify` compares two ONNX models. What is compared otherwise takes its tools from here, and nothing
from the rooms beside this one.
"""

from bnfold.verification.changes.new_names import paired
from bnfold.verification.comparing.outputs import Compared
from bnfold.verification.engine.beside import Beside
from bnfold.verification.engine.in_runtime import RuntimePair
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.inputs.drawing import random_value
from bnfold.verification.runtimes.runtime import RuntimeResult
from bnfold.verification.runtimes.threads import one_thread
from bnfold.verification.tolerance.floats import float_type
from bnfold.verification.tolerance.rounding import disturb, is_short

__all__ = [
    "Beside",
    "Compared",
    "RuntimePair",
    "RuntimeResult",
    "candidates",
    "disturb",
    "float_type",
    "is_short",
    "one_thread",
    "paired",
    "random_value",
]
