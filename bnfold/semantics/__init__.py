"""What a BatchNormalization or InstanceNormalization of any version *means*, as one frozen record.

This room reads and decides; it never edits a graph. What had to be decided rather than read is in the record's
``repairs``, so that no choice stays silent.
"""

from bnfold.semantics.batchnorm import Form
from bnfold.semantics.instancenorm import InstanceNorm
from bnfold.semantics.policy import Repair, Unreadable
from bnfold.settings import Policy

__all__ = ["Form", "InstanceNorm", "Policy", "Repair", "Unreadable"]
