"""The choices that a user made, in the words of the referee, which shares no code with the side that rewrites."""

from __future__ import annotations

from bnfold import reference
from bnfold.semantics import Policy


def policy(chosen: Policy) -> reference.Policy:
    """How the referee has to read the model as it came; ``error`` has stopped the run before anything is compared."""
    return reference.Policy(
        legacy_mode="auto" if chosen.legacy_mode == "error" else chosen.legacy_mode,
        force_inference=chosen.force_inference,
        saved_var=chosen.saved_var,
    )
