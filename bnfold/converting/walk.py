"""The way through the nodes: every graph in order, every node over its operator's version steps.

What lowers an opset is imported where that is asked for: most adapters are for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.converting import exporter_quirks, registry, steps
from bnfold.converting.adapters import broadcast, prestandard, scan
from bnfold.converting.context import ConversionContext, Inexpressible, UnknownType
from bnfold.converting.node_conversion import FORM, NodeConversion
from bnfold.errors import ConversionBlocked, Unsupported
from bnfold.ir.forms import fits, form_of
from bnfold.ir.ordering import producers_first
from bnfold.ir.schemas import attribute_type, schema_of, version_at
from bnfold.semantics import Repair, Unreadable

_AP = onnx.AttributeProto


class NodeChange(NamedTuple):
    """One node that was rewritten.

    Attributes:
        cut: The boundary around the rewrite; None if only the form of the node changed.
        added: The nodes that were added; None where the node only changed its form.
    """

    graph: str
    node: str
    op_type: str
    version: int | None
    cut: ir.Cut | None
    added: int | None = None


class OperatorChange(NamedTuple):
    """What became of the nodes of one operator.

    Attributes:
        as_is: Nodes that stand as they did.
        respelled: Nodes in an older or newer form of the same operator.
        spelled_out: Nodes that are other operators now, or have some beside them.
        added: The nodes that were added for those.
    """

    operator: str
    as_is: int
    respelled: int
    spelled_out: int
    added: int


class Blocker(NamedTuple):
    """A node that cannot be brought to the target."""

    op_type: str
    version: int | None
    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.op_type}{f'-{self.version}' if self.version else ''} {self.node}: {self.why}"


@dataclass(slots=True, eq=False)
class GraphConverter:
    """One pass over a model.

    Attributes:
        functions: Domain and name of the model's own functions, whose bodies are upgraded and whose calls are not.
        blockers: Every node that cannot be brought to the target.
        places: The graph of each, and the first value that it makes.
        passed: Unknown operators, by "domain::operator": left as they are.
        untyped: Nodes that cannot be brought to the target; that a type is not known behind them only follows.
        fail_fast: Whether to stop at the first node that cannot be brought to the target.
        met: The nodes of onnx's own operators, by operator.
    """

    context: ConversionContext
    functions: frozenset[tuple[str, str]] = frozenset()
    changes: list[NodeChange] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    places: list[tuple[str, str]] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    untyped: set[ir.Node] = field(default_factory=set)
    fail_fast: bool = False
    met: Counter[str] = field(default_factory=Counter)

    def operators(self) -> tuple[OperatorChange, ...]:
        """Return what became of the nodes, by operator."""
        changes = {op_type: [0, 0, 0] for op_type in self.met}
        for change in self.changes:
            counts = changes[change.op_type]
            counts[change.added is not None] += 1
            counts[2] += change.added or 0
        return tuple(
            OperatorChange(op_type, self.met[op_type] - sum(counts[:2]), *counts)
            for op_type, counts in sorted(changes.items())
        )

    def graph(self, root: ir.Graph) -> None:
        """Bring every node of ``root``, and of what is nested in it, to the target."""
        opset = root.opset("")
        for node in producers_first(root.nodes):  # shapes are inferred from nodes that have reached the target
            for body in node.bodies if node.subgraphs else ():
                self.graph(body)
            self._node(node, opset)
            if opset > self.context.target and node.is_op("Scan"):
                scan.state_results(node, self.context.target, self.context.types)

    def _node(self, node: ir.Node, opset: int) -> None:
        if node.domain:
            self._pass(node)
            return
        self.met[node.op_type] += 1
        repair = exporter_quirks.complete_pads(node)
        if repair is not None:
            self.context.repairs.append(repair)
        by_meaning = registry.BY_MEANING.get(node.op_type)
        version = steps.living_version(node.op_type, opset)
        if version is None:
            self._unknown(node, opset)
        elif by_meaning is not None:
            self._read(node, opset, by_meaning)
        elif (reason := _value_objection(node, opset, self.context.target)) is not None:
            self._block(_place_of(node), node.label, node.op_type, version, reason)
        elif opset <= self.context.target or not self._stands(node, version):
            self._step(node, opset, version)

    def _stands(self, node: ir.Node, version: int) -> bool:
        from bnfold.converting import as_is

        return as_is.stands(node, version, self.context.target, self.context.types)

    def _step(self, node: ir.Node, opset: int, version: int) -> None:
        """Bring a node over its operator's version steps."""
        if (meant := self._meant(node, version)) != version:
            self._adapt(node, meant, None)
        elif opset > self.context.target and steps.has_meaning(node.op_type, self.context.target):
            self._lower(node, opset)
        elif not steps.is_compatible(node.op_type, version, self.context.target):
            self._adapt(node, version, None)
        elif node.op_type == "PRelu" and version >= 7:
            self._adapt(node, version, broadcast.stray_slope)

    def _read(self, node: ir.Node, opset: int, adapter: Callable[[NodeConversion], None]) -> None:
        version = version_at(node.op_type, opset)
        if version is not None and self._says_all(node, version):
            return
        self._adapt(node, version, adapter)
        if opset > self.context.target:
            from bnfold.converting import downgrade

            # It can be written for any opset, unless an older version lacks its types.
            reason = downgrade.type_objection(node, self.context.target, self.context.types)
            if reason is not None:
                self._block(_place_of(node), node.label, node.op_type, version, reason)

    def _says_all(self, node: ir.Node, version: int) -> bool:
        """Whether a normalisation is in the plainest form of the target version already: nothing has to be decided."""
        return (
            version >= 9
            and len(node.outputs) == 1
            and len(node.inputs) == (5 if node.op_type == "BatchNormalization" else 3)
            and version_at(node.op_type, self.context.target) == version
            and all(attribute.name in ("epsilon", "momentum") for attribute in node.proto.attribute[:])
        )

    def _meant(self, node: ir.Node, version: int) -> int:
        """Return the version that the node has the form of; another one than its opset says is reported."""
        if fits(node, version):  # as nearly all
            return version
        if repair := exporter_quirks.drop_consumed_inputs(node, version):
            self.context.repairs.append(repair)
        meant = exporter_quirks.version_meant(node, version, self.context.target)
        if meant != version:
            has_attributes = node.attrs.keys() <= form_of(node.op_type, version).attributes.keys()
            if meant < version and not has_attributes:
                kind, why = "misplaced-attribute", "have its attributes"
            else:
                kind, why = "later-form" if meant > version else "earlier-form", "allow its form"
            text = f"{node.op_type}-{version} does not {why}: read as {node.op_type}-{meant}, which does"
            self.context.repairs.append(Repair(kind, node.label, text))
        return meant

    def _adapt(self, node: ir.Node, version: int | None, adapter: Callable[[NodeConversion], None] | None) -> None:
        """Run ``adapter``, or those of the node's version steps, and note what became of it."""
        op_type, label, place = node.op_type, node.label, _place_of(node)
        before = node.proto.SerializeToString()
        inputs = tuple(value.name for value in node.inputs if value is not None)
        outputs = tuple(value.name for value in node.outputs if value is not None and (value.uses or value.is_output))
        conversion = NodeConversion(node, self.context)
        try:
            if version is not None:
                _check_types(node, version)
            if adapter is not None:
                adapter(conversion)
            else:
                _step_through(conversion, version or 1)
            if self.context.target < FORM and (conversion.became or conversion.behind):
                from bnfold.converting import downgrade

                downgrade.lower_rest(conversion)
        except Unsupported as error:
            self.untyped.add(node)  # what it makes may be of no known type at the target
            if isinstance(error, UnknownType) and error.value.producer in self.untyped:
                return
            why = error.reason if isinstance(error, Unreadable) else str(error)
            self._block(place, label, op_type, version, why)
            return
        if not conversion.replaced and node.proto.SerializeToString() == before:
            return
        cut = ir.Cut(node.graph.path, inputs, outputs, f"upgrade {op_type}") if conversion.touched else None
        around = [added for added in conversion.added if not added.removed]
        added = len(around) - conversion.replaced if around or node.op_type != op_type else None
        self.changes.append(NodeChange(node.graph.path, label, op_type, version, cut, added))

    def _unknown(self, node: ir.Node, opset: int) -> None:
        adapter = prestandard.adapter_of(node)
        if adapter is not None:
            self._adapt(node, None, adapter)
        elif node.op_type == "MeanVarianceNormalization" and self.context.target >= 9:
            reason = "the withdrawn experiment of this name averages over other axes than version 9"
            self._block(_place_of(node), node.label, node.op_type, None, reason)
        elif opset > self.context.target and version_at(node.op_type, opset) is not None:
            self._lower(node, opset)
        else:
            self._pass(node)

    def _lower(self, node: ir.Node, opset: int) -> None:
        from bnfold.converting import downgrade

        self._adapt(node, version_at(node.op_type, opset), partial(downgrade.step_down, opset=opset))

    def _block(
        self,
        place: tuple[str, str],
        label: str,
        op_type: str,
        version: int | None,
        why: str,
    ) -> None:
        within = f" in {place[0]}" if place[0] else ""
        self.blockers.append(Blocker(op_type, version, f"{label!r}{within}", why))
        self.places.append(place)
        if self.fail_fast:
            raise ConversionBlocked(str(self.blockers[0]), [str(self.blockers[0])], self.places)

    def _pass(self, node: ir.Node) -> None:
        if (node.domain, node.op_type) in self.functions:
            return
        key = f"{node.domain or 'ai.onnx'}::{node.op_type}"
        self.passed[key] = self.passed.get(key, 0) + 1


def _place_of(node: ir.Node) -> tuple[str, str]:
    """Return the graph of a node, and the name of the first value that it makes."""
    return node.graph.path, next((value.name for value in node.outputs if value is not None), "")


def _value_objection(node: ir.Node, opset: int, target: int) -> str | None:
    """Say which value of an attribute ``target`` does not know, whatever opset the model says."""
    name, since = registry.LATER_VALUES.get(node.op_type, ("", {}))
    attribute = node.find(name) if name else None
    if attribute is None or target >= since.get(attribute.s, 0):
        return None
    if opset >= since[attribute.s] and (node.op_type, since[attribute.s]) in steps.downs():
        return None  # the step down knows what to do
    return f"{name}={attribute.s.decode()} does not exist before opset {since[attribute.s]}"


def _check_types(node: ir.Node, version: int) -> None:
    """Raise Inexpressible for an attribute of another type than the operator's: adapters rely on them."""
    schema = schema_of(node.op_type, version)
    for attribute in node.proto.attribute[:]:
        expected = schema.attributes.get(attribute.name)
        if expected is not None and attribute.type not in (_AP.UNDEFINED, attribute_type(expected)):
            raise Inexpressible(f"attribute {attribute.name} is of type {_AP.AttributeType.Name(attribute.type)}")


def _step_through(conversion: NodeConversion, version: int) -> None:
    """Take version steps one by one, until the target or an adapter that converted the node completely."""
    while (
        ahead := steps.steps(conversion.node.op_type, version, conversion.target)
    ) and not conversion.finished:  # it may be renamed
        if ahead[0].blocked is not None:
            raise Inexpressible(ahead[0].blocked)
        if ahead[0].adapter is not None:
            ahead[0].adapter(conversion)
        version = ahead[0].version
