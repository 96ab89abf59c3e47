"""What follows from what a file says, for rewriting: constants, shapes, traits of operators.

Verification believes none of it; tests/test_architecture.py lists what it lets suggest sizes.
"""

from bnfold.analysis.constants import constant, evaluated_once, is_made_of_constants
from bnfold.analysis.shapes.inference import infer_shapes

__all__ = ["constant", "evaluated_once", "infer_shapes", "is_made_of_constants"]
