"""Whole-model opset upgrade, with BatchNormalization and InstanceNormalization read by meaning.

There is one table of every version step of every operator (:mod:`bnfold.upgrading.table`); a node whose steps are all
compatible is not touched, the others go through adapters of our own, and what has no exact equivalent is an error that
lists all such nodes.
"""

from bnfold.upgrading.imports import leave_old_ir, merge_opset_imports, strip_initializer_inputs
from bnfold.upgrading.run import Upgraded, run
from bnfold.upgrading.walk import Change

__all__ = ["Change", "Upgraded", "leave_old_ir", "merge_opset_imports", "run", "strip_initializer_inputs"]
