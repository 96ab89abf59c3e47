"""What counts as a constant: initializers, Constant nodes, and chains over them that can be evaluated exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bnfold.analysis import choosing, deciding, quantizing, summing  # noqa: F401 - they register their operators
from bnfold.analysis.derived import Derived
from bnfold.analysis.evaluators import evaluate, has_evaluator
from bnfold.analysis.traits import DRAWING
from bnfold.errors import ExternalDataError, MistypedAttribute
from bnfold.ir.elements import LIMIT
from bnfold.ir.memory import Keeping, Memory
from bnfold.ir.sparse import dense
from bnfold.ir.tensor import TP, InMemory, Tensor, numpy_type
from bnfold.ir.time_limit import look_at_clock

if TYPE_CHECKING:
    from bnfold.ir.model import Model
    from bnfold.ir.node import Node
    from bnfold.ir.value import Dim, Value


def constant(value: Value | None) -> Tensor | None:
    """Return the tensor that ``value`` is in every run of the model; None when that is not certain."""
    if value is None:
        return None
    model = value.graph.model
    if value.tensor_proto is not None:
        return value.tensor if model.is_constant_initializer(value) else None
    if value.is_input or _is_computed(value):
        return None
    if (running := EVALUATIONS.of(model)) is not None:
        return running.of(value)
    evaluation = ConstantEvaluation()
    found = evaluation.of(value)
    evaluation.release()
    return found


def stored(value: Value) -> Tensor | None:
    """Return the tensor that a constant is stored as, in an initializer or a Constant node; nothing is computed."""
    producer = value.producer
    if value.tensor_proto is None and (producer is None or producer.op_type != "Constant"):
        return None
    return constant(value)


def known_shape(value: Value | None) -> tuple[Dim, ...] | None:
    """Return the dims of a value as far as they are known, from its annotation or else from its constant."""
    if value is not None and value.shape is None and (held := constant(value)) is not None:
        return held.dims
    return None if value is None else value.shape


_FEW = 16
"""Nodes that are visited to describe, for the user, what a value is computed from."""


def is_made_of_constants(value: Value) -> bool:
    """Whether a few nodes make a value of constants, also where none of them is evaluated."""
    stack, seen = [value], {value}
    while stack:
        read = stack.pop()
        if constant(read) is not None:
            continue
        producer = read.producer
        if (
            producer is None
            or producer.subgraphs
            or producer.has_trait(DRAWING)
            or not any(producer.inputs)
            or len(seen) > _FEW
        ):
            return False
        fresh = [source for source in producer.inputs if source is not None and source not in seen]
        seen.update(fresh)
        stack += fresh
    return True


def _is_computed(value: Value) -> bool:
    """Whether one look shows that the value is none: most are made by an operator that is not evaluated."""
    if value.tensor_proto is not None:
        return False
    producer = value.producer
    return producer is None or not (has_evaluator(producer) or producer.op_type == "Constant")


MAX_DEPTH = 64
"""Steps that a chain may have: longer ones do not occur, except in a hostile file, where they would take all day."""

_ILL_FORMED = (ValueError, IndexError, ZeroDivisionError, ExternalDataError, MistypedAttribute)
"""What a chain raises that does not fit together. A TypeError would be our own mistake, a full memory no answer."""
_LITERALS = {"value_float": TP.FLOAT, "value_floats": TP.FLOAT, "value_int": TP.INT64, "value_ints": TP.INT64}


class ConstantEvaluation:
    """The values of chains of constants, kept until the graph changes; long chains do not recurse.

    `analysis.shapes.queries` keeps in ``channels`` the sizes of axis 1 that follow from weights.
    """

    def __init__(self) -> None:
        self.channels: dict[Value, int] = {}
        self._known: dict[Value, Tensor | None] = {}

    def of(self, target: Value) -> Tensor | None:
        stack = [target]
        while stack:
            value = stack[-1]
            if value in self._known:
                stack.pop()
                continue
            look_at_clock()
            node = value.producer
            if node is None or value.tensor_proto is not None or node.domain or not has_evaluator(node):
                self._known[value] = self._leaf(value)
                continue
            sources = dict.fromkeys(source for source in node.inputs if source is not None)
            waiting = [source for source in sources if source not in self._known]
            hopeless = any(self._known.get(source, self) is None for source in sources)
            if hopeless or any(map(_is_computed, waiting)) or (waiting and len(stack) > MAX_DEPTH):
                self._known[value] = None
            elif waiting:
                stack.append(waiting[0])  # if it is no constant, the others are not needed
            else:
                self._known[value] = self._evaluate(node, value.slot)
        return self._known[target]

    def release(self) -> None:
        """Forget the values of large constants, which are computed anew on demand."""
        for tensor in self._known.values():
            if isinstance(tensor, Derived):
                tensor.release()

    @staticmethod
    def _leaf(value: Value) -> Tensor | None:
        if value.tensor_proto is not None:
            return value.tensor if value.graph.model.is_constant_initializer(value) else None
        node = value.producer
        return _constant_node(node) if node is not None and node.is_op("Constant") else None

    def _evaluate(self, node: Node, slot: int) -> Tensor | None:
        operands = [self._known[source] if source is not None else None for source in node.inputs]
        if node.has_references or node.is_call or (len(node.outputs) != 1 and node.op_type != "Split"):
            return None
        if any(operand is not None and operand.size > LIMIT for operand in operands):
            return None
        try:
            return evaluate(node, operands, slot)
        except _ILL_FORMED:
            return None  # an ill-formed chain is not a constant; running the model reports the error


def _constant_node(node: Node) -> Tensor | None:
    output = node.outputs[0]
    if output is None or node.has_references or len(node.proto.attribute) > 1:  # several are ambiguous
        return None
    if (held := output.pending_tensor) is not None:
        return held
    try:
        return _literal(node)
    except (ValueError, IndexError, MistypedAttribute):
        return None


def _literal(node: Node) -> Tensor | None:
    """Return what a Constant holds. Raises ValueError, IndexError or MistypedAttribute for what is damaged."""
    attributes, model = node.attrs, node.graph.model
    if "value" in attributes:
        return model.tensor(attributes["value"].t)
    if "sparse_value" in attributes:
        proto = attributes["sparse_value"].sparse_tensor
        return InMemory(proto.values.data_type, dense(model, proto))
    for name, dtype in _LITERALS.items():
        if name in attributes:
            return InMemory(dtype, np.array(node.attr(name), dtype=numpy_type(dtype)))
    return None


EVALUATIONS = Memory(ConstantEvaluation, ConstantEvaluation.release)
"""The evaluations of the models whose constants are evaluated once."""


def evaluated_once(model: Model) -> Keeping[ConstantEvaluation]:
    """Evaluate no chain of constants of a model twice inside this context, in which nothing may edit the graph."""
    return EVALUATIONS.keeping(model)
