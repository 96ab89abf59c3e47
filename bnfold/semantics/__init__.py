"""What a BatchNormalization or InstanceNormalization of any version *means*, and which operands are neutral.

This room reads and decides; it never edits a graph. What had to be decided rather than read becomes a `Repair`, so that
no choice stays silent.
"""

from bnfold.semantics.batchnorm import BatchNormSpec
from bnfold.semantics.policy import Repair, Unreadable
from bnfold.settings import Policy

__all__ = ["BatchNormSpec", "Policy", "Repair", "Unreadable"]
