"""Dropout: ``is_test`` to version 7, the mask's type to 10, ``ratio`` and mode as inputs to 12."""

from __future__ import annotations

import numpy as np

from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import Site


def test_mode(site: Site) -> None:
    """6 → 7: from 7 to 11 Dropout copies; training, where the node says it, needs version 12."""
    is_test = site.take("is_test")
    site.node.del_attr("consumed_inputs")
    if is_test is None:
        if site.policy.legacy_mode == "error":
            raise Inexpressible("has no is_test, so it may mean training or inference (--legacy-mode says which)")
        is_test = site.policy.legacy_mode != "training"
        mode = "inference" if is_test else "training"
        site.repair("absent-is-test", f"Dropout without is_test: read as {mode}")
    if is_test or site.policy.force_inference:
        if not is_test:
            site.repair("forced-inference", "Dropout in training mode read as inference, as asked")
        return
    if site.target < 12:
        raise Inexpressible("drops at random (is_test=0), which versions 7 to 11 cannot say")
    boolean_mask(site)
    ratio_input(site)
    ratio = site.node.input(1)
    site.node.set_inputs([site.input(0), ratio, site.constant(np.array(True), "training_mode")])
    site.finished = True


def boolean_mask(site: Site) -> None:
    """7 → 10: the mask is boolean; who reads it gets it in the data's type, as before."""
    mask = site.node.output(1)
    if mask is None:
        return
    if not (mask.uses or mask.is_output):
        site.node.trim_outputs(1)
        return
    site.append("Cast", [site.divert(1, "mask")], mask, to=site.dtype(site.input(0)))


def ratio_input(site: Site) -> None:
    """10 → 12: ``ratio`` is an input."""
    ratio = site.take("ratio")
    if ratio is not None:
        site.node.set_input(1, site.constant(np.array(ratio, np.float32), "ratio"))
