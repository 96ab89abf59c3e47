"""Compare two nodes of two models: operator, wiring, attributes and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.ir.elements import FLOATS
from bnfold.ir.node import attribute_value
from bnfold.ir.time_limit import look_at_clock
from bnfold.ir.value import Dim, Dims, moves_ones
from bnfold.reference.dispatch import definition, meaning
from bnfold.reference.legal import MEANINGLESS
from bnfold.reference.operators import MOVING, RESHAPING
from bnfold.verification.changes.copies import copied
from bnfold.verification.changes.extract import constant_of, draws
from bnfold.verification.changes.from_constants import are_one_constant, filled, fixed
from bnfold.verification.changes.partly import Partly, known_of
from bnfold.verification.tolerance.bits import same

_MANY = 1024
"""Pairs of values that are visited to find out whether two values are computed in the same way."""

_FAR = 64
"""How many such nodes in a row are followed back."""

_STATES = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6), "DynamicQuantizeLSTM": (5, 6)}
"""The inputs that hold a state: initial_h, and of an LSTM initial_c."""

_RANK = 3
"""Of a state: directions, batch, hidden units."""

_FEW = 32
"""Nodes that are visited to find out what a state is made of."""

_MOST_BYTES = 1 << 20
"""Bytes of a stored state that is read."""

_KEEPS_ZEROS = MOVING - {"Pad"} | {"Cast", "Identity"}
"""Operators that make zeros of zeros."""


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


def is_asked_for(old: ir.Node, new: ir.Node, are_equal: Callable[[ir.Value, ir.Value | None], bool]) -> bool:
    """Whether a Reshape of the rewritten model asks for the shape that is proven of the original's result.

    It reads what the original's node reads, or what that is made from by such nodes; ``are_equal`` compares values. One
    size may be open. It is what the others leave of the elements, in both models.
    """
    made, target = old.output(0), fixed(new.input(1)) if new.is_op("Reshape") else None
    if not old.has_trait(RESHAPING) or made is None or target is None or old.has_references or new.has_references:
        return False
    known, goals = known_of(old.graph.model), target.numpy().reshape(-1).tolist()
    dims = _proven(old, made)
    if dims is None or len(dims) != len(goals) or goals.count(-1) > 1:
        return False
    if -1 in goals and 0 in goals and not _is_open(old, goals.index(-1)):
        return False  # of no elements, it would not be known how many are left
    data = next((value for value in _in_order(old.input(0)) if are_equal(value, new.input(0))), None)
    if data is None:
        return False
    sizes = _asked(goals, () if new.attr("allowzero", 0) else known.dims(data) or ())
    return all(goal == -1 or goal == dim is not None for goal, dim in zip(sizes, dims, strict=True))


def _proven(node: ir.Node, made: ir.Value) -> Dims | None:
    """Return the sizes of a result, as inferred, or as the target of a Reshape states them."""
    known = known_of(node.graph.model)
    dims, target = known.dims(made), _target(node)
    if target is None or (dims is not None and len(dims) != target.elements.size):
        return dims
    stated = np.where(target.unknown, 0, target.elements).tolist()
    return tuple(size if size > 0 else dim for size, dim in zip(stated, dims or [None] * len(stated), strict=True))


def _target(node: ir.Node) -> Partly | None:
    """Return what is known of the target of a Reshape."""
    stated = node.input(1) if node.is_op("Reshape") else None  # up to opset 4, it is an attribute
    found = known_of(node.graph.model).of(stated) if stated is not None else None
    return found if found is not None and found.elements.ndim == 1 else None


def _asked(goals: Sequence[int], given: Dims) -> Iterator[int | str | None]:
    """Yield the sizes of a target; 0 stands for the size that is ``given`` on this axis, None for one not known."""
    for goal, size in zip_longest(goals, given[: len(goals)]):
        yield size if goal == 0 else goal


def _is_open(node: ir.Node, axis: int) -> bool:
    """Whether a Reshape leaves the size of an axis to be inferred as well."""
    target = _target(node)
    return target is not None and not target.unknown[axis] and target.elements[axis] == -1


def _in_order(value: ir.Value | None) -> Iterator[ir.Value]:
    """Yield the value, and those whose elements it has in the same order, through any number of nodes."""
    for _ in range(_FAR):
        if value is None:
            return
        yield value
        producer = value.producer
        if producer is None or not (producer.has_trait(RESHAPING) or _moves_ones(producer)):
            return
        value = producer.input(0)


def _moves_ones(node: ir.Node) -> bool:
    """Whether a node is a Transpose that moves only axes of one element."""
    source = node.input(0) if node.is_op("Transpose") else None
    dims = known_of(node.graph.model).dims(source) if source is not None else None
    if dims is None or node.has_references:
        return False
    return moves_ones(node.attr("perm", [*reversed(range(len(dims)))]), dims)


def is_left_out(old: ir.Node, new: ir.Node, slot: int) -> bool:
    """Whether ``new`` has no input at ``slot``, and ``old`` has a state of zeros there.

    A state that only ``new`` has is compared by running it: its sizes may be wrong. A state of other sizes than the
    operator's makes every run fail. So it is none, if its sizes are known to differ.
    """
    state = old.input(slot)
    is_state = slot in _STATES.get(old.op_type, ()) and old.is_known and not (old.has_references or old.is_call)
    if state is None or new.input(slot) is not None or not is_state or old.attr("layout", 0) or not _is_zero(state):
        return False
    known = known_of(old.graph.model)
    steps, recurrence, dims = (
        None if value is None else known.dims(value) for value in (old.input(0), old.input(2), state)
    )
    if dims is None or recurrence is None or len(dims) != _RANK or len(recurrence) != _RANK:
        return False
    hidden = old.attr("hidden_size", None if old.domain else recurrence[2])
    batch = steps[1] if steps is not None and len(steps) == _RANK else None
    return all(map(_may_be_equal, dims, (recurrence[0], batch, hidden)))


def _is_zero(state: ir.Value) -> bool:
    """Whether every element is 0 in every run, at whatever size. A number of the other sign, -0, is none."""
    waiting, seen = [state], {state}
    while waiting:
        value = waiting.pop()
        node = value.producer
        if value.stored_bytes > _MOST_BYTES:
            return False
        if (held := reference.constant(value)) is not None:
            if held.dtype not in FLOATS or any(held.numpy().tobytes()):
                return False
        elif node is None or node.domain or node.has_references or node.is_call or len(seen) > _FEW:
            return False
        elif node.is_op("ConstantOfShape"):
            fill = filled(node, ())
            if fill is None or any(fill.numpy().tobytes()):
                return False
        elif node.has_trait(_KEEPS_ZEROS):
            sources = [source for source in node.inputs[: None if node.is_op("Concat") else 1] if source is not None]
            waiting += [source for source in sources if source not in seen]
            seen.update(sources)
        else:
            return False
    return True


def _may_be_equal(one: Dim, other: Dim) -> bool:
    """Whether two sizes may be equal in each run.

    The name of an input's size has a colon. Of a size that inference names, nothing is known.
    """
    return one == other or any(size is None or (isinstance(size, str) and ":" not in size) for size in (one, other))
