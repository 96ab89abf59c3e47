"""The version of ai.onnx.ml: it follows an opset that is lowered, or is what the caller names."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import defs

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.walk import Blocker, GraphConverter, NodeChange
from bnfold.errors import Unsupported
from bnfold.ir.schemas import MACHINE_LEARNING


def convert_domain(walk: GraphConverter, model: ir.Model, wanted: int | None) -> str:
    """Bring the domain to version ``wanted``, and return a note on what stays.

    None means the version that came with the target, if the opset goes down and every node has a form there. Nodes
    that have no form in a version that is wanted are blockers of the walk.
    """
    imports = [entry for entry in imports_of(model) if entry.domain == MACHINE_LEARNING]
    own = max((entry.version for entry in imports), default=0)
    target = wanted or (min(own, version_with(walk.context.target)) if walk.context.given is not None else own)
    if target == own or not own or walk.blockers:
        return ""
    nodes = [
        node for node in model.nodes() if node.domain == MACHINE_LEARNING and ("", node.op_type) not in walk.functions
    ]
    edits, blockers = [], list[Blocker]()
    for node in nodes:
        conversion = NodeConversion(node, walk.context)
        try:
            edits.append((conversion, _plan(conversion, target)))
        except Unsupported as error:
            blockers.append(Blocker(node.op_type, None, repr(node.label), str(error)))
    if blockers and wanted is None:
        return f"{MACHINE_LEARNING} stays at version {own}: {blockers[0]}"
    walk.blockers += blockers
    for conversion, edit in edits if not blockers else ():
        apply_edit(walk, conversion, edit)
    for entry in imports:
        entry.version = target
    return ""


def version_with(opset: int) -> int:
    """Return the version of the domain that was released together with ``opset``."""
    return max(int(row[3]) for row in onnx.helper.VERSION_TABLE if row[2] <= max(opset, 1))


def imports_of(model: ir.Model) -> list[onnx.OperatorSetIdProto]:
    """Return the imports of the model and of its functions."""
    return [*model.proto.opset_import, *(entry for each in model.proto.functions for entry in each.opset_import)]


def _plan(conversion: NodeConversion, target: int) -> Callable[[], None] | None:
    """Return what brings a node to version ``target``; None if it stands as it is.

    Raises:
        Inexpressible: The node has no equivalent there.
    """
    node = conversion.node
    own, there = _schema(node.op_type, node.graph.opset(MACHINE_LEARNING)), _schema(node.op_type, target)
    if own is None or (there is not None and (there.since_version == own.since_version or _has_form(node, there))):
        return None
    from bnfold.converting.adapters import tree_ensemble, tree_regressor

    adapters = {
        "TreeEnsemble": tree_regressor.to_regressor,
        "TreeEnsembleRegressor": tree_ensemble.from_regressor,
        "TreeEnsembleClassifier": tree_ensemble.from_classifier,
    }
    if node.op_type in adapters and (there is None or there.deprecated):
        return adapters[node.op_type](conversion)
    raise Inexpressible(f"has another form in version {target} of {MACHINE_LEARNING}")


def _schema(op_type: str, version: int) -> defs.OpSchema | None:
    return defs.get_schema(op_type, version, MACHINE_LEARNING) if defs.has(op_type, version, MACHINE_LEARNING) else None


def _has_form(node: ir.Node, schema: defs.OpSchema) -> bool:
    """Whether the other version has all attributes of a node: then it means the same."""
    return not schema.deprecated and node.attrs.keys() <= schema.attributes.keys()


def apply_edit(walk: GraphConverter, conversion: NodeConversion, edit: Callable[[], None] | None) -> None:
    """Apply an edit, and count the node as one that was understood."""
    node = conversion.node
    op_type = node.op_type if node.domain == MACHINE_LEARNING else f"{node.domain}::{node.op_type}"
    walk.passed.pop(f"{node.domain}::{node.op_type}", None)
    walk.met[op_type] += 1
    if edit is None:
        return
    inputs = tuple(value.name for value in node.inputs if value is not None)
    outputs = tuple(value.name for value in node.outputs if value is not None and (value.uses or value.is_output))
    edit()
    cut = ir.Cut(node.graph.path, inputs, outputs, f"upgrade {op_type}")
    added = len(conversion.added) or None
    walk.changes.append(NodeChange(node.graph.path, conversion.label, op_type, None, cut, added))
