"""Find discontinuous operators: one rounding in the input can change the result by any amount.

Models are compared at the *inputs* of such operators. Behind that, the rewritten model uses the original's values. So
both take the same side of each discontinuity, and the rest is compared as if nothing had come before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from bnfold import ir, reference
from bnfold.ir.elements import FLOATS
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.reference.forest import TREES
from bnfold.verification.tolerance.floats import is_float

_SLOTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        [
            "QuantizeLinear",
            "DynamicQuantizeLinear",
            "ArgMax",
            "ArgMin",
            "TopK",
            "Round",
            "Floor",
            "Ceil",
            "Sign",
            "NonZero",
            "Unique",
            "Hardmax",
            "Shrink",
            "ThresholdedRelu",
            "OneHot",
            "IsInf",
            "Not",
            "Bernoulli",
            "Multinomial",
        ],
        (0,),
    ),
    **dict.fromkeys(["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", "NonMaxSuppression", "Mod"], (0, 1)),
    **dict.fromkeys(["RoiAlign", "MaxRoiPool", "GridSample"], (1,)),
}


_LEARNED = frozenset(
    {
        *TREES,
        *("Binarizer", "Imputer", "LabelEncoder", "LinearClassifier", "OneHotEncoder"),
        *("SVMClassifier", "SVMRegressor"),
    }
)
"""Operators of ai.onnx.ml that compare their first input, or choose a class by it."""


def is_discontinuous(op_type: str) -> bool:
    """Whether the operator, of the default domain or ai.onnx.ml, can be discontinuous in one of its inputs."""
    return op_type in _SLOTS or op_type in _LEARNED or op_type in ("Cast", "CastLike", "MaxPool")


def discontinuous_slots(node: ir.Node) -> tuple[int, ...]:
    """Return the input slots of ``node`` at which a tiny difference can become a large one."""
    if node.domain == MACHINE_LEARNING:
        return (0,) if node.op_type in _LEARNED else ()
    if node.domain:
        return ()
    if node.is_op("Cast", "CastLike"):
        return () if not node.has_references and cast_target(node) in FLOATS else (0,)
    if node.is_op("MaxPool") and node.output(1) is not None:
        return (0,)
    return _SLOTS.get(node.op_type, ())


def discontinuities_differ(before: ir.Model, after: ir.Model) -> bool:
    """Whether the models' discontinuous operators read or produce values with different names.

    That is so if such an operator was moved, for instance.
    """
    known = (
        {
            (node.graph.path, *(value.name if value else "" for value in (*map(node.input, slots), *node.outputs)))
            for node in model.nodes()
            if (slots := discontinuous_slots(node))
        }
        for model in (before, after)
    )
    return next(known) != next(known)


def discontinuous_inputs(before: ir.Model, after: ir.Model) -> tuple[list[str], list[str]]:
    """Return names of values that discontinuous operators of ``after`` read.

    The first list has those that can be replaced by values of ``before``: values of both main graphs that nodes
    compute. The second list has the others. Values of a body cannot be replaced, because they cannot be observed.
    """
    common: dict[str, None] = {}
    alone: dict[str, None] = {}
    for value in read_discontinuously(after.nodes()):
        counterpart = before.graph.values.get(value.name)
        is_common = value.graph is after.graph and counterpart is not None and counterpart.producer is not None
        (common if is_common else alone)[value.name] = None
    return list(common), list(alone)


def read_discontinuously(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """Yield the computed values that discontinuous operators read and that may be floats.

    Constants and inputs are equal in both models anyway.
    """
    for node in nodes:
        for slot in discontinuous_slots(node):
            value = node.input(slot)
            if value is None or value.producer is None or reference.constant(value) is not None:
                continue
            if value.dtype is None or is_float(value.dtype):
                yield value


def lacks_types(model: ir.Model) -> bool:
    """Whether a discontinuous operator reads values of unknown types: what is rounded depends on them."""
    return any(value.dtype is None for value in read_discontinuously(model.nodes()))


def substitute(model: ir.Model, names: list[str]) -> tuple[ir.Model, dict[str, str]]:
    """Return a copy with a new input for each value in ``names``, and the name of each new input.

    Discontinuous operators read the new inputs in place of the values.
    """
    copy = model.clone()
    kinds = {name: model.graph.values[name].dtype for name in names}  # a copy has not what was inferred
    stand_ins = {name: _new_input(copy, f"{name}@before", kind) for name, kind in kinds.items()}
    for node in copy.nodes():
        for slot in discontinuous_slots(node):
            value = node.input(slot)
            if value is not None and value.graph is copy.graph and value.name in stand_ins:
                node.set_input(slot, stand_ins[value.name])
    return copy, {name: value.name for name, value in stand_ins.items()}


def _new_input(model: ir.Model, hint: str, dtype: int | None) -> ir.Value:
    """Add an input, also to the message: copies of the model then keep it even if only a body reads it.

    It has the element type of what it stands for: a float32 that is rounded may tie as one.
    """
    value = model.graph.fresh(hint)
    value.is_input = True
    model.graph.inputs.append(value)
    kind = onnx.helper.make_tensor_type_proto(dtype or onnx.TensorProto.UNDEFINED, None)
    model.graph.types[value.name] = kind
    model.proto.graph.input.add(name=value.name, type=kind)
    return value


def cast_target(node: ir.Node) -> int:
    """Return the type cast to: a name up to version 5, a number since then.

    FLOAT, which is no discontinuity, stands for an unknown type.
    """
    if node.is_op("CastLike"):
        like = node.input(1)
        return (like.dtype if like is not None else None) or onnx.TensorProto.FLOAT
    target = node.attr("to", onnx.TensorProto.FLOAT)
    if isinstance(target, str):
        target = dict(onnx.TensorProto.DataType.items()).get(target, onnx.TensorProto.FLOAT)
    return int(target)
