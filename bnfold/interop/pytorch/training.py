"""Was it exported in training mode? Then it computes something else at each call, and folding cannot mend that."""

from __future__ import annotations

from dataclasses import dataclass

from bnfold import analysis, ir
from bnfold.errors import ExportedInTraining, Unsupported
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics

DROPS_SINCE = 12
"""The opset from which Dropout has a training mode; from 7 to 11 it copies."""


@dataclass(frozen=True, slots=True)
class Training:
    """The nodes in training mode, by label."""

    normalisations: tuple[str, ...] = ()
    dropouts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.normalisations or self.dropouts)

    def error(self) -> ExportedInTraining:
        """Return the message for the user."""
        nodes = [*(f"BatchNormalization {name}" for name in self.normalisations),
                 *(f"Dropout {name}" for name in self.dropouts)]  # fmt: skip
        listed = ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
        force = "; or read the BatchNormalizations as inference: Options(policy=Policy(force_inference=True))"
        return ExportedInTraining(
            f"the model was exported in training mode ({listed}): call module.eval() before torch.onnx.export"
            f"{'' if self.dropouts else force}",
            nodes,
        )


def training_nodes(model: ir.Model, policy: Policy) -> Training:
    """Return the nodes of every graph that are in training mode under the policy."""
    norms = [node.label for node in model.nodes() if node.is_op("BatchNormalization") and _trains(node, policy)]
    drops = [node.label for node in model.nodes() if node.is_op("Dropout") and _drops(node)]
    return Training(tuple(norms), tuple(drops))


def _trains(node: ir.Node, policy: Policy) -> bool:
    try:
        return batchnorm_semantics.read_batchnorm(node, policy).mode == "training"
    except (Unreadable, Unsupported):
        return False


def _drops(node: ir.Node) -> bool:
    mode = node.input(2) if node.graph.opset() >= DROPS_SINCE else None
    stored = analysis.constant(mode) if mode is not None else None
    return stored is not None and bool(stored.numpy().any())
