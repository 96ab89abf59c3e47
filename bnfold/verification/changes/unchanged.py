"""Compare two nodes of two models: operator, wiring, attributes and constants."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import onnx

from bnfold import ir
from bnfold.ir.node import attribute_value
from bnfold.ir.time_limit import look_at_clock
from bnfold.reference.dispatch import definition, meaning
from bnfold.reference.legal import MEANINGLESS
from bnfold.verification.changes.copies import copied
from bnfold.verification.changes.extract import constant_of, draws
from bnfold.verification.changes.from_constants import are_one_constant, fixed
from bnfold.verification.changes.states import is_left_out
from bnfold.verification.changes.targets import is_asked_for
from bnfold.verification.tolerance.bits import same

_MANY = 1024
"""Pairs of values that are visited to find out whether two values are computed in the same way."""


def unchanged(old: ir.Node, new: ir.Node) -> bool:
    """Whether two nodes produce equal values under the same names; the nodes of bodies are compared separately.

    If the original node only copies a value, the new node may compute that value itself.
    """
    look_at_clock()
    if _names(old.outputs) != _names(new.outputs):
        return False
    if _are_equivalent(old, new):
        return True
    source = copied(old.output(0))
    producer = source.producer if source is not None else None
    return (
        producer is not None
        and producer is not old
        and producer.graph is old.graph
        and _is_repeatable(producer)
        and len(_names(old.outputs)) == len(_names(producer.outputs)) == 1
        and _are_equivalent(producer, new)
    )


def _are_equivalent(old: ir.Node, new: ir.Node) -> bool:
    is_same = is_same_function(old, new) and all(
        _same_input(a, b) or is_left_out(old, new, slot)
        for slot, (a, b) in enumerate(zip_longest(old.inputs, new.inputs))
    )
    return is_same or is_asked_for(old, new, _same_input)  # which infers sizes


def identity(node: ir.Node) -> tuple[object, ...]:
    """Return the meaning of a node and the name of its first output; its counterpart's are equal."""
    return (*meaning(node), next((value.name for value in node.outputs if value is not None), ""))


def _same_input(old: ir.Value | None, new: ir.Value | None) -> bool:
    """Compare inputs.

    A value that no caller can override is compared by content, however it is computed or named. Copies are followed to
    the value that they copy. If the original computes a value twice, either result may be read.
    """
    if _is_kept(old, new):  # decides most cases, so it is first
        return True
    old, new = copied(old), copied(new)
    if old is None or new is None:
        return old is new
    if _is_kept(old, new):
        return True
    if (one := fixed(old)) is not None and (other := fixed(new)) is not None:
        return same(one, other)
    counterpart = old.graph.values.get(new.name)
    return counterpart is not None and same_value(counterpart, new) and _is_made_twice(old, counterpart)


def _is_kept(old: ir.Value | None, new: ir.Value | None) -> bool:
    """Whether the same value is read under the same name."""
    return old is not None and new is not None and old.name == new.name and same_value(old, new)


def _is_made_twice(old: ir.Value, counterpart: ir.Value) -> bool:
    """Whether two values of one graph are computed by equal operators from equal values."""
    waiting: list[tuple[ir.Value | None, ir.Value | None]] = [(old, counterpart)]
    seen: set[tuple[ir.Value, ir.Value]] = set()
    while waiting:
        one, other = map(copied, waiting.pop())
        if one is other or (one, other) in seen:
            continue
        if one is None or other is None or len(seen) == _MANY:
            return False
        seen.add((one, other))
        if are_one_constant(one, other):
            continue
        if one.producer is None or other.producer is None or one.slot != other.slot:
            return False
        if not _are_alike(one.producer, other.producer):
            return False
        waiting += zip_longest(one.producer.inputs, other.producer.inputs)
    return True


def _are_alike(one: ir.Node, other: ir.Node) -> bool:
    """Whether two nodes of one graph produce equal results from equal inputs, each time they run."""
    return (
        one.graph is other.graph
        and _is_repeatable(one)
        and is_same_function(one, other)
        and [value is None for value in one.outputs] == [value is None for value in other.outputs]
    )


def _is_repeatable(node: ir.Node) -> bool:
    """Whether a node is certain to produce equal results from equal inputs whenever it runs."""
    return not (node.domain or node.subgraphs or node.is_call or draws(node))


def same_value(old: ir.Value | None, new: ir.Value | None) -> bool:
    """Whether two values are equal: constants by content, defaults included, others by name and scope."""
    if old is None or new is None:
        return old is new
    one, other = constant_of(old), constant_of(new)
    if (one is None) != (other is None):
        one, other = one or fixed(old), other or fixed(new)
    if one is not None and other is not None:
        return same(one, other)
    return one is other and old.graph.path == new.graph.path


def _names(values: list[ir.Value | None]) -> list[str]:
    names = [value.name if value is not None else "" for value in values]
    while names and not names[-1]:
        names.pop()
    return names


def is_same_function(old: ir.Node, new: ir.Node) -> bool:
    """Whether two nodes have equal results for equal inputs; the nodes of bodies are compared separately."""
    return _same_operator(old, new) and _same_attributes(old, new)


def _same_attributes(old: ir.Node, new: ir.Node) -> bool:
    """Whether the attributes are equal, large tensors by content: two files have other tokens for them."""
    is_same_text = old.proto.attribute == new.proto.attribute and defaults(old) == defaults(new)
    if is_same_text and not old.subgraphs and not new.subgraphs:  # decides most cases, so it is first
        return True
    one, other = _lifted(old), _lifted(new)
    return (
        one.keys() == other.keys()
        and _attributes(old, new) == _attributes(new, old)
        and all(same(tensor, other[name]) for name, tensor in one.items())
    )


def _lifted(node: ir.Node) -> dict[str, ir.Tensor]:
    """Return the tensors of attributes whose payload is not in the skeleton."""
    return {each.name: node.graph.model.tensor(each.t) for each in node.proto.attribute if _is_lifted(node, each)}


def _is_lifted(node: ir.Node, attribute: onnx.AttributeProto) -> bool:
    return attribute.HasField("t") and node.graph.model.payloads.get(attribute.t.raw_data) is not None


def _attributes(node: ir.Node, other: ir.Node) -> dict[str, object]:
    """Return attributes as bytes, but of graphs the signature alone: their nodes are compared separately.

    An attribute that states its default is left out, unless ``other`` has another default for it. So are large tensors
    (`_lifted`).
    """
    own, its = defaults(node), defaults(other)
    return {
        name: [signature(graph) for graph in node.subgraphs[name]]
        if name in node.subgraphs
        else _unnamed(attribute).SerializeToString(deterministic=True)
        for name, attribute in ((each.name, each) for each in meaningful_attributes(node))
        if name not in MEANINGLESS
        and not _is_lifted(node, attribute)
        and not (
            name in own
            and its.get(name, own[name]) == own[name]
            and not (attribute.ref_attr_name or name in node.subgraphs)
            and attribute_value(attribute) == own[name]
        )
    }


def _unnamed(attribute: onnx.AttributeProto) -> onnx.AttributeProto:
    """Return the attribute without the name and the description of a tensor in it, which mean nothing."""
    if not attribute.HasField("t") or not (attribute.t.HasField("name") or attribute.t.HasField("doc_string")):
        return attribute
    bare = onnx.AttributeProto()
    bare.CopyFrom(attribute)
    bare.t.ClearField("name")
    bare.t.ClearField("doc_string")
    return bare


def defaults(node: ir.Node) -> Mapping[str, Any]:
    """Return the default values of attributes that may be left out."""
    known = definition(node.domain, node.op_type, node.graph.opset(node.domain)) if not node.is_call else None
    return known.defaults if known is not None else {}


def meaningful_attributes(node: ir.Node) -> list[onnx.AttributeProto]:
    """Return the attributes that have an effect.

    Those of a Conv without effect are left out: VALID without padding, and a kernel_shape that the weight implies.
    """
    found = list(node.proto.attribute)
    if not node.is_op("Conv") or node.has_references or len({each.name for each in found}) < len(found):
        return found
    pads, kernel = node.find("pads"), constant_of(node.input(1))
    sizes = [] if kernel is None else list(kernel.dims[2:])
    is_padded = pads is not None and (not pads.ints or any(pads.ints))
    return [
        each
        for each in found
        if not (each.name == "auto_pad" and each.s in (b"VALID", b"NOTSET") and not is_padded)
        and not (each.name == "kernel_shape" and sizes and list(each.ints) == sizes)
    ]


def signature(graph: ir.Graph) -> object:
    """Return the formal inputs and outputs in order, and for functions also the attributes with their defaults."""
    inputs = [value.name for value in graph.inputs]
    outputs = [(value.name, value.graph.path) for value in graph.outputs]
    if not isinstance(graph.proto, onnx.FunctionProto):
        return inputs, outputs
    defaults = sorted(attribute.SerializeToString(deterministic=True) for attribute in graph.proto.attribute_proto)
    return inputs, outputs, sorted(graph.proto.attribute), defaults


def _same_operator(old: ir.Node, new: ir.Node) -> bool:
    """Whether the meaning is the same. A default that only one version has is the behaviour of the other."""
    one, other = defaults(old), defaults(new)
    shared = [name for name in one.keys() & other.keys() if name not in old.attrs]
    return (
        meaning(old) == meaning(new)
        and getattr(old.proto, "overload", "") == getattr(new.proto, "overload", "")
        and all(one[name] == other[name] for name in shared)
    )
